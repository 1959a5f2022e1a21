package answer

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
)

// tagged reads arguments between tags, one by one.
func (p *Parser) tagged(t *tags) bool {
	known := p.call.tool.parameters()
	p.call.known = known
	if t.json[0] != "" && p.literal(t.json[0]) {
		p.space()
		if c, _ := p.peek(); c != '{' || !p.value(p.arg, 0) {
			return false
		}
		p.space()
		return p.literal(t.json[1])
	}
	p.arg('{')
	for first := true; ; first = false {
		p.space()
		if !p.literal(t.open) {
			break
		}
		key := p.word(t.middle[0][:1])
		for i, m := range t.middle {
			if i > 0 {
				p.space()
			}
			if !p.literal(m) {
				return false
			}
		}
		var par parameter
		if i := slices.IndexFunc(known, func(k parameter) bool { return k.name == key }); i >= 0 {
			par = known[i]
		}
		if len(t.typed) > 0 {
			i := slices.IndexFunc(t.typed, func(k typing) bool { return p.literal(k.text) })
			if i < 0 {
				return false
			}
			if par.types = nil; slices.Contains(t.typed[i].types, "string") {
				par.types = []string{"string"}
			}
		}
		if !first {
			p.arg(',')
		}
		p.call.given = append(p.call.given, key)
		putText(key, p.arg)
		p.arg(':')
		if !p.argument(t, &par) {
			return false
		}
	}
	p.arg('}')
	return true
}

// argument reads an argument and the tag after it.
func (p *Parser) argument(t *tags, par *parameter) bool {
	if t.quotes[0] != "" && p.literal(t.quotes[0]) {
		t = t.quoted()
	}
	if par.text() && !par.null() {
		return p.streamed(t)
	}
	if !par.text() && p.compoundArgument(t) {
		return true
	}
	var raw []byte
	if !p.untilTag(t, func(b []byte) { raw = append(raw, b...) }, func() bool { return json.Valid(bytes.TrimSpace(raw)) }) {
		return false
	}
	p.written(raw, &par.kinds, t.lines)
	return true
}

// written adds a value that was written without JSON's quotes: JSON or a Python literal, or else a string, perhaps on
// separate lines.
func (p *Parser) written(raw []byte, k *kinds, lines bool) {
	value := bytes.TrimSpace(raw)
	switch {
	case k.text() && string(value) != "null":
	case json.Valid(value):
		p.call.args = append(p.call.args, value...)
		return
	default:
		if literal, ok := fromPython(value); ok {
			p.call.args = append(p.call.args, literal...)
			return
		}
	}
	if lines {
		raw = bytes.TrimSuffix(bytes.TrimPrefix(raw, []byte("\n")), []byte("\n"))
	}
	putText(string(raw), p.arg)
}

// compoundArgument reads an object or a list in JSON or as in Python; the tag that ends an argument has no effect within
// its strings. It reports whether there was one; else nothing was read.
func (p *Parser) compoundArgument(t *tags) bool {
	p.flush()
	start, had := p.pos, len(p.call.args)
	p.holding = true
	defer func() { p.holding = false }()
	for _, read := range []func(func(byte), int) bool{p.value, p.pythonValue} {
		p.space()
		if c, ok := p.peek(); ok && (c == '{' || c == '[') && read(p.arg, 0) {
			p.space()
			if p.literal(t.close) {
				return true
			}
		}
		p.pos, p.call.args = start, p.call.args[:had]
	}
	return false
}

// streamed reads a string argument, and passes it on as it comes.
func (p *Parser) streamed(t *tags) bool {
	begun, broken := false, false // there was a byte; the last one was a line break, which may belong to the tag
	p.arg('"')
	ok := p.untilTag(t, func(b []byte) {
		for _, c := range b {
			skip := t.lines && !begun && c == '\n'
			begun = true
			if skip {
				continue
			}
			if broken {
				putChar('\n', p.arg)
			}
			if broken = t.lines && c == '\n'; !broken {
				putChar(c, p.arg)
			}
		}
	}, nil)
	p.arg('"')
	return ok
}

// untilTag reads an argument up to and including the tag that ends it, passes on the argument, and reports whether the
// tag came. The argument may contain the same text: it is the tag if the call's next part follows. If no text certainly
// is the tag, the first that may be counts. whole, which may be nil, reports whether the value so far is complete: then
// the next argument may have any name.
func (p *Parser) untilTag(t *tags, put func([]byte), whole func() bool) bool {
	open := p.form.begins()
	markers := []string{t.close, open}
	from, may, nested := p.pos, -1, false // what comes before from was handed over
	defer func(was bool) { p.holding = was }(p.holding)
	for {
		n, m := search(p.buf[p.pos:], markers)
		p.pos += n
		if may < 0 {
			put(p.buf[from:p.pos])
			from = p.pos
		}
		switch m {
		case "":
			if p.more() {
				continue
			}
			if may >= 0 {
				p.pos = may + len(t.close)
			}
			return may >= 0
		case open:
			nested = true
		default:
			ends, sure := p.tagEnds(t, nested, whole != nil && whole())
			if ends && sure {
				put(p.buf[from:p.pos])
				p.pos += len(m)
				return true
			}
			if ends && may < 0 {
				may, p.holding = p.pos, true
			}
		}
		p.pos += len(m)
	}
}

