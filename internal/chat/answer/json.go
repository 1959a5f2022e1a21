package answer

import (
	"encoding/json"
	"math"
)

// value reads a JSON value and passes on its bytes; depth is its nesting. Control characters in strings, which models
// write as they are, are passed on as JSON escapes.
func (p *Parser) value(put func(byte), depth int) bool {
	c, ok := p.peek()
	if !ok || depth > maxDepth {
		return false
	}
	switch c {
	case '{', '[':
		return p.compound(c, put, depth)
	case '"':
		return p.str(put, unbounded)
	case 't':
		return p.spelled("true", put)
	case 'f':
		return p.spelled("false", put)
	case 'n':
		return p.spelled("null", put)
	}
	return p.number(put)
}

// spelled reads a word and hands it over.
func (p *Parser) spelled(word string, put func(byte)) bool {
	if !p.literal(word) {
		return false
	}
	for i := range len(word) {
		put(word[i])
	}
	return true
}

// gap reads white space and hands it over.
func (p *Parser) gap(put func(byte)) {
	for c, ok := p.peek(); ok && isSpace(c); c, ok = p.peek() {
		put(c)
		p.pos++
	}
}

// take reads one byte and passes it on, if it is c.
func (p *Parser) take(c byte, put func(byte)) bool {
	if next, ok := p.peek(); !ok || next != c {
		return false
	}
	put(c)
	p.pos++
	return true
}

func (p *Parser) compound(open byte, put func(byte), depth int) bool {
	p.take(open, put)
	p.gap(put)
	if p.take(open+2, put) { // } and ]
		return true
	}
	for {
		if open == '{' {
			if !p.str(put, unbounded) {
				return false
			}
			p.gap(put)
			if !p.take(':', put) {
				return false
			}
			p.gap(put)
		}
		if !p.value(put, depth+1) {
			return false
		}
		p.gap(put)
		if p.take(open+2, put) {
			return true
		}
		if !p.take(',', put) {
			return false
		}
		p.gap(put)
	}
}

// unbounded is the length of strings in arguments.
const unbounded = math.MaxInt

// str reads a string of at most this many bytes.
func (p *Parser) str(put func(byte), most int) bool {
	start := p.pos
	if !p.take('"', put) {
		return false
	}
	for {
		c, ok := p.peek()
		switch {
		case !ok || p.pos-start > most:
			return false
		case c == '"':
			return p.take(c, put)
		case c == '\\':
			if !p.escape(put) {
				return false
			}
		default:
			putChar(c, put)
			p.pos++
		}
	}
}

// escape reads an escape sequence.
func (p *Parser) escape(put func(byte)) bool {
	start := p.pos
	p.pos++
	c, ok := p.peek()
	n := 2
	switch c {
	case 'u':
		n = 6
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
	default:
		ok = false
	}
	for ; ok && p.pos < start+n; p.pos++ {
		c, more := p.peek()
		if !more || p.pos >= start+2 && !isHex(c) {
			return false
		}
	}
	if !ok {
		return false
	}
	for _, c := range p.buf[start:p.pos] {
		put(c)
	}
	return true
}

func isHex(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F'
}

// putChar passes on a byte of a string's text in JSON's spelling.
func putChar(c byte, put func(byte)) {
	if c >= ' ' && c != '"' && c != '\\' {
		put(c)
		return
	}
	quoted, _ := json.Marshal(string(rune(c)))
	for _, q := range quoted[1 : len(quoted)-1] {
		put(q)
	}
}

// number reads a number.
func (p *Parser) number(put func(byte)) bool {
	start := p.pos
	for c, ok := p.peek(); ok && (c >= '0' && c <= '9' || c == '-' || c == '+' || c == '.' || c == 'e' || c == 'E'); c, ok = p.peek() {
		if p.pos-start > maxNumber {
			return false
		}
		p.pos++
	}
	if text := p.buf[start:p.pos]; !json.Valid(text) {
		return false
	}
	for _, c := range p.buf[start:p.pos] {
		put(c)
	}
	return true
}

// text reads a string up to the length of names, and returns its value.
func (p *Parser) text() (string, bool) {
	var raw []byte
	var s string
	ok := p.str(func(b byte) { raw = append(raw, b) }, maxName)
	ok = ok && json.Unmarshal(raw, &s) == nil
	return s, ok
}
