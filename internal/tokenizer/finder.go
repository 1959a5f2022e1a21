package tokenizer

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// prefixTree finds the strings of a list that a text begins with.
type prefixTree struct {
	first [256]bool  // first bytes of the strings
	edges *pairTable // node, byte -> node; the root is 0
	value []int32    // node -> value of the string that ends here, -1: none
}

func newPrefixTree(size int) *prefixTree {
	return &prefixTree{edges: newPairTable(size), value: []int32{-1}}
}

func (t *prefixTree) add(text string, value int32) {
	if text == "" {
		return
	}
	node := int32(0)
	for i := range len(text) {
		next, _, ok := t.edges.get(node, int32(text[i]))
		if !ok {
			next = int32(len(t.value))
			t.edges.set(node, int32(text[i]), next, 0)
			t.value = append(t.value, -1)
		}
		node = next
	}
	t.first[text[0]] = true
	t.value[node] = value
}

// longest returns the value and size of the longest string that text begins with; size 0: none.
func (t *prefixTree) longest(text string) (value int32, size int) {
	node, ok := int32(0), true
	for i := range len(text) {
		if node, _, ok = t.edges.get(node, int32(text[i])); !ok {
			break
		}
		if v := t.value[node]; v >= 0 {
			value, size = v, i+1
		}
	}
	return value, size
}

// finder finds added tokens in a text as Hugging Face's library does: from left to right, the longest that begins at
// a place.
type finder struct {
	tree   *prefixTree
	tokens []foundToken
}

type foundToken struct {
	id                     int32
	special                bool
	single, lstrip, rstrip bool
}

// newFinder enters the tokens that are looked for before the normalizer (normalize nil) or after it.
func newFinder(added []AddedToken, normalize []rule, v *Vocab, after bool) *finder {
	f := &finder{tree: newPrefixTree(64)}
	for _, a := range added {
		if a.Normalized != after || a.Template {
			continue
		}
		text := a.Content
		if after {
			text = apply(normalize, text)
		}
		if text == "" {
			continue
		}
		kind := v.kind(a.ID)
		special := a.Special || kind == Control || kind == Unknown
		f.tree.add(text, int32(len(f.tokens)))
		f.tokens = append(f.tokens, foundToken{a.ID, special, a.SingleWord, a.LStrip, a.RStrip})
	}
	if len(f.tokens) == 0 {
		return nil
	}
	return f
}

// cut calls emit for tokens (id) and for the text between them (id -1, never empty). start says that a part stands at
// the text's begin.
func (f *finder) cut(text string, parseSpecial bool, emit func(part string, id int32, start bool)) {
	if f == nil {
		if text != "" {
			emit(text, -1, true)
		}
		return
	}
	done := 0
	for at := 0; at < len(text); {
		if !f.tree.first[text[at]] {
			at++
			continue
		}
		value, size := f.tree.longest(text[at:])
		if size == 0 {
			at++
			continue
		}
		start, end, token := at, at+size, &f.tokens[value]
		at = end
		if token.special && !parseSpecial || token.single && (endsWithWord(text[:start]) || beginsWithWord(text[end:])) {
			continue
		}
		if token.lstrip {
			start = max(done, len(strings.TrimRightFunc(text[:start], unicode.IsSpace)))
		}
		if token.rstrip {
			end = len(text) - len(strings.TrimLeftFunc(text[end:], unicode.IsSpace))
		}
		if done < start {
			emit(text[done:start], -1, done == 0)
		}
		emit(text[start:end], token.id, start == 0)
		done = end
	}
	if done < len(text) {
		emit(text[done:], -1, done == 0)
	}
}

func isWord(r rune) bool {
	return r == '_' || unicode.In(r, unicode.L, unicode.M, unicode.Nd, unicode.Nl, unicode.Pc, unicode.Join_Control, unicode.Other_Alphabetic)
}

func endsWithWord(s string) bool {
	r, n := utf8.DecodeLastRuneInString(s)
	return n > 0 && isWord(r)
}

func beginsWithWord(s string) bool {
	r, n := utf8.DecodeRuneInString(s)
	return n > 0 && isWord(r)
}
