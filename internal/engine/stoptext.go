package engine

import (
	"strings"
	"unicode/utf8"

	"github.com/powerinfer-go/powerinfer/internal/tokenizer"
)

// stopText turns tokens into text up to the first of some strings. It holds back text that may begin such a string. If
// the string or the end of the text cuts off a character, that character is not part of the text.
type stopText struct {
	stream *tokenizer.Stream
	stops  []string
	held   string
	half   int    // end in held of a U+FFFD that stands for an incomplete character; 0: there is none
	word   string // the string that ended the text
}

func newStopText(s *tokenizer.Stream, stops []string) *stopText {
	return &stopText{stream: s, stops: stops}
}

// push returns the text that becomes certain with token id, and whether it ends there, before a string that stops it.
func (t *stopText) push(id int32) (text string, stop bool) {
	more := t.stream.Push(id)
	if n := t.stream.Broken(); n > 0 {
		t.half = len(t.held) + n
	}
	t.held += more
	first := -1
	for _, s := range t.stops {
		if i := strings.Index(t.held, s); s != "" && i >= 0 && (first < 0 || i < first) {
			first, t.word = i, s
		}
	}
	if first >= 0 {
		return t.held[:t.whole(first)], true
	}
	keep := 0
	for _, s := range t.stops {
		for n := min(len(s)-1, len(t.held)); n > keep; n-- {
			if strings.HasSuffix(t.held, s[:n]) {
				keep = n
			}
		}
	}
	at := len(t.held)
	if keep > 0 {
		at = t.whole(at - keep)
	}
	text, t.held = t.held[:at], t.held[at:]
	t.half = max(0, t.half-at)
	return text, false
}

// whole returns the end of the last whole character in held up to at.
func (t *stopText) whole(at int) int {
	for at > 0 && at < len(t.held) && !utf8.RuneStart(t.held[at]) { // a string may begin with a part of a character
		at--
	}
	if at > 0 && at == t.half {
		at -= utf8.RuneLen(utf8.RuneError)
	}
	return at
}

// rest returns what was held back, at the end of the text.
func (t *stopText) rest() string {
	text := t.held
	t.held = ""
	return text
}
