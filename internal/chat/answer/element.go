package answer

import (
	"slices"

	"github.com/powerinfer-go/powerinfer/internal/grammar"
)

// elementItem is the name of a list's elements in MiniMax M3's arguments.
const elementItem = "item"

// elements reads the members of an object in MiniMax M3's form: each is an element with the member's name, objects and
// lists contain more elements, and a prefix, a separate token, precedes all tags.
func (p *Parser) elements(prefix string, s shape, depth int) bool {
	p.arg('{')
	more := ""
	for p.space(); p.tagComes(prefix); p.space() {
		key, ok := p.openingTag(prefix)
		if !ok {
			return false
		}
		for i := range len(more) {
			p.arg(more[i])
		}
		more = ","
		putText(key, p.arg)
		p.arg(':')
		if !p.element(prefix, key, s.member(key), depth+1) {
			return false
		}
	}
	p.arg('}')
	return true
}

// list reads the elements of a list.
func (p *Parser) list(prefix string, s shape, depth int) bool {
	p.arg('[')
	for first := true; p.tagComes(prefix); first = false {
		name, ok := p.openingTag(prefix)
		if !ok {
			return false
		}
		if !first {
			p.arg(',')
		}
		if !p.element(prefix, name, s.item(), depth+1) {
			return false
		}
		p.space()
	}
	p.arg(']')
	return true
}

// tagComes reports whether a tag comes next that opens an element.
func (p *Parser) tagComes(prefix string) bool { return p.comes(prefix+"<") && !p.comes(prefix+"</") }

// openingTag reads a tag and returns its name.
func (p *Parser) openingTag(prefix string) (name string, ok bool) {
	p.pos += len(prefix) + len("<")
	name = p.word("<> \t\r\n\"")
	return name, name != "" && p.literal(">")
}

// closingTag reads the tag that closes an element, although models forget which.
func (p *Parser) closingTag(prefix string) bool {
	if !p.literal(prefix + "</") {
		return false
	}
	p.word("<> \t\r\n\"")
	return p.literal(">")
}

// element reads a value and the tag that ends it. Its type follows from the schema or, without one, from the text.
func (p *Parser) element(prefix, name string, s shape, depth int) bool {
	if depth > maxDepth {
		return false
	}
	closing := prefix + "</" + name + ">"
	if s.text() && !s.null() {
		p.arg('"')
		ok := p.until(closing, func(b []byte) {
			for _, c := range b {
				putChar(c, p.arg)
			}
		})
		p.arg('"')
		return ok
	}
	object, list := slices.Contains(s.types, "object"), slices.Contains(s.types, "array")
	start := p.pos
	p.space()
	if tag := p.tagComes(prefix); tag || (object || list) && p.comes(prefix+"</") {
		read := p.elements
		if list && !object || tag && !object && p.comes(prefix+"<"+elementItem+">") {
			read = p.list
		}
		if !read(prefix, s, depth) {
			return false
		}
		p.space()
		return p.closingTag(prefix)
	}
	p.pos = start
	var raw []byte
	if !p.until(prefix, func(b []byte) { raw = append(raw, b...) }) {
		return false
	}
	p.pos -= len(prefix)
	p.written(raw, &s.kinds, false)
	return p.closingTag(prefix)
}

// elements is a tool's arguments in MiniMax M3's form. Objects and lists may contain anything.
func (c *composer) elements(prefix string, tool int) grammar.Expr {
	if len(c.o.Tools[tool].Parameters) == 0 {
		return grammar.Repeat(c.elementValues(prefix).member, 0, -1)
	}
	var parts []grammar.Expr
	for _, p := range c.o.Tools[tool].parameters() {
		one := grammar.Sequence(c.text(prefix+"<"+p.name+">"), c.elementValue(prefix, tool, &p), gap)
		if !p.required {
			one = grammar.Optional(one)
		}
		parts = append(parts, one)
	}
	return grammar.Sequence(parts...)
}

// elementValue is a value of a parameter and the tag that ends it.
func (c *composer) elementValue(prefix string, tool int, p *parameter) grammar.Expr {
	closing := prefix + "</" + p.name + ">"
	all := c.elementValues(prefix)
	if len(p.types) == 0 {
		return all.any
	}
	var kinds []grammar.Expr
	simple := false
	for _, t := range slices.Compact(slices.Sorted(slices.Values(p.types))) {
		switch t {
		case "object":
			kinds = append(kinds, grammar.Sequence(grammar.Repeat(all.member, 0, -1), c.text(closing)))
		case "array":
			kinds = append(kinds, grammar.Sequence(grammar.Repeat(all.item, 0, -1), c.text(closing)))
		case "string":
			if p.free {
				return c.Until(split(closing)...)
			}
			for _, v := range p.values {
				kinds = append(kinds, grammar.Sequence(grammar.Literal(v), c.text(closing)))
			}
		case "null":
			kinds = append(kinds, grammar.Sequence(grammar.Literal("null"), c.text(closing)))
		default:
			simple = true
		}
	}
	if simple {
		value := c.bareValues().simple
		if len(kinds) == 0 {
			value = c.value(tool, p)
		}
		kinds = append(kinds, grammar.Sequence(value, c.text(closing)))
	}
	return grammar.Choice(kinds...)
}

// elementValues are values without a schema: any has the tag that ends it.
type elementValues struct{ any, member, item grammar.Expr }

func (c *composer) elementValues(prefix string) *elementValues {
	if c.elementsMade != nil {
		return c.elementsMade
	}
	v := &elementValues{}
	end := grammar.Sequence(grammar.Literal("</"), identifier, grammar.Literal(">"))
	closing := grammar.Sequence(c.Marker(prefix), end)
	v.any = c.Recursive("value", func(self grammar.Expr) grammar.Expr {
		v.member = c.Rule("member", grammar.Sequence(c.Marker(prefix), grammar.Literal("<"), identifier, grammar.Literal(">"), self))
		v.item = c.Rule("item", grammar.Sequence(c.text(prefix+"<"+elementItem+">"), self))
		return grammar.Choice(
			grammar.Sequence(c.Until(prefix), end),
			grammar.Sequence(grammar.Repeat(v.member, 1, -1), closing),
			grammar.Sequence(grammar.Repeat(v.item, 1, -1), closing),
		)
	})
	c.elementsMade = v
	return v
}
