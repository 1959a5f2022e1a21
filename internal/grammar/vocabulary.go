package grammar

import (
	"bytes"
	"fmt"
	"slices"
)

// Vocabulary is the tokens of a tokenizer as bytes. It is immutable and safe for concurrent use.
type Vocabulary struct {
	size    int
	pieces  [][]byte         // [size] the bytes of each token; empty for tokens without text
	ends    []int32          // tokens that end a text
	isEnd   map[int32]bool   // of ends
	special map[string]int32 // tokens that only a token literal matches, by their text
	texts   map[int32]string // the texts of special
	tries   [2]trie          // of short tokens and of long ones
}

// NewVocabulary returns the vocabulary of tokens [n_vocab]: the bytes that each stands for, empty for control tokens
// and others without a text. ends are the tokens that end a text; special names tokens without bytes for a grammar's
// token literals. It keeps tokens.
func NewVocabulary(tokens [][]byte, ends []int32, special map[string]int32) (*Vocabulary, error) {
	v := &Vocabulary{size: len(tokens), pieces: tokens, ends: slices.Clone(ends), isEnd: map[int32]bool{}, special: map[string]int32{}, texts: map[int32]string{}}
	for _, id := range ends {
		if id < 0 || int(id) >= len(tokens) {
			return nil, fmt.Errorf("end token %d is outside the vocabulary of %d", id, len(tokens))
		}
		v.isEnd[id] = true
	}
	for text, id := range special {
		if id < 0 || int(id) >= len(tokens) {
			return nil, fmt.Errorf("token %d (%q) is outside the vocabulary of %d", id, text, len(tokens))
		}
		v.special[text], v.texts[id] = id, text
	}
	var short, long []int32
	for id, piece := range tokens {
		switch {
		case len(piece) == 0 || v.isEnd[int32(id)]:
		case len(piece) <= shortToken:
			short = append(short, int32(id))
		case len(piece) <= longestToken:
			long = append(long, int32(id))
		default:
			return nil, fmt.Errorf("token %d has %d bytes, more than %d", id, len(piece), longestToken)
		}
	}
	for i, order := range [][]int32{short, long} {
		slices.SortFunc(order, func(a, b int32) int { return bytes.Compare(tokens[a], tokens[b]) })
		v.tries[i] = newTrie(tokens, order)
	}
	return v, nil
}

// shortToken is the length in bytes that most tokens do not exceed. A long count allows the same for all of these (see
// canonical), so the few longer ones, mostly runs of one character, have a trie of their own.
const shortToken = 16

// Size returns the number of tokens.
func (v *Vocabulary) Size() int { return v.size }

// text returns a token's bytes, or its text if it stands for none.
func (v *Vocabulary) text(id int32) []byte {
	if len(v.pieces[id]) == 0 {
		return []byte(v.texts[id])
	}
	return v.pieces[id]
}

// none is no token.
const none = -1

// resolve returns the id of a token literal, or none if it may be missing and is.
func (v *Vocabulary) resolve(l tokenLiteral) (int32, error) {
	if l.optional {
		if id, ok := v.special[l.text]; ok {
			return id, nil
		}
		return none, nil
	}
	if l.text == "" {
		if int(l.id) >= v.size {
			return 0, fmt.Errorf("%s is outside the vocabulary of %d tokens", l, v.size)
		}
		return l.id, nil
	}
	if id := v.Find(l.text); id >= 0 {
		return id, nil
	}
	return 0, fmt.Errorf("%s is no single token of this vocabulary", l)
}

// Find returns a token that stands for text, -1 if none does.
func (v *Vocabulary) Find(text string) int32 {
	if id, ok := v.special[text]; ok {
		return id
	}
	return int32(slices.IndexFunc(v.pieces, func(p []byte) bool { return string(p) == text }))
}