// tagEnds looks at the text after the next tag, and reports whether the tag ends an argument, and whether that is
// certain. nested means that the argument contains the beginning of a call; a call's end may belong to it. The next
// argument must be one of the tool's, unless anyName is set.
func (p *Parser) tagEnds(t *tags, nested, anyName bool) (ends, sure bool) {
	p.flush()
	defer func(pos int, was bool) { p.pos, p.holding = pos, was }(p.pos, p.holding)
	p.holding = true
	p.pos += len(t.close)
	p.space()
	if p.literal(t.open) {
		key := p.word(t.middle[0][:1])
		known := p.call.known
		ends = (anyName || len(known) == 0 || slices.ContainsFunc(known, func(k parameter) bool { return k.name == key })) &&
			!slices.Contains(p.call.given, key) && p.literal(t.middle[0])
		return ends, ends
	}
	for i, text := range p.form.tail() {
		p.space()
		if p.literal(text) {
			continue
		}
		if i == 0 {
			return false, false
		}
		return true, p.over() // models forget what closes a run
	}
	if nested {
		p.space()
		return true, p.over()
	}
	return true, true
}

// over reports whether what comes may follow a call: the end, another call, or what closes a run.
func (p *Parser) over() bool {
	_, more := p.peek()
	f := p.form
	return !more || p.comes(f.open) || p.comes(f.begins()) || f.close != "" && p.comes(f.close)
}

// putText hands over s as a JSON string.
func putText(s string, put func(byte)) {
	put('"')
	for i := range len(s) {
		putChar(s[i], put)
	}
	put('"')
}

// python reads a call as in Python, with arguments by name.
func (p *Parser) python() bool {
	if !p.name() {
		return false
	}
	p.literal(".call")
	if !p.literal("(") {
		return false
	}
	p.begin()
	p.arg('{')
	for first := true; ; first = false {
		p.space()
		if p.literal(")") {
			break
		}
		if !first {
			if !p.literal(",") {
				return false
			}
			p.arg(',')
			p.space()
		}
		key := p.word("= ,()[]{}\"'\n")
		p.space()
		if key == "" || !p.literal("=") {
			return false
		}
		p.space()
		putText(key, p.arg)
		p.arg(':')
		if !p.pythonValue(p.arg, 0) {
			return false
		}
	}
	p.arg('}')
	return true
}

// fromPython returns a Python literal as JSON, and reports whether text is one.
func fromPython(text []byte) ([]byte, bool) {
	p := Parser{buf: text, end: true}
	var out []byte
	ok := p.pythonValue(func(b byte) { out = append(out, b) }, 0)
	return out, ok && p.pos == len(text)
}

// pythonValue reads a Python literal and hands it over as JSON.
func (p *Parser) pythonValue(put func(byte), depth int) bool {
	c, ok := p.peek()
	if !ok || depth > maxDepth {
		return false
	}
	switch c {
	case '[', '{':
		return p.pythonCompound(c, put, depth)
	case '"', '\'':
		return p.pythonString(c, put)
	case 'T', 'F', 'N', 't', 'f', 'n':
		for _, w := range [][2]string{{"True", "true"}, {"False", "false"}, {"None", "null"}, {"true", "true"}, {"false", "false"}, {"null", "null"}} {
			if p.literal(w[0]) {
				for i := range len(w[1]) {
					put(w[1][i])
				}
				return true
			}
		}
		return false
	}
	return p.number(put)
}

func (p *Parser) pythonCompound(open byte, put func(byte), depth int) bool {
	key := func() bool {
		c, ok := p.peek()
		return ok && strings.ContainsRune(`"'`, rune(c)) && p.pythonString(c, put)
	}
	return p.members(open, put, key, func() bool { return p.pythonValue(put, depth+1) })
}

// members reads an object or a list and hands it over without white space. key and value read what members are made of.
func (p *Parser) members(open byte, put func(byte), key, value func() bool) bool {
	p.take(open, put)
	for first := true; ; first = false {
		p.space()
		if p.take(open+2, put) { // } and ]
			return true
		}
		if !first {
			if !p.take(',', put) {
				return false
			}
			p.space()
		}
		if open == '{' {
			if !key() {
				return false
			}
			p.space()
			if !p.take(':', put) {
				return false
			}
			p.space()
		}
		if !value() {
			return false
		}
	}
}

// pythonEscapes are the escapes in Python's strings that stand for one character.
var pythonEscapes = map[byte]byte{'n': '\n', 't': '\t', 'r': '\r', 'b': '\b', 'f': '\f', '\\': '\\', '\'': '\'', '"': '"'}

func (p *Parser) pythonString(quote byte, put func(byte)) bool {
	p.pos++
	put('"')
	for {
		c, ok := p.peek()
		if !ok {
			return false
		}
		p.pos++
		switch c {
		case quote:
			put('"')
			return true
		case '\\':
			c, ok := p.peek()
			if !ok {
				return false
			}
			if c == 'u' {
				p.pos--
				if !p.escape(put) {
					return false
				}
				continue
			}
			p.pos++
			if one, ok := pythonEscapes[c]; ok {
				putChar(one, put)
				continue
			}
			putChar('\\', put)
			putChar(c, put)
		default:
			putChar(c, put)
		}
	}
}
