package tokenizer

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// space is how SentencePiece writes a space within tokens.
const space = "\u2581"

// sentencePiece is what model "llama" needs in addition to the token texts.
type sentencePiece struct {
	bytes [256]int32 // the token of a single byte, -1 if none
	fused bool       // some byte has none: consecutive unknown characters are one unknown token
	pairs *pairs
}

func newSentencePiece(v *Vocab, ids map[string]int32) (*sentencePiece, error) {
	s := &sentencePiece{pairs: newPairs()}
	for id, text := range v.Tokens {
		if v.kind(int32(id)) == Byte {
			if _, ok := byteOf(text); !ok {
				return nil, fmt.Errorf("token %d: %.20q is of type byte, but not of the form <0x41>", id, text)
			}
		}
		if score := v.Scores[id]; score != score {
			return nil, fmt.Errorf("token %d: its score is not a number", id)
		}
		s.pairs.add(text)
	}
	for b := range s.bytes {
		id, ok := ids[fmt.Sprintf("<0x%02X>", b)]
		if !ok {
			id, ok = ids[string([]byte{byte(b)})]
		}
		if !ok {
			id = -1
		}
		s.fused = s.fused || id < 0
		if s.bytes[b] = id; id < 0 && v.UNK < 0 {
			return nil, fmt.Errorf("the vocabulary can write neither byte 0x%02X nor an unknown token", b)
		}
	}
	return s, nil
}

// byteOf reads a byte token's text, <0x41>.
func byteOf(text string) (byte, bool) {
	if len(text) != 6 || text[:3] != "<0x" || text[5] != '>' {
		return 0, false
	}
	hi, lo := strings.IndexByte(hexDigits, text[3]), strings.IndexByte(hexDigits, text[4])
	return byte(hi<<4 | lo), hi >= 0 && lo >= 0
}

const hexDigits = "0123456789ABCDEF"

// sentencePiece appends the tokens of text, after a space if prefix says so.
func (e *encoder) sentencePiece(text string, prefix bool) {
	if len(text) > longWord && !e.ask(2*(len(text)+len(space)*strings.Count(text, " "))) {
		return
	}
	text = strings.ReplaceAll(text, " ", space)
	if prefix {
		text = space + text
	}
	from := len(e.out)
	// Text is cut between two characters that no token has side by side: no merge reaches across.
	for start := 0; start < len(text); {
		prev, n := character(text[start:])
		end := start + n
		for end < len(text) {
			next, n := character(text[end:])
			if !e.t.spm.pairs.has(prev, next) {
				break
			}
			prev, end = next, end+n
		}
		symbols := end - start
		if symbols > longWord {
			symbols = utf8.RuneCountInString(text[start:end])
		}
		if !e.enter(text[start:end], symbols) {
			return
		}
		e.remember(text[start:end], e.t.spm)
		start = end
	}
	if e.t.spm.fused {
		unknown := e.t.v.UNK
		whole := len(e.out)
		e.out = e.out[:from+len(slices.CompactFunc(e.out[from:], func(a, b int32) bool { return a == unknown && b == unknown }))]
		if len(e.out) < whole {
			clear(e.seen) // it has places of words in e.out
		}
	}
}

// encodeNew implements slowEncoder.
func (s *sentencePiece) encodeNew(e *encoder, word string) {
	m, t := &e.merger, e.t
	m.symbols = m.symbols[:0]
	if len(word) > longWord {
		m.room(utf8.RuneCountInString(word))
	}
	for i := 0; i < len(word); {
		_, n := character(word[i:])
		id, ok := t.ids[word[i:i+n]]
		if !ok {
			id = -1
		}
		m.add(i, i+n, id)
		i += n
	}
	m.merge(func(left, right *symbol) (int32, float64, bool) {
		id, ok := t.ids[word[left.start:right.end]]
		if !ok {
			return 0, 0, false
		}
		return id, float64(t.v.Scores[id]), true
	})
	for i := 0; i >= 0; i = m.symbols[i].next {
		if s := &m.symbols[i]; s.id >= 0 {
			e.out = append(e.out, s.id)
		} else {
			e.spell(word[s.start:s.end])
		}
	}
}

// spell appends the bytes of a character outside the vocabulary, or one unknown token.
func (e *encoder) spell(char string) {
	start := len(e.out)
	for i := range len(char) {
		id := e.t.spm.bytes[char[i]]
		if id < 0 {
			e.out = append(e.out[:start], e.t.v.UNK)
			return
		}
		e.out = append(e.out, id)
	}
}

// character returns the bytes of the first character of a text that is not empty, packed, and their number. Its
// first byte says how many, whether or not the others are continuation bytes: any split of invalid text will do
// as long as tokens and text are split alike.
func character(s string) (packed uint32, n int) {
	switch lead := s[0]; {
	case lead < 0xC0:
		return uint32(lead), 1
	case lead < 0xE0:
		n = 2
	case lead < 0xF0:
		n = 3
	default:
		n = 4
	}
	n = min(n, len(s))
	for i := range n {
		packed = packed<<8 | uint32(s[i])
	}
	return packed, n
}

// pairs is the set of characters that stand side by side in some token.
type pairs struct {
	narrow [narrowSize * narrowSize / 64]uint64 // of both ASCII or a word's mark
	wide   *pairTable
}

// narrowSize is the number of characters whose pairs are bits.
const narrowSize = 256

// narrow returns a character's number among those, or narrowSize.
func narrow(packed uint32) uint32 {
	const wordMark = 0xE29681 // U+2581 in UTF-8, for a space
	switch {
	case packed < 0x80:
		return packed
	case packed == wordMark:
		return 0x80
	}
	return narrowSize
}

func newPairs() *pairs { return &pairs{wide: newPairTable(1 << 10)} }

func (p *pairs) add(token string) {
	if token == "" {
		return
	}
	prev, at := character(token)
	for at < len(token) {
		next, n := character(token[at:])
		if a, b := narrow(prev), narrow(next); a|b < narrowSize {
			i := a*narrowSize | b
			p.narrow[i/64] |= 1 << (i % 64)
		} else {
			p.wide.set(int32(prev), int32(next), 0, 0)
		}
		prev, at = next, at+n
	}
}

func (p *pairs) has(a, b uint32) bool {
	if x, y := narrow(a), narrow(b); x|y < narrowSize {
		i := x*narrowSize | y
		return p.narrow[i/64]>>(i%64)&1 != 0
	}
	_, _, ok := p.wide.get(int32(a), int32(b))
	return ok
}
