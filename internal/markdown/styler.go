// Package markdown styles Markdown for a terminal while it is being written.
package markdown

import (
	"bytes"
	"strings"
)

// style is a set of terminal attributes.
type style uint8

const (
	bold style = 1 << iota
	italic
	underline
	faint
	code
)

// codes are the parameters of SGR (ECMA-48, 8.3.117) for the bits of a style.
var codes = []string{"1", "3", "4", "2", "36"}

// longestSpan bounds the bytes of a span that are held back until its closing mark comes.
const longestSpan = 400

// A Styler turns Markdown into text with ANSI escape sequences: headings, bold, italic, inline code, code blocks,
// lists, quotations and tables. Marks that nothing closes in their line are shown as they are. How the text is cut into
// pieces does not change the result. The zero value is at the beginning of a text.
type Styler struct {
	// Width is the terminal's, in columns. Lines are broken between words, except in code, and tables are drawn, once
	// they are whole. With 0 lines and tables stay as they are. It may change between two calls of Feed.
	Width int
	Plain bool // the text is not Markdown: only lines are broken

	out   strings.Builder
	shown style // the terminal's current style

	inLine bool   // the kind of the line is known
	line   []byte // its beginning, before the kind is known
	block  style  // of the line
	fence  []byte // that opened the code block around the line; nil: none

	held []byte // an inline span from its opening mark on
	mark int    // length of the mark at the beginning of held, 0 while it may grow
	last byte   // before held, 0 at the beginning of a line

	cell  bool  // the text is in a table's cell
	at    line  // of the terminal
	table table // that has not ended
}

// Feed takes the next piece of the text and returns what to print of it by now.
func (s *Styler) Feed(text string) string {
	for i := range len(text) {
		s.push(text[i])
	}
	s.settle(false)
	return s.take()
}

// Finish returns the rest, and leaves the terminal without attributes. The Styler is then at the beginning of a text
// again.
func (s *Styler) Finish() string {
	if s.isRow() {
		s.addRow()
	}
	s.endTable()
	s.endLine()
	s.settle(true)
	s.set(0)
	rest := s.take()
	*s = Styler{Width: s.Width, Plain: s.Plain}
	return rest
}

func (s *Styler) take() string {
	text := s.out.String()
	s.out.Reset()
	return text
}

func (s *Styler) push(b byte) {
	switch {
	case s.Plain && b != '\n':
		s.inLine = true
		s.put(b, 0)
	case b == '\n' && s.isRow():
		s.addRow()
	case b == '\n':
		if !s.inLine {
			s.endTable()
		}
		s.endLine()
		s.newline()
	case !s.inLine:
		s.line = append(s.line, b)
		s.begin()
	default:
		s.text(b)
	}
}

// newline ends a line of the text.
func (s *Styler) newline() {
	s.settle(true)
	s.set(0)
	s.out.WriteByte('\n')
	s.inLine, s.block, s.last, s.at = false, 0, 0, line{}
}

// text takes a byte of a line of known kind.
func (s *Styler) text(b byte) {
	if s.fence != nil {
		s.put(b, s.block)
		return
	}
	s.inline(b)
}

// begin decides on the kind of a line, if enough of it is known.
func (s *Styler) begin() {
	rest := bytes.TrimLeft(s.line, " ")
	if len(rest) == 0 {
		return
	}
	run := len(rest) - len(bytes.TrimLeft(rest, string(rest[:1])))
	whole := run == len(rest)
	if s.isRow() {
		return
	}
	s.endTable()
	if s.fence != nil {
		if rest[0] != s.fence[0] || run < len(s.fence) && !whole || len(bytes.TrimRight(rest[run:], " ")) > 0 {
			s.as(code, s.line)
		}
		return
	}
	const usual, long = 3, 6 // backticks of a fence, # of the deepest heading
	switch c := rest[0]; {
	case c == '#' && run <= long && !whole && rest[run] == ' ':
		s.as(headingStyle(run), nil)
	case c == '#' && run <= long && whole: // what follows decides, here and below
	case (c == '`' || c == '~') && run >= usual && !whole:
		s.open(rest[:run])
	case (c == '`' || c == '~') && whole:
	case (c == '-' || c == '*' || c == '+') && whole && run == 1:
	case (c == '-' || c == '*' || c == '+') && run == 1 && rest[1] == ' ':
		indent := s.line[:len(s.line)-len(rest)]
		s.as(0, append(append(append([]byte(nil), indent...), "•"...), rest[1:]...))
	case c == '>':
		s.as(0, nil)
		for _, b := range []byte("│") {
			s.put(b, faint)
		}
	default:
		s.as(0, s.line)
	}
}

func headingStyle(level int) style {
	if level == 1 {
		return bold | underline
	}
	return bold
}

// as gives the line the style, beginning with text.
func (s *Styler) as(block style, text []byte) {
	s.inLine, s.block, s.line = true, block, nil
	for _, b := range text {
		s.text(b)
	}
}

// open begins a code block; the fence is shown faint with the name of the language.
func (s *Styler) open(fence []byte) {
	line := s.line
	s.fence = bytes.Clone(fence)
	s.as(faint, line)
}

// endLine shows what was held back of a line.
func (s *Styler) endLine() {
	if s.inLine {
		s.endInline()
		return
	}
	line := s.line
	rest := bytes.Trim(line, " ")
	s.line, s.inLine = nil, true
	switch {
	case s.fence != nil && len(rest) >= len(s.fence): // nothing else is held back in a code block
		s.show(line, faint)
		s.fence = nil
	case s.fence != nil:
		s.show(line, code)
	case len(rest) >= 3 && (rest[0] == '`' || rest[0] == '~'):
		s.open(rest)
		s.show(line, faint)
	default:
		for _, b := range line {
			s.inline(b)
		}
		s.endInline()
	}
}

func (s *Styler) show(text []byte, st style) {
	for _, b := range text {
		s.put(b, st)
	}
}

// put shows a byte.
func (s *Styler) put(b byte, st style) {
	s.place(b, st)
	s.last = b
}

// write writes a byte.
func (s *Styler) write(b byte, st style) {
	s.set(st)
	s.out.WriteByte(b)
}

// set sets the terminal's attributes.
func (s *Styler) set(st style) {
	if st == s.shown {
		return
	}
	if s.shown != 0 {
		s.out.WriteString("\x1b[0m")
	}
	s.shown = st
	if st == 0 {
		return
	}
	var list []string
	for bit, c := range codes {
		if st&(1<<bit) != 0 {
			list = append(list, c)
		}
	}
	s.out.WriteString("\x1b[" + strings.Join(list, ";") + "m")
}
