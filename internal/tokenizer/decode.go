package tokenizer

import (
	"strings"
	"unicode/utf8"
)

// piece returns the text of a token.
func (t *Tokenizer) piece(id int32) string {
	text := t.v.Tokens[id]
	kind := t.v.kind(id)
	switch {
	case kind == Unknown || kind == Control || kind == Unused:
		return ""
	case kind == UserDefined:
		return text
	case t.writing == inBytes:
		return bytesOf(text)
	case t.writing == escaped:
		return unescape(text)
	case kind == Byte || t.pipe != nil && t.pipe.byteTokens:
		if b, ok := byteOf(text); ok {
			return string([]byte{b})
		}
	}
	if t.writing == spaced {
		return strings.ReplaceAll(text, space, " ")
	}
	return text
}

// writing is the way in which tokens' texts are written.
type writing uint8

const (
	spaced  writing = iota // ▁ for a space, <0x41> for a byte
	inBytes                // GPT-2's characters for bytes
	escaped                // rwkv: \n, \x41 and so on
	plain
)

// Piece returns the token's bytes, in a new slice; they may be part of a character. Control and unknown tokens give
// nothing, or their own text with special. An id outside of the vocabulary gives nothing.
func (t *Tokenizer) Piece(id int32, special bool) []byte { return []byte(t.textOf(id, special)) }

func (t *Tokenizer) textOf(id int32, special bool) string {
	if id < 0 || int(id) >= len(t.pieces) {
		return ""
	}
	if special && t.control(id) {
		return t.v.Tokens[id]
	}
	return t.pieces[id]
}

// Decode joins the tokens' pieces, byte for byte: what tokens say that are not valid UTF-8 stays so. The space that
// Encode puts before a SentencePiece text is part of its first token and stays too.
func (t *Tokenizer) Decode(ids []int32, special bool) string {
	var b strings.Builder
	for _, id := range ids {
		b.WriteString(t.textOf(id, special))
	}
	return b.String()
}

// Stream decodes tokens as they come into valid UTF-8. It holds back a character until all its bytes are there; one
// that the last token leaves unfinished is dropped.
type Stream struct {
	t       *Tokenizer
	special bool
	pending []byte // the begin of a character; at most 3 bytes between calls
	broken  int    // see Broken
}

// NewStream begins a text. special is as for Piece.
func (t *Tokenizer) NewStream(special bool) *Stream { return &Stream{t: t, special: special} }

// Push returns the text that token id completes. Bytes that cannot become a character are U+FFFD, one for each longest
// begin of a character (Unicode, section 3.9, "maximal subparts").
func (s *Stream) Push(id int32) string {
	begun := len(s.pending)
	p := append(s.pending, s.t.textOf(id, s.special)...)
	s.broken = 0
	var b strings.Builder
	for len(p) > 0 && utf8.FullRune(p) {
		r, n := utf8.DecodeRune(p)
		if r == utf8.RuneError && n == 1 {
			if n = subpart(p); b.Len() == 0 && n == begun {
				s.broken = utf8.RuneLen(r)
			}
		}
		b.WriteRune(r)
		p = p[n:]
	}
	s.pending = append(s.pending[:0], p...)
	return b.String()
}

// Broken returns the length of the U+FFFD at the beginning of the last Push's text, if its token did not continue a
// character that earlier ones had begun; else 0.
func (s *Stream) Broken() int { return s.broken }

// subpart returns the length of the longest begin of p that could begin a character, at least 1.
func subpart(p []byte) int {
	n := 1
	for n < len(p) && !utf8.FullRune(p[:n]) && !utf8.FullRune(p[:n+1]) {
		n++
	}
	return n
}
