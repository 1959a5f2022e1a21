package server

import (
	"strings"
	"time"
)

// Limits end texts early, for editors that complete code.
type Limits struct {
	Time   time.Duration // from the first token, after which a text ends at its next line; 0: none
	Indent int           // white space that each line but the first begins with at least, else the text ends before it
}

// A limiter passes a text on until a limit ends it.
type limiter struct {
	Limits
	begin time.Time // time of the first token
	held  []byte    // a line break and the white space after it, until it is known whether the line is indented enough
	ended bool
}

// pass returns the text that is certain now, and reports whether the text continues.
func (l *limiter) pass(text string) (string, bool) {
	if l.ended {
		return "", false
	}
	if l.begin.IsZero() {
		l.begin = time.Now()
	}
	if l.Indent > 0 {
		text = l.indented(text)
	}
	if l.Time > 0 && strings.Contains(text, "\n") && time.Since(l.begin) > l.Time {
		l.ended = true
	}
	return text, !l.ended
}

// indented returns text with what was held back before it, up to the first line that is not indented enough.
func (l *limiter) indented(text string) string {
	var out strings.Builder
	for i := range len(text) {
		switch c := text[i]; {
		case len(l.held) > 0 && (c == ' ' || c == '\t'):
			l.held = append(l.held, c)
		case len(l.held) > 0 && len(l.held) <= l.Indent: // also of an empty line, as in llama.cpp
			l.held, l.ended = nil, true
			return out.String()
		case c == '\n':
			out.Write(l.held)
			l.held = append(l.held[:0], c)
		default:
			out.Write(l.held)
			l.held = l.held[:0]
			out.WriteByte(c)
		}
	}
	return out.String()
}

// rest returns the text held back at the end.
func (l *limiter) rest() string {
	text := string(l.held)
	l.held = nil
	return text
}
