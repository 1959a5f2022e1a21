package answer

import (
	"encoding/json"
	"strconv"
	"strings"
)

// call is the call that is being read.
type call struct {
	id   string
	tool *Tool // nil until its name was read

	known []parameter // of the tool, if arguments are between tags
	given []string    // names of the arguments that were read then
	begun bool
	start int    // begin of the call in the parser's text; earlier text was reported
	args  []byte // arguments that were read and not reported yet
}

// calls reads a run of calls in one of the forms; opened means that its opening was read before. It reports whether
// there was a call. If there is none, or something else follows, the rest is text of that kind.
func (p *Parser) calls(forms []*form, opened bool, kind Kind) bool {
	start, index, far := p.pos, p.index, p.pos
	for _, f := range forms {
		p.pos = start
		ok := p.attempt(f, opened)
		if p.call.begun {
			p.fail()
		}
		p.call = call{}
		if ok || p.index > index {
			if p.index > index {
				p.fresh, p.lead, p.called = false, false, true
			}
			return true
		}
		far = max(far, p.pos)
	}
	p.pos = far
	if !opened && far == start {
		p.pos = start + 1 // the text that looked like the beginning of a call is none
	}
	p.write(kind, false)
	return false
}

// attempt reads a run of calls in one form, and reports whether it is complete.
func (p *Parser) attempt(f *form, opened bool) bool {
	p.form = f
	if !opened && !f.keep && !p.literal(f.open) {
		return false
	}
	if f.aside != "" && p.literal(f.aside) {
		p.emit(Event{Kind: Mark})
		return true
	}
	for _, part := range f.head {
		if !p.part(part) {
			return false
		}
	}
	if f.list {
		p.space()
		if !p.literal("[") {
			return false
		}
		p.space()
	}
	for {
		if !p.one(f) {
			return false
		}
		at := p.pos
		p.space()
		switch {
		case f.list && p.literal(","):
			p.space()
			continue
		case f.list && !p.literal("]"):
			return false
		case !f.list && p.further(f):
			continue
		case !f.list:
			p.pos = at
		}
		break
	}
	at := p.pos
	p.space()
	if f.close == "" || !p.literal(f.close) {
		p.pos = at
	}
	p.emit(Event{Kind: Mark})
	return true
}

// further reports whether a run continues with a call, and reads up to it.
func (p *Parser) further(f *form) bool {
	switch first := f.beginning(); first.kind {
	case partLiteral:
		return p.comes(first.text)
	case partObject:
		if p.literal(";") || p.literal(",") {
			p.space()
		}
		return p.comes("{")
	}
	return false
}

// comes reports whether text comes next.
func (p *Parser) comes(text string) bool {
	ok := p.literal(text)
	if ok {
		p.pos -= len(text)
	}
	return ok
}

// one reads one call.
func (p *Parser) one(f *form) bool {
	p.call = call{}
	for _, part := range f.call {
		if !p.part(part) {
			return false
		}
	}
	p.flush()
	p.emit(Event{Kind: CallEnd, Index: p.index})
	p.index++
	p.call = call{}
	return true
}

// part reads a part of a call.
func (p *Parser) part(t part) bool {
	switch t.kind {
	case partLiteral:
		return p.literal(t.text)
	case partSpace:
		p.space()
		return true
	case partName:
		return p.name()
	case partIdentifier:
		if p.literal(t.text) {
			p.call.id = p.word("[< \t\r\n")
		}
		return true
	case partOptional:
		p.literal(t.text)
		return true
	case partNumber:
		if !p.literal(":") { // models forget it
			return true
		}
		n := p.word("< \t\r\n")
		if _, err := strconv.Atoi(n); err != nil {
			return false
		}
		p.call.id = t.text + p.call.tool.Name + ":" + n
		return true
	case partDigits:
		n := p.word(`" <`)
		_, err := strconv.Atoi(n)
		return err == nil
	case partArguments:
		if c, ok := p.peek(); !ok || c != '{' {
			return false
		}
		p.begin()
		return p.value(p.arg, 0)
	case partObject:
		return p.object(0)
	case partBare:
		if c, ok := p.peek(); !ok || c != '{' {
			return false
		}
		p.begin()
		return p.bareCompound('{', p.arg, 0)
	case partElements:
		p.begin()
		return p.elements(t.text, shapeOf(p.call.tool.Parameters, p.call.tool.Parameters), 0)
	case partTagged:
		p.begin()
		return p.tagged(&t.tags)
	}
	return p.python()
}

