package tokenizer

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// pair is a merge's two sides.
type pair struct{ left, right string }

func (t *Tokenizer) initBPE() error {
	split, err := preTokenizer(t.v.Pre)
	if err != nil {
		return err
	}
	ranks := make(map[pair]float32, len(t.v.Merges))
	for i, m := range t.v.Merges {
		left, right, ok := strings.Cut(m, " ")
		if !ok || left == "" || right == "" {
			return fmt.Errorf("tokenizer: merge %d %q is not two parts with a space between", i, m)
		}
		if p := (pair{left, right}); ranks[p] == 0 {
			ranks[p] = -float32(i + 1)
		}
	}
	toRune, toByte := byteAlphabet()
	t.pieces = make([][]byte, len(t.v.Tokens))
	for i, s := range t.v.Tokens {
		if t.v.Types[i] == UserDefined || t.v.Types[i] == Control {
			t.pieces[i] = []byte(s)
			continue
		}
		for _, r := range s {
			if b, ok := toByte[r]; ok {
				t.pieces[i] = append(t.pieces[i], b)
			} else {
				t.pieces[i] = utf8.AppendRune(t.pieces[i], r)
			}
		}
	}
	e := &bpe{t: t, ranks: ranks, alphabet: toRune, split: split, whole: wholeWords(t.v.Pre)}
	t.encode = e.encode
	return nil
}

// wholeWords reports whether a word that is a token is taken whole, whatever the merges say (llama3).
func wholeWords(pre string) bool {
	return pre == "llama-bpe" || pre == "llama3" || pre == "llama-v3"
}

// byteAlphabet is GPT-2's mapping of bytes to printable code points: printable Latin-1 stands for
// itself, the other bytes for U+0100 onwards in order (Radford et al. 2019, encoder.py).
func byteAlphabet() (toRune [256]string, toByte map[rune]byte) {
	toByte = make(map[rune]byte, 256)
	next := rune(256)
	for b := range 256 {
		r := rune(b)
		if !(b >= '!' && b <= '~' || b >= 0xa1 && b <= 0xac || b >= 0xae) {
			r = next
			next++
		}
		toRune[b] = string(r)
		toByte[r] = byte(b)
	}
	return toRune, toByte
}

// bpe is byte-level byte-pair encoding.
type bpe struct {
	t        *Tokenizer
	ranks    map[pair]float32 // minus the merge's rank, from -1
	alphabet [256]string
	split    func(text string, word func(string))
	whole    bool
}

func (e *bpe) encode(text string, out []int32) []int32 {
	cache := map[string][]int32{} // words repeat
	e.split(text, func(word string) {
		ids, ok := cache[word]
		if !ok {
			ids = e.word(word)
			cache[word] = ids
		}
		out = append(out, ids...)
	})
	return out
}

// word merges the letters of one word, lowest rank first.
func (e *bpe) word(word string) []int32 {
	var b strings.Builder
	for i := range len(word) {
		b.WriteString(e.alphabet[word[i]])
	}
	text := b.String()
	if id, ok := e.t.ids[text]; ok && e.whole {
		return []int32{id}
	}
	symbols := runes(text)
	merge(text, symbols, func(left, right string) (float32, bool) {
		rank, ok := e.ranks[pair{left, right}]
		return rank, ok
	})
	var out []int32
	for i := 0; i >= 0 && i < len(symbols); i = symbols[i].next {
		piece := text[symbols[i].start:][:symbols[i].len]
		if id, ok := e.t.ids[piece]; ok {
			out = append(out, id)
			continue
		}
		for _, r := range piece { // letters without a token of their own are dropped, as llama.cpp does
			if id, ok := e.t.ids[string(r)]; ok {
				out = append(out, id)
			}
		}
	}
	return out
}
