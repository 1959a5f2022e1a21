package reply

import (
	"bufio"
	"fmt"
	"time"

	"github.com/rivo/uniseg"

	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/internal/screen"
)

// thought is a thought on a terminal: faint while it is written, then folded into one line. It breaks lines itself to
// know how many there are.
type thought struct {
	out           *bufio.Writer
	size          func() (width, height int) // size of the terminal; 0: not known
	width, height int                        // when the thought began
	begin         time.Time
	held          string // the last character, which may be incomplete
	rows          int    // rows of the thought above the cursor's row
	column        int
}

func beginThought(out *bufio.Writer, size func() (int, int)) *thought {
	s := &thought{out: out, size: size, begin: time.Now()}
	s.width, s.height = size()
	out.WriteString(screen.Faint)
	return s
}

// write shows the next piece.
func (s *thought) write(text string) {
	rest, state := s.held+text, -1
	s.held = ""
	for rest != "" {
		var c string
		c, rest, _, state = uniseg.FirstGraphemeClusterInString(rest, state)
		if rest == "" {
			s.held = c // an accent or the other half of an emoji may follow
			return
		}
		s.character(c)
	}
}

// character shows a character. A thought that fills the screen starts again at the top, because text that has scrolled
// away cannot be erased.
func (s *thought) character(c string) {
	most, width := s.width-screen.SpareColumns, 0
	for _, r := range c { // as in terminals that show each part of an emoji
		width += uniseg.StringWidth(string(r))
	}
	if c == "\t" {
		c, width = " ", 1
	}
	switch {
	case c == "\n" || c == "\r\n":
		s.newLine()
		return
	case s.width > 0 && s.column > 0 && s.column+width > most:
		s.newLine()
	}
	s.out.WriteString(c)
	s.column += width
}

func (s *thought) newLine() {
	s.column = 0
	if s.height > 0 && s.rows+2 >= s.height && s.same() {
		s.clear()
		return
	}
	s.rows++
	s.out.WriteString("\n")
}

// same reports whether the terminal has its former size. Otherwise the places of the lines are unknown.
func (s *thought) same() bool {
	width, height := s.size()
	return width == s.width && height == s.height && width > screen.SpareColumns && height > 2
}

// clear erases the thought.
func (s *thought) clear() {
	s.out.WriteString("\r")
	if s.rows > 0 {
		fmt.Fprintf(s.out, "\x1b[%dA", s.rows)
	}
	s.out.WriteString(screen.Erase)
	s.rows, s.column = 0, 0
}

// fold replaces the thought by one line.
func (s *thought) fold() {
	if s.same() {
		s.clear()
	} else {
		s.out.WriteString(s.held)
		if s.column > 0 || s.held != "" {
			s.out.WriteString("\n")
		}
	}
	fmt.Fprintf(s.out, "▸ thought for %.1f s (/thoughts)%s\n", time.Since(s.begin).Seconds(), screen.Normal)
}
