package tokenizer

import (
	"cmp"
	"slices"
)

// trie finds which special tokens begin at a place of the text.
type trie struct {
	first [256]bool        // bytes that begin a special token
	next  map[uint64]int32 // node<<8 | byte -> node; the root is 0
	token []int32          // node -> id of the token that ends here, -1 if none
	user  []bool           // node -> its token is user-defined: recognised in every text
}

// newTrie enters the tokens that Encode may take from the text whole.
func newTrie(v *Vocab) trie {
	t := trie{next: map[uint64]int32{}, token: []int32{-1}, user: []bool{false}}
	for id, text := range v.Tokens {
		kind := v.kind(int32(id))
		if text == "" || kind != Control && kind != UserDefined && kind != Unknown {
			continue
		}
		node := int32(0)
		for i := range len(text) {
			edge := uint64(node)<<8 | uint64(text[i])
			child, ok := t.next[edge]
			if !ok {
				child = int32(len(t.token))
				t.next[edge] = child
				t.token, t.user = append(t.token, -1), append(t.user, false)
			}
			node = child
		}
		t.first[text[0]] = true
		// Of equal texts the first counts, but one that is always recognised before one that is not.
		if t.token[node] < 0 || kind == UserDefined && !t.user[node] {
			t.token[node], t.user[node] = int32(id), kind == UserDefined
		}
	}
	return t
}

// occurrence is a special token's text in the text.
type occurrence struct {
	start, size int
	id          int32
}

func (t *trie) occurrences(text string, parseSpecial bool) []occurrence {
	var found []occurrence
	for start := range len(text) {
		if !t.first[text[start]] {
			continue
		}
		node, ok := int32(0), true
		for end := start; end < len(text); end++ {
			if node, ok = t.next[uint64(node)<<8|uint64(text[end])]; !ok {
				break
			}
			if id := t.token[node]; id >= 0 && (parseSpecial || t.user[node]) {
				found = append(found, occurrence{start, end + 1 - start, id})
			}
		}
	}
	return found
}

// fragment is a part of the text: a special token, or text between them (id -1, never empty).
type fragment struct {
	text string
	id   int32
}

// fragments cuts the text at special tokens. Over the whole text a longer token goes before a shorter one that
// overlaps it, wherever they begin; of equally long ones that overlap, the lower id goes first, then the left one.
func (t *Tokenizer) fragments(text string, parseSpecial bool) []fragment {
	if text == "" {
		return nil
	}
	found := t.specials.occurrences(text, parseSpecial)
	if len(found) == 0 {
		return []fragment{{text, -1}}
	}
	slices.SortFunc(found, func(a, b occurrence) int {
		return cmp.Or(cmp.Compare(b.size, a.size), cmp.Compare(a.id, b.id), cmp.Compare(a.start, b.start))
	})
	taken := make([]bool, len(text))
	kept := found[:0]
	for _, o := range found {
		// What is taken already is no shorter, so an overlap covers one of the ends.
		if taken[o.start] || taken[o.start+o.size-1] {
			continue
		}
		for i := range o.size {
			taken[o.start+i] = true
		}
		kept = append(kept, o)
	}
	slices.SortFunc(kept, func(a, b occurrence) int { return cmp.Compare(a.start, b.start) })
	var parts []fragment
	end := 0
	for _, o := range kept {
		if o.start > end {
			parts = append(parts, fragment{text[end:o.start], -1})
		}
		end = o.start + o.size
		parts = append(parts, fragment{text[o.start:end], o.id})
	}
	if end < len(text) {
		parts = append(parts, fragment{text[end:], -1})
	}
	return parts
}
