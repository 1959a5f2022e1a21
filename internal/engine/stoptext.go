package engine

import (
	"strings"

	"github.com/powerinfer-go/powerinfer/internal/tokenizer"
)

// stopText turns tokens into text up to the first of some strings. It holds back what may be the beginning of one.
type stopText struct {
	stream *tokenizer.Stream
	stops  []string
	held   string
	word   string // the one that ended the text
}

func newStopText(s *tokenizer.Stream, stops []string) *stopText {
	return &stopText{stream: s, stops: stops}
}

// push returns the text that is certain with token id, and whether it ends there, before a string that stops it.
func (t *stopText) push(id int32) (text string, stop bool) {
	t.held += t.stream.Push(id)
	first := -1
	for _, s := range t.stops {
		if i := strings.Index(t.held, s); s != "" && i >= 0 && (first < 0 || i < first) {
			first, t.word = i, s
		}
	}
	if first >= 0 {
		return t.held[:first], true
	}
	keep := 0
	for _, s := range t.stops {
		for n := min(len(s)-1, len(t.held)); n > keep; n-- {
			if strings.HasSuffix(t.held, s[:n]) {
				keep = n
			}
		}
	}
	text, t.held = t.held[:len(t.held)-keep], t.held[len(t.held)-keep:]
	return text, false
}

// rest returns what was held back, at the end of the text.
func (t *stopText) rest() string {
	text := t.held + t.stream.Flush()
	t.held = ""
	return text
}
