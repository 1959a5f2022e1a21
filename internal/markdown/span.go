package markdown

import "bytes"

// inline takes a byte of running text.
func (s *Styler) inline(b byte) {
	switch {
	case len(s.held) == 0:
		if (b == '*' || b == '_' || b == '`') && s.last != '\\' && (b == '`' || !isWord(s.last)) {
			s.held, s.mark = []byte{b}, 0
			return
		}
		s.put(b, s.block)
	case s.mark == 0 && b == s.held[0]:
		s.held = append(s.held, b)
	case s.mark == 0 && s.held[0] != '`' && (len(s.held) > 3 || b == ' '):
		s.literal(len(s.held))
		s.inline(b)
	case s.mark == 0:
		s.mark = len(s.held)
		s.held = append(s.held, b)
	case s.closed(b):
		s.span()
		s.inline(b)
	case len(s.held) >= longestSpan:
		s.giveUp()
		s.inline(b)
	default:
		s.held = append(s.held, b)
	}
}

// closed reports whether the held text ends with a closing mark, if next follows.
func (s *Styler) closed(next byte) bool {
	m, text := s.held[0], s.held[s.mark:]
	content := bytes.TrimRight(text, string(m))
	run := len(text) - len(content)
	if next == m || run == 0 || len(content) == 0 {
		return false
	}
	if m == '`' {
		return run == s.mark
	}
	const both = 3 // the end of a bold span and of an italic one in it
	return (run == s.mark || run == both) && content[len(content)-1] != ' ' &&
		!(m == '_' && isWord(next)) && bytes.Count(content, []byte{'`'})%2 == 0
}

// span shows the held text, a whole span, in its style.
func (s *Styler) span() {
	m, mark, content := s.held[0], s.mark, s.held[s.mark:len(s.held)-s.mark]
	s.held, s.mark = nil, 0
	if m == '`' {
		s.show(content, s.block|code)
	} else {
		outer := s.block
		s.block |= []style{italic, bold, bold | italic}[mark-1]
		s.last = m
		for _, b := range content {
			s.inline(b)
		}
		s.endInline()
		s.block = outer
	}
	s.last = m
}

// literal shows the first n held bytes, which are no mark, and takes the others as text.
func (s *Styler) literal(n int) {
	held := s.held
	s.held, s.mark = nil, 0
	s.show(held[:n], s.block)
	for _, b := range held[n:] {
		s.inline(b)
	}
}

// giveUp shows a mark that nothing closes.
func (s *Styler) giveUp() {
	if s.mark == 0 {
		s.mark = len(s.held)
	}
	s.literal(s.mark)
}

// endInline shows the held text at the end of a line.
func (s *Styler) endInline() {
	for len(s.held) > 0 {
		if s.mark > 0 && s.closed('\n') {
			s.span()
		} else {
			s.giveUp()
		}
	}
}

// isWord reports whether b is a letter or a digit of ASCII.
func isWord(b byte) bool {
	return b >= '0' && b <= '9' || b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z'
}
