package tokenizer

import (
	"strings"
	"unicode/utf8"
)

// wordPiece writes a word as its longest prefix that is a token, then the longest continuation, and so on; if that
// fails the word is unknown (google-research/bert, tokenization.py).
type wordPiece struct {
	begin, further *prefixTree
	unknown        int32
	limit          int // characters; longer words are unknown
}

// newWordPiece builds the model from tokens as GGUF files have them: with ▁ before what begins a word.
func newWordPiece(ids map[string]int32, unknown int32) *wordPiece {
	w := &wordPiece{begin: newPrefixTree(4 * len(ids)), further: newPrefixTree(4 * len(ids)), unknown: unknown, limit: 100}
	for text, id := range ids {
		if rest, ok := strings.CutPrefix(text, space); ok && rest != "" {
			w.begin.add(rest, id)
		} else {
			w.further.add(text, id)
		}
	}
	return w
}

func (w *wordPiece) encode(e *encoder, word string) { e.remember(word, w) }

// encodeNew implements slowEncoder.
func (w *wordPiece) encodeNew(e *encoder, word string) {
	start, tree := len(e.out), w.begin
	if utf8.RuneCountInString(word) > w.limit {
		e.out = append(e.out, w.unknown)
		return
	}
	for word != "" {
		id, n := tree.longest(word)
		if n == 0 {
			e.out = append(e.out[:start], w.unknown)
			return
		}
		e.out = append(e.out, id)
		word, tree = word[n:], w.further
	}
}
