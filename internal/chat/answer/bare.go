package answer

import (
	"slices"
	"strings"

	"github.com/powerinfer-go/powerinfer/internal/grammar"
)

// bareQuote stands before and after a text in Gemma 4's arguments: {city:<|"|>Rome<|"|>,days:3}. Keys are bare, and
// nothing is escaped.
const bareQuote = `<|"|>`

// bareCompound reads an object or a list in Gemma 4's form and passes it on as JSON. JSON is read, too.
func (p *Parser) bareCompound(open byte, put func(byte), depth int) bool {
	return p.members(open, put, func() bool { return p.bareKey(put) }, func() bool { return p.bareValue(put, depth+1) })
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
	c, ok = p.peek()
	p.holding = was
	if read && ok && (isSpace(c) || strings.IndexByte(",}]", c) >= 0) {
		return true
	}
	p.pos, p.call.args = start, p.call.args[:had]
	text := p.word(",}]\n") // a text without its quotes
	putText(text, put)
	return text != ""
}

// bareText reads a text up to the quote that ends it: one followed by what may follow values and keys.
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
		return c.bareValues().object
	}
	params := c.o.Tools[tool].parameters()
	slices.SortStableFunc(params, func(a, b parameter) int { return strings.Compare(strings.ToLower(a.name), strings.ToLower(b.name)) })
	return grammar.Sequence(grammar.Literal("{"), c.inOrder(params, func(p *parameter) grammar.Expr {
		return grammar.Sequence(grammar.Literal(p.name+":"), c.bareArgument(tool, p))
	}), grammar.Literal("}"))
}

// bareArgument is a value of a parameter. Objects and lists may contain anything.
func (c *composer) bareArgument(tool int, p *parameter) grammar.Expr {
	all := c.bareValues()
	if len(p.types) == 0 {
		return all.any
	}
	var kinds []grammar.Expr
	simple := false
	for _, t := range slices.Compact(slices.Sorted(slices.Values(p.types))) {
		switch t {
		case "object":
			kinds = append(kinds, all.object)
		case "array":
			kinds = append(kinds, all.list)
		case "null":
			kinds = append(kinds, grammar.Literal("null"))
		case "string":
			if p.free {
				kinds = append(kinds, c.bareString())
			}
			for _, v := range p.values {
				kinds = append(kinds, grammar.Sequence(c.Marker(bareQuote), grammar.Literal(v), c.Marker(bareQuote)))
			}
		default:
			simple = true
		}
	}
	switch {
	case simple && len(kinds) == 0:
		return c.value(tool, p)
	case simple:
		kinds = append(kinds, all.simple)
	}
	return grammar.Choice(kinds...)
}

func (c *composer) bareString() grammar.Expr {
	return grammar.Sequence(c.Marker(bareQuote), c.Until(bareQuote))
}

// bareValues are values without a schema.
type bareValues struct{ any, object, list, simple grammar.Expr }

func (c *composer) bareValues() *bareValues {
	if c.bareMade != nil {
		return c.bareMade
	}
	v := &bareValues{}
	digits := grammar.Repeat(digit, 1, 20)
	number := grammar.Sequence(grammar.Optional(grammar.Literal("-")), digits, grammar.Optional(grammar.Sequence(grammar.Literal("."), digits)))
	v.simple = grammar.Choice(number, grammar.Literal("true"), grammar.Literal("false"))
	key := grammar.Choice(grammar.Repeat(grammar.OneOf("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.$"), 1, 128), c.bareString())
	several := func(open string, one grammar.Expr, end string) grammar.Expr {
		all := grammar.Optional(grammar.Sequence(one, grammar.Repeat(grammar.Sequence(grammar.Literal(","), one), 0, -1)))
		return grammar.Sequence(grammar.Literal(open), all, grammar.Literal(end))
	}
	v.any = c.Recursive("value", func(self grammar.Expr) grammar.Expr {
		v.object = c.Rule("object", several("{", grammar.Sequence(key, grammar.Literal(":"), self), "}"))
		v.list = c.Rule("list", several("[", self, "]"))
		return grammar.Choice(c.bareString(), v.simple, grammar.Literal("null"), v.list, v.object)
	})
	c.bareMade = v
	return v
}
