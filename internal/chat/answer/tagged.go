package answer

import (
	"slices"

	"github.com/powerinfer-go/powerinfer/internal/grammar"
)

// tagged is a tool's arguments one by one, and the text after them up to the end of the call. A text continues if the
// tag that ends an argument is not followed by what may come then, as in the parser.
func (c *composer) tagged(f *form, k *tags, tool int) grammar.Expr {
	t := c.taggedCall(f, k, tool)
	if k.quotes[0] != "" {
		t.quoted = c.taggedCall(f, k.quoted(), tool)
		t.ends = slices.Insert(t.ends, 1, grammar.End{k.quotes[0]}) // without quotes, a text does not hold the first one
	}
	params := c.o.Tools[tool].parameters()
	if len(c.o.Tools[tool].Parameters) == 0 { // any arguments
		named := grammar.Sequence(identifier, c.middle(k))
		return t.begun(c.Recursive("arguments", func(self grammar.Expr) grammar.Expr {
			return grammar.Sequence(named, t.value(&parameter{}, self, true))
		}), true)
	}
	next, over := grammar.Choice(), true // the arguments that may come, and whether none need come
	for i := len(params) - 1; i >= 0; i-- {
		p := &params[i]
		one := grammar.Sequence(grammar.Literal(p.name), c.middle(k), t.value(p, next, over))
		if p.required {
			next, over = one, false
		} else {
			next = grammar.Choice(one, next)
		}
		next = c.Rule("arguments", next)
	}
	return t.begun(next, over)
}

// taggedCall is common to the arguments of a call between tags.
type taggedCall struct {
	*composer
	tags   *tags
	tool   int
	ends   []grammar.End // of texts: first before another argument, last at the call's end
	nested grammar.End   // the beginning of a call
	tail   grammar.Expr  // what ends the call
	quoted *taggedCall   // the same with values in quotes; nil: there are no quotes
}

func (c *composer) taggedCall(f *form, k *tags, tool int) *taggedCall {
	t := &taggedCall{composer: c, tags: k, tool: tool, tail: grammar.Sequence()}
	end := grammar.End(split(k.close))
	t.ends = []grammar.End{append(append(slices.Clone(end), grammar.Gap), split(k.open)...)}
	for i, text := range f.tail() {
		end = append(append(end, grammar.Gap), split(text)...)
		if i > 0 {
			t.tail = grammar.Sequence(t.tail, gap)
		}
		t.tail = grammar.Sequence(t.tail, c.text(text))
	}
	t.ends, t.nested = append(t.ends, end), split(f.begins())
	return t
}

// begun is the text after the call's beginning or after a value with its tag: the name of one of the next arguments and
// so on, or the end, if none is required.
func (t *taggedCall) begun(next grammar.Expr, over bool) grammar.Expr {
	more := grammar.Sequence(t.text(t.tags.open), next)
	if over {
		more = grammar.Choice(more, t.tail)
	}
	return more
}

// value is a value of a parameter, the tag after it and what follows. A text may be in quotes.
func (t *taggedCall) value(p *parameter, next grammar.Expr, over bool) grammar.Expr {
	e := t.unquoted(p, next, over)
	if t.quoted != nil && (p.text() || len(p.types) == 0) {
		e = grammar.Choice(e, grammar.Sequence(t.text(t.tags.quotes[0]), t.quoted.unquoted(p, next, over)))
	}
	return e
}

func (t *taggedCall) unquoted(p *parameter, next grammar.Expr, over bool) grammar.Expr {
	k, typed := t.tags, grammar.Sequence()
	is := func(types ...string) {
		var all []grammar.Expr
		for _, w := range k.typed {
			if w.types == nil && types[0] != "string" || slices.ContainsFunc(types, func(name string) bool { return slices.Contains(w.types, name) }) {
				all = append(all, t.text(w.text))
			}
		}
		if len(all) > 0 {
			typed = grammar.Choice(all...)
		}
	}
	is("string")
	follows := grammar.Sequence(t.text(k.close), gap, t.begun(next, over))
	switch {
	case p.text() && !p.free:
		var values []grammar.Expr
		for _, v := range p.values {
			values = append(values, grammar.Literal(v))
		}
		line := grammar.Sequence()
		if k.lines {
			line = grammar.Optional(grammar.Literal("\n"))
		}
		return grammar.Sequence(typed, line, grammar.Choice(values...), line, follows)
	case p.text() || len(p.types) == 0:
		text := grammar.Sequence(t.UpTo(t.ends, 0, t.nested), next)
		if over {
			text = grammar.Choice(text, t.UpTo(t.ends, len(t.ends)-1, t.nested))
		}
		return grammar.Sequence(typed, text)
	}
	is(p.types...)
	return grammar.Sequence(typed, gap, t.composer.value(t.tool, p), gap, follows)
}

// middle returns the text between an argument's name and its value.
func (c *composer) middle(k *tags) grammar.Expr {
	var parts []grammar.Expr
	for i, m := range k.middle {
		if i > 0 {
			parts = append(parts, gap)
		}
		parts = append(parts, c.text(m))
	}
	return grammar.Sequence(parts...)
}
