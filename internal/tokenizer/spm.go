package tokenizer

import (
	"container/heap"
	"fmt"
	"math"
	"strings"
	"unicode/utf8"
)

// space is U+2581, which SentencePiece writes for a space.
const space = "\u2581"

func (t *Tokenizer) initSPM() error {
	n := len(t.v.Tokens)
	if len(t.v.Scores) != n {
		return fmt.Errorf("tokenizer: %d scores for %d tokens", len(t.v.Scores), n)
	}
	for i := range t.bytes {
		t.bytes[i] = -1
	}
	t.pieces = make([][]byte, n)
	for i, s := range t.v.Tokens {
		if t.v.Scores[i] != t.v.Scores[i] {
			return fmt.Errorf("tokenizer: the score of token %d is not a number", i)
		}
		b, isByte := byteToken(s)
		switch {
		case t.v.Types[i] == Byte && !isByte:
			return fmt.Errorf("tokenizer: byte token %d is not named <0xNN>", i)
		case t.v.Types[i] == Byte:
			t.bytes[b] = int32(i)
			t.pieces[i] = []byte{b}
		case t.v.Types[i] == UserDefined:
			t.pieces[i] = []byte(s)
		default:
			t.pieces[i] = []byte(strings.ReplaceAll(s, space, " "))
		}
	}
	t.encode = t.encodeSPM
	return nil
}

// symbol is a run of text in a doubly linked list; merged-away symbols have no length.
type symbol struct {
	start, len int
	prev, next int // -1: none
}

// bigram is a merge that the vocabulary knows.
type bigram struct {
	left, right int
	score       float32 // or minus the merge's rank
	len         int     // of both together, to notice that one has changed
}

// bigrams is a heap: best score first, leftmost among equals.
type bigrams []bigram

func (b bigrams) Len() int { return len(b) }
func (b bigrams) Less(i, j int) bool {
	return b[i].score > b[j].score || b[i].score == b[j].score && b[i].left < b[j].left
}
func (b bigrams) Swap(i, j int) { b[i], b[j] = b[j], b[i] }
func (b *bigrams) Push(x any)   { *b = append(*b, x.(bigram)) }
func (b *bigrams) Pop() any {
	x := (*b)[len(*b)-1]
	*b = (*b)[:len(*b)-1]
	return x
}

// merge joins neighbouring symbols of text, best score first, until no pair has one.
func merge(text string, symbols []symbol, score func(left, right string) (float32, bool)) {
	var queue bigrams
	part := func(i int) string { return text[symbols[i].start:][:symbols[i].len] }
	add := func(left, right int) {
		if left < 0 || right < 0 {
			return
		}
		if s, ok := score(part(left), part(right)); ok {
			heap.Push(&queue, bigram{left, right, s, symbols[left].len + symbols[right].len})
		}
	}
	for i := 1; i < len(symbols); i++ {
		add(i-1, i)
	}
	for len(queue) > 0 {
		b := heap.Pop(&queue).(bigram)
		l, r := &symbols[b.left], &symbols[b.right]
		if l.len == 0 || r.len == 0 || l.len+r.len != b.len {
			continue // one of them was merged elsewhere
		}
		l.len += r.len
		r.len = 0
		l.next = r.next
		if r.next >= 0 {
			symbols[r.next].prev = b.left
		}
		add(l.prev, b.left)
		add(b.left, l.next)
	}
}

// runes cuts text into one symbol per code point; a broken byte is one of its own.
func runes(text string) []symbol {
	symbols := make([]symbol, 0, len(text))
	for at := 0; at < len(text); {
		_, n := utf8.DecodeRuneInString(text[at:])
		symbols = append(symbols, symbol{start: at, len: n, prev: len(symbols) - 1, next: len(symbols) + 1})
		at += n
	}
	if len(symbols) > 0 {
		symbols[len(symbols)-1].next = -1
	}
	return symbols
}

// encodeSPM merges the pair of highest score first; what is left without a token goes byte by byte.
func (t *Tokenizer) encodeSPM(text string, out []int32) []int32 {
	if t.v.RemoveExtraWhitespaces {
		text = strings.Join(strings.FieldsFunc(text, func(r rune) bool { return r == ' ' }), " ")
		if t.v.AddSpacePrefix {
			text = " " + text
		}
	}
	text = strings.ReplaceAll(text, " ", space)
	symbols := runes(text)
	merge(text, symbols, func(left, right string) (float32, bool) {
		id, ok := t.ids[left+right]
		if !ok {
			return float32(math.Inf(-1)), false
		}
		return t.v.Scores[id], true
	})
	for i := 0; i >= 0 && i < len(symbols); i = symbols[i].next {
		out = t.appendPiece(out, text[symbols[i].start:][:symbols[i].len])
	}
	return out
}

func (t *Tokenizer) appendPiece(out []int32, piece string) []int32 {
	if id, ok := t.ids[piece]; ok {
		return append(out, id)
	}
	for i := range len(piece) {
		switch id := t.bytes[piece[i]]; {
		case id >= 0:
			out = append(out, id)
		case t.v.UNK >= 0:
			out = append(out, t.v.UNK)
		}
	}
	return out
}
