package markdown

import (
	"strings"
	"unicode/utf8"

	"github.com/rivo/uniseg"
)

// longestRun bounds the bytes that are held back because a line may be broken only after them.
const longestRun = 400

// narrowest is the fewest columns that lines are broken for; a narrower terminal breaks them itself.
const narrowest = 16

// line is the written part of the terminal's current line.
type line struct {
	column int    // where the next letter goes
	start  []byte // the first bytes of the paragraph's first line, which decide the indent of the next lines
	indent string // of the paragraph's next lines; "" before it is known
	run    []byte // text that waits for a place to break the line
	styles []style
}

// longestStart bounds line.start: longer indents are no list's.
const longestStart = 24

// place writes a byte, at the latest when the line may be broken after it.
func (s *Styler) place(b byte, st style) {
	if !s.wraps() || s.fence != nil {
		s.write(b, st)
		return
	}
	s.at.run = append(s.at.run, b)
	s.at.styles = append(s.at.styles, st)
	if len(s.at.run) >= longestRun {
		s.settle(false)
	}
	if n := len(s.at.run); n >= longestRun && (utf8.RuneStart(b) && b < utf8.RuneSelf || n > longestRun+utf8.UTFMax) {
		s.settle(true)
	}
}

// wraps reports whether lines are broken.
func (s *Styler) wraps() bool { return s.Width >= narrowest || s.cell && s.Width > 0 }

// settle writes the run up to the last possible line break (Unicode Standard Annex 14), or all of it. The written text
// does not depend on when settle is called.
func (s *Styler) settle(all bool) {
	if len(s.at.run) == 0 {
		return
	}
	text, state := string(s.at.run), -1
	for text != "" {
		part, rest, _, next := uniseg.FirstLineSegmentInString(text, state)
		if !all && (rest == "" || !utf8.FullRuneInString(rest)) {
			break
		}
		s.segment(part)
		text, state = rest, next
		s.at.run, s.at.styles = s.at.run[len(part):], s.at.styles[len(part):]
	}
	if len(s.at.run) == 0 {
		s.at.run, s.at.styles = nil, nil
	}
}

// segment writes the beginning of the run, which has no line break inside unless it is wider than a line.
func (s *Styler) segment(part string) {
	word := strings.TrimRight(part, " ")
	width, indented := uniseg.StringWidth(word), s.at.indented()
	if s.at.column > indented && s.at.column+width > s.Width {
		s.breakLine()
	}
	at, state := 0, -1
	for rest := word; rest != ""; {
		var letter string
		var w int
		letter, rest, w, state = uniseg.FirstGraphemeClusterInString(rest, state)
		if s.at.column > s.at.indented() && s.at.column+w > s.Width {
			s.breakLine()
		}
		for range len(letter) {
			s.write(s.at.run[at], s.at.styles[at])
			at++
		}
		s.at.column += w
	}
	for ; at < len(part); at++ {
		if s.at.column < s.Width { // a space at the end of a line would begin another
			s.write(' ', s.at.styles[at])
		}
		s.at.column++
	}
	if n := longestStart - len(s.at.start); n > 0 && s.at.indent == "" {
		s.at.start = append(s.at.start, part[:min(n, len(part))]...)
	}
}

// breakLine continues in the next line of the terminal, under the text of a list's item or of a quotation.
func (s *Styler) breakLine() {
	if s.at.indent == "" {
		s.at.indent = hanging(string(s.at.start))
	}
	s.set(0)
	s.out.WriteByte('\n')
	for _, b := range []byte(s.at.indent) {
		s.write(b, faint)
	}
	s.at.column = s.at.indented()
}

// indented returns the column where the paragraph's next lines begin.
func (l *line) indented() int { return uniseg.StringWidth(l.indent) }

// hanging returns the indent of the lines after one that begins with start.
func hanging(start string) string {
	text := strings.TrimLeft(start, " ")
	indent := start[:len(start)-len(text)]
	digits := strings.TrimLeft(text, "0123456789")
	switch numbered := len(text) - len(digits); {
	case strings.HasPrefix(text, "• "):
		return indent + "  "
	case strings.HasPrefix(text, "│"):
		return indent + "│ "
	case numbered > 0 && (strings.HasPrefix(digits, ". ") || strings.HasPrefix(digits, ") ")):
		return indent + strings.Repeat(" ", numbered+2)
	}
	return indent
}
