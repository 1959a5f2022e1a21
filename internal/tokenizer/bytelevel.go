package tokenizer

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// byteLevel holds what model "gpt2" needs beside the token texts. Its symbols are numbered like the tokens; those of
// merges that are no tokens have numbers beyond.
type byteLevel struct {
	bytes  [256]int32       // byte -> symbol
	merges map[uint64]merge // left<<32 | right -> what they become
	beyond []string         // texts of the symbols that are no tokens
	split  splitter
	whole  map[string]int32 // bytes -> token, if a word that is a token needs no merges; else nil
}

type merge struct {
	rank int // line in the list; the lowest goes first
	id   int32
}

func newByteLevel(v *Vocab, ids map[string]int32) (*byteLevel, error) {
	pre, err := preTokenizer(v.Pre)
	if err != nil {
		return nil, err
	}
	b := &byteLevel{merges: make(map[uint64]merge, len(v.Merges)), split: pre.split}
	extra := map[string]int32{}
	symbol := func(text string) int32 {
		if id, ok := ids[text]; ok {
			return id
		}
		id, ok := extra[text]
		if !ok {
			id = int32(len(v.Tokens) + len(b.beyond))
			extra[text] = id
			b.beyond = append(b.beyond, text)
		}
		return id
	}
	for i := range b.bytes {
		b.bytes[i] = symbol(string(byteRune(byte(i))))
	}
	if len(v.Merges) > 1<<28 { // three new symbols a merge at most: ids stay within 32 bits
		return nil, fmt.Errorf("%d merges are too many", len(v.Merges))
	}
	for rank, text := range v.Merges {
		left, right, ok := strings.Cut(text, " ")
		if !ok || left == "" || right == "" || strings.Contains(right, " ") {
			return nil, fmt.Errorf("merge %d: %.40q is not two symbols with a space between them", rank, text)
		}
		key := uint64(symbol(left))<<32 | uint64(symbol(right))
		if _, ok := b.merges[key]; !ok {
			b.merges[key] = merge{rank, symbol(left + right)}
		}
	}
	if pre.wholeWords {
		b.whole = make(map[string]int32, len(v.Tokens))
		for id, text := range v.Tokens {
			if v.kind(int32(id)) == Normal && text != "" {
				b.whole[bytesOf(text)] = int32(id)
			}
		}
	}
	return b, nil
}

// byteLevelWord appends the tokens of a word that the pre-tokenizer has split off.
func (e *encoder) byteLevelWord(word string) { e.word(word, e.mergeBytes) }

func (e *encoder) mergeBytes(word string) {
	b, m := e.t.bpe, &e.merger
	if id, ok := b.whole[word]; ok {
		e.out = append(e.out, id)
		return
	}
	m.symbols = m.symbols[:0]
	for i := range len(word) {
		m.add(i, i+1, b.bytes[word[i]])
	}
	m.merge(func(left, right *symbol) (int32, float64, bool) {
		merged, ok := b.merges[uint64(left.id)<<32|uint64(right.id)]
		return merged.id, -float64(merged.rank), ok
	})
	for i := 0; i >= 0; i = m.symbols[i].next {
		s := &m.symbols[i]
		if int(s.id) < e.t.Size() {
			e.out = append(e.out, s.id)
			continue
		}
		for j := s.start; j < s.end; j++ { // merged into what is no token: spelled
			if id := b.bytes[word[j]]; int(id) < e.t.Size() {
				e.out = append(e.out, id)
			} else if e.t.v.UNK >= 0 {
				e.out = append(e.out, e.t.v.UNK)
			}
		}
	}
}

// byteRune returns the character that stands for a byte in token texts: itself where it is printable and no space,
// else one from U+0100 on in the order of the bytes (GPT-2, encoder.py, bytes_to_unicode).
func byteRune(b byte) rune {
	switch {
	case b <= ' ':
		return 0x100 + rune(b)
	case b >= 0x7F && b <= 0xA0:
		return 0x121 + rune(b-0x7F)
	case b == 0xAD:
		return 0x143
	}
	return rune(b)
}

// runeByte undoes byteRune.
func runeByte(r rune) (byte, bool) {
	switch {
	case r >= 0x100 && r <= 0x120:
		return byte(r - 0x100), true
	case r >= 0x121 && r <= 0x142:
		return byte(r-0x121) + 0x7F, true
	case r == 0x143:
		return 0xAD, true
	}
	return byte(r), r > 0 && r <= 0xFF && byteRune(byte(r)) == r
}

// bytesOf returns what a token's text stands for; characters that stand for no byte stay themselves.
func bytesOf(text string) string {
	out := make([]byte, 0, len(text))
	for i := 0; i < len(text); {
		r, n := utf8.DecodeRuneInString(text[i:])
		if b, ok := runeByte(r); ok {
			out = append(out, b)
		} else {
			out = append(out, text[i:i+n]...)
		}
		i += n
	}
	return string(out)
}