// word reads up to one of the bytes of ends, or the longest possible name.
func (p *Parser) word(ends string) string {
	start := p.pos
	for c, ok := p.peek(); ok && p.pos-start < maxName && strings.IndexByte(ends, c) < 0; c, ok = p.peek() {
		p.pos++
	}
	return string(p.buf[start:p.pos])
}

// name reads the name of a tool, the longest that comes next.
func (p *Parser) name() bool {
	var best *Tool
	start := p.pos
	for n := 1; ; n++ {
		if p.pos == len(p.buf) && !p.more() {
			break
		}
		text := string(p.buf[start : p.pos+1])
		more := false
		for name := range p.tools {
			more = more || strings.HasPrefix(name, text)
		}
		if !more {
			break
		}
		p.pos++
		if t := p.tools[text]; t != nil {
			best = t
		}
	}
	p.call.tool = best
	if best == nil {
		return false
	}
	p.pos = start + len(best.Name)
	return true
}

// begin reports that a call begins; its tool is known.
func (p *Parser) begin() {
	c := &p.call
	c.begun, c.start = true, p.taken
	p.emit(Event{Kind: CallBegin, Index: p.index, ID: c.id, Name: c.tool.Name})
}

// arg adds a byte to the call's arguments.
func (p *Parser) arg(b byte) { p.call.args = append(p.call.args, b) }

// flush reports the arguments that were read.
func (p *Parser) flush() {
	c := &p.call
	n := WholeRunes(c.args)
	if !c.begun || p.holding || n == 0 {
		return
	}
	p.emit(Event{Kind: CallArguments, Index: p.index, Text: string(c.args[:n])})
	c.args = append(c.args[:0], c.args[n:]...)
}

// fail reports that the current call is none.
func (p *Parser) fail() {
	text := string(p.buf[p.call.start:p.pos])
	p.emit(Event{Kind: CallFailed, Index: p.index, Text: text})
	p.lead = false
	p.index++
}

// object reads a call that is a JSON object with the tool's name and the arguments.
func (p *Parser) object(depth int) bool {
	if !p.literal("{") || depth > 1 {
		return false
	}
	done := false // the arguments were read
	for first := true; ; first = false {
		p.space()
		if p.literal("}") {
			break
		}
		if !first {
			if !p.literal(",") {
				return false
			}
			p.space()
		}
		key, ok := p.text()
		if !ok {
			return false
		}
		p.space()
		if !p.literal(":") {
			return false
		}
		p.space()
		switch key {
		case "name", "tool_name":
			ok = p.call.tool == nil && p.textName()
		case "arguments", "parameters":
			ok = !done && p.argumentsMember()
			done = true
		case "id", "tool_call_id", "call_id":
			ok = p.identifier()
		case "function":
			if c, _ := p.peek(); c == '{' {
				ok = p.object(depth + 1)
				done = true
			} else {
				ok = p.call.tool == nil && p.textName()
			}
		case "type":
			_, ok = p.text()
		default:
			ok = false
		}
		if !ok {
			return false
		}
	}
	if p.call.tool == nil {
		return false
	}
	if depth == 0 && !p.call.begun {
		p.begin()
		if len(p.call.args) == 0 {
			p.call.args = []byte("{}")
		}
	}
	return true
}

// textName reads a tool's name as a JSON string.
func (p *Parser) textName() bool {
	s, ok := p.text()
	p.call.tool = p.tools[s]
	return ok && p.call.tool != nil
}

// identifier reads a call's id, a string or a number.
func (p *Parser) identifier() bool {
	if c, _ := p.peek(); c == '"' {
		s, ok := p.text()
		p.call.id = s
		return ok
	}
	p.call.id = p.word(",} \t\r\n")
	_, err := strconv.Atoi(p.call.id)
	return err == nil
}

// argumentsMember reads the arguments: an object, an object within a string, or null.
func (p *Parser) argumentsMember() bool {
	switch c, _ := p.peek(); c {
	case '{':
		if p.call.tool != nil {
			p.begin()
		}
		return p.value(p.arg, 0)
	case '"':
		var raw []byte
		if !p.str(func(b byte) { raw = append(raw, b) }, unbounded) {
			return false
		}
		var s string
		var object map[string]json.RawMessage
		if json.Unmarshal(raw, &s) != nil || json.Unmarshal([]byte(s), &object) != nil || object == nil {
			return false
		}
		p.call.args = append(p.call.args, s...)
		return true
	}
	return p.literal("null")
}
