package answer

import (
	"slices"
	"strings"

	"github.com/powerinfer-go/powerinfer/internal/grammar"
)

// bareQuote stands before and behind a text in Gemma 4's arguments: {city:<|"|>Rome<|"|>,days:3}. Keys are bare, and
// nothing is escaped.
const bareQuote = `<|"|>`

// bareCompound reads an object or a list in Gemma 4's form and hands it over as JSON. What is in JSON is read, too.
func (p *Parser) bareCompound(open byte, put func(byte), depth int) bool {
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
			if !p.bareKey(put) {
				return false
			}
			p.space()
			if !p.take(':', put) {
				return false
			}
			p.space()
		}
		if !p.bareValue(put, depth+1) {
			return false
		}
	}
}

func (p *Parser) bareKey(put func(byte)) bool {
	if p.literal(bareQuote) {
		return p.bareText(put)
	}
	if p.comes(`"`) {
		return p.str(put, maxName)
	}
	key := strings.TrimSpace(p.word(":,{}[]\n"))
	putText(key, put)
	return key != ""
}

func (p *Parser) bareValue(put func(byte), depth int) bool {
	if p.literal(bareQuote) {
		return p.bareText(put)
	}
	c, ok := p.peek()
	if !ok || depth > maxDepth {
		return false
	}
	if c == '{' || c == '[' {
		return p.bareCompound(c, put, depth)
	}
	start, had := p.pos, len(p.call.args)
	was := p.holding
	p.holding = true
	read := p.pythonValue(put, depth)
	p.holding = was
	if c, ok = p.peek(); read && ok && (isSpace(c) || strings.IndexByte(",}]", c) >= 0) {
		return true
	}
	p.pos, p.call.args = start, p.call.args[:had]
	text := p.word(",}]\n") // a text without its quotes
	putText(text, put)
	return text != ""
}

// bareText reads a text up to the quote that ends it: one that is followed by what follows values and keys.
func (p *Parser) bareText(put func(byte)) bool {
	put('"')
	for p.until(bareQuote, func(b []byte) {
		for _, c := range b {
			putChar(c, put)
		}
	}) {
		if p.bareEnd() {
			put('"')
			return true
		}
		for i := range len(bareQuote) {
			putChar(bareQuote[i], put)
		}
	}
	return false
}

// bareEnd reports whether what comes next is what follows a text.
func (p *Parser) bareEnd() bool {
	p.flush()
	defer func(pos int, was bool) { p.pos, p.holding = pos, was }(p.pos, p.holding)
	p.holding = true
	p.space()
	c, ok := p.peek()
	return !ok || strings.IndexByte(",}]:", c) >= 0
}

// bare is a tool's arguments in Gemma 4's form, in the order of their names, as templates write them.
func (c *composer) bare(tool int) grammar.Expr {
	if len(c.o.Tools[tool].Parameters) == 0 {
		_, object := c.bareValues()
		return object
	}
	params := c.o.Tools[tool].parameters()
	slices.SortStableFunc(params, func(a, b parameter) int { return strings.Compare(strings.ToLower(a.name), strings.ToLower(b.name)) })
	return grammar.Sequence(grammar.Literal("{"), c.inOrder(params, func(p *parameter) grammar.Expr {
		return grammar.Sequence(grammar.Literal(p.name+":"), c.bareArgument(tool, p))
	}), grammar.Literal("}"))
}

// bareArgument is a value of a parameter.
func (c *composer) bareArgument(tool int, p *parameter) grammar.Expr {
	simple := func(t string) bool { return slices.Contains([]string{"integer", "number", "boolean", "null"}, t) }
	any, _ := c.bareValues()
	switch {
	case p.text() && !p.free && len(p.values) > 0:
		var values []grammar.Expr
		for _, v := range p.values {
			values = append(values, grammar.Sequence(c.Marker(bareQuote), grammar.Literal(v), c.Marker(bareQuote)))
		}
		if p.null() {
			values = append(values, grammar.Literal("null"))
		}
		return grammar.Choice(values...)
	case p.text() && len(p.types) == 1:
		return c.bareString()
	case len(p.types) > 0 && !slices.ContainsFunc(p.types, func(t string) bool { return !simple(t) }):
		return c.value(tool, p)
	}
	return any
}

func (c *composer) bareString() grammar.Expr {
	return grammar.Sequence(c.Marker(bareQuote), c.Until(bareQuote))
}

// bareValues is any value, and any object.
func (c *composer) bareValues() (value, object grammar.Expr) {
	if c.anyBare != nil {
		return c.anyBare[0], c.anyBare[1]
	}
	digits := grammar.Repeat(digit, 1, 20)
	number := grammar.Sequence(grammar.Optional(grammar.Literal("-")), digits, grammar.Optional(grammar.Sequence(grammar.Literal("."), digits)),
		grammar.Optional(grammar.Sequence(grammar.OneOf("eE"), grammar.Optional(grammar.OneOf("+-")), grammar.Repeat(digit, 1, 3))))
	key := grammar.Choice(grammar.Repeat(grammar.OneOf("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.$"), 1, 128), c.bareString())
	comma := grammar.Literal(",")
	several := func(open string, one grammar.Expr, end string) grammar.Expr {
		all := grammar.Optional(grammar.Sequence(one, grammar.Repeat(grammar.Sequence(comma, one), 0, -1)))
		return grammar.Sequence(grammar.Literal(open), all, grammar.Literal(end))
	}
	value = c.Recursive("value", func(self grammar.Expr) grammar.Expr {
		object = c.Rule("object", several("{", grammar.Sequence(key, grammar.Literal(":"), self), "}"))
		return grammar.Choice(c.bareString(), number, grammar.Literal("true"), grammar.Literal("false"), grammar.Literal("null"), several("[", self, "]"), object)
	})
	c.anyBare = []grammar.Expr{value, object}
	return value, object
}
