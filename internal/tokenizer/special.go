package tokenizer

import (
	"cmp"
	"slices"
	"strings"
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
		// Of equal texts the first counts, but one that is always recognised comes before others.
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

// occurrences returns all of them. It calls ask with the bytes of memory that many take, and ends if that returns
// false.
func (t *trie) occurrences(text string, parseSpecial bool, ask func(n int) bool) []occurrence {
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
				if n := len(found); n == cap(found) && n*perOccurrence > longWord {
					if !ask(n * perOccurrence) {
						return nil
					}
					found = slices.Grow(found, n)
				}
				found = append(found, occurrence{start, end + 1 - start, id})
			}
		}
	}
	return found
}

// perOccurrence is the bytes of memory that an occurrence takes: itself, twice as the list grows, and two fragments.
const perOccurrence = 96

// fragment is a part of the text: a special token, or text between them (id -1, never empty).
type fragment struct {
	text string
	id   int32
}

// fragments cuts the text at special tokens. In the whole text a longer token takes precedence over a shorter one that
// overlaps it, wherever they begin; of equally long ones that overlap, the lower id, then the left one. See occurrences
// for ask.
func (t *Tokenizer) fragments(text string, parseSpecial bool, ask func(n int) bool) []fragment {
	if text == "" {
		return nil
	}
	found := t.specials.occurrences(text, parseSpecial, ask)
	if len(found) == 0 {
		return []fragment{{text, -1}}
	}
	slices.SortFunc(found, func(a, b occurrence) int {
		return cmp.Or(cmp.Compare(b.size, a.size), cmp.Compare(a.id, b.id), cmp.Compare(a.start, b.start))
	})
	taken := make([]bool, len(text))
	kept := found[:0]
	for _, o := range found {
		// Earlier ones are no shorter, so an overlap covers one of the ends.
		if taken[o.start] || taken[o.start+o.size-1] {
			continue
		}
		for i := range o.size {
			taken[o.start+i] = true
		}
		kept = append(kept, o)
	}
	slices.SortFunc(kept, func(a, b occurrence) int { return cmp.Compare(a.start, b.start) })
	parts := make([]fragment, 0, 2*len(kept)+1)
	end := 0
	for _, o := range kept {
		if before := t.stripped(text[min(end, o.start):o.start], o.id); before != "" {
			parts = append(parts, fragment{before, -1})
		}
		end = o.start + o.size
		parts = append(parts, fragment{text[o.start:end], o.id})
		if slices.Contains(t.v.StripAfter, o.id) {
			end = len(text) - len(strings.TrimLeft(text[end:], asciiSpace))
		}
	}
	if end < len(text) {
		parts = append(parts, fragment{text[end:], -1})
	}
	return parts
}

// asciiSpace is the white space that tokens take with them: C's.
const asciiSpace = " \t\n\v\f\r"

// stripped returns the text before the special token id, without white space if the token takes it.
func (t *Tokenizer) stripped(before string, id int32) string {
	if slices.Contains(t.v.StripBefore, id) {
		return strings.TrimRight(before, asciiSpace)
	}
	return before
}

// StripAsNamed sets StripBefore and StripAfter by the names in a file, because GGUF files have no keys for them, as
// llama.cpp does: the mask of the jina, nomic and modern BERT models takes the white space before it, special tokens of
// Phi-3 the white space after them.
//
// Source: llama.cpp's src/llama-vocab.cpp (at 3f545bec).
func (v *Vocab) StripAsNamed(model, architecture string) {
	in := func(s string, words ...string) bool {
		return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(s, w) })
	}
	before := func(text string) {
		if id := slices.Index(v.Tokens, text); id >= 0 {
			v.StripBefore = append(v.StripBefore, int32(id))
		}
	}
	switch model = strings.ToLower(model); {
	case in(v.Pre, "jina-v2-de", "jina-v2-es", "jina-v2-code") || in(architecture, "nomic-bert-moe", "jina-bert-v3"):
		before("<mask>")
	case in(model, "phi-3", "phi3"):
		for id, text := range v.Tokens {
			kind := v.kind(int32(id))
			special := kind == Control || kind == UserDefined || kind == Unknown
			if text == "</s>" || special && !slices.Contains([]string{"<unk>", "<s>", "<|endoftext|>"}, text) {
				v.StripAfter = append(v.StripAfter, int32(id))
			}
		}
	case in(model, "modern-bert"):
		before("[MASK]")
	}
}
