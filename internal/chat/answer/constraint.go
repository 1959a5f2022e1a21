package answer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/powerinfer-go/powerinfer/internal/grammar"
)

// ConstraintOptions say which calls an answer may or must have. To force one tool, name only that and require a call.
type ConstraintOptions struct {
	Tools    []Tool
	Required bool   // the answer must be a call
	Plain    bool   // no new thought; one that the prompt has begun may end
	Thinks   bool   // a thought may begin, also if the template shows none
	Parallel bool   // there may be several calls
	Prompt   string // as in Options

	// Text constrains answers without calls. It applies after the thoughts, unless it is a grammar that writes their
	// markers itself.
	Text grammar.Text
}

// A Constraint is the grammar that an answer's calls or its text are held to.
type Constraint struct {
	Grammar  *grammar.Grammar
	Lazy     bool             // it holds from a trigger on; else from the beginning
	Triggers grammar.Triggers // if Lazy

	// Loose are the reasons why tools' schemas are not held to, or not in a part, each with the tool's name.
	Loose []error
}

// NewState returns the state of one answer; compiled is c.Grammar's.
func (c *Constraint) NewState(ctx context.Context, compiled *grammar.Compiled) *grammar.State {
	if c.Lazy {
		return compiled.NewLazyState(ctx, c.Triggers)
	}
	return compiled.NewState(ctx)
}

// Constraint returns the grammar of an answer. If no call is required and its text may be any, the grammar begins where
// a call begins. There must be tools, or a restricted text. The end of ctx is an error.
func (f *Format) Constraint(ctx context.Context, o ConstraintOptions) (*Constraint, error) {
	if len(o.Tools) == 0 && (o.Text.Any() || o.Required) {
		return nil, errors.New("an answer needs tools or a form of its text to be held to")
	}
	c := &composer{Builder: grammar.NewBuilder(ctx), o: o, bodies: map[*form]grammar.Expr{}}
	for i := range o.Tools {
		if err := c.addArguments(&o.Tools[i]); err != nil {
			return nil, err
		}
	}
	if !o.Text.Any() && !o.Required {
		text, err := c.Text(o.Text)
		if err != nil {
			return nil, fmt.Errorf("the form of the answer's text: %w", err)
		}
		c.form = &text
	}
	out := &Constraint{Lazy: !o.Required && c.form == nil, Loose: c.loose}
	var root grammar.Expr
	if f.channels != nil {
		root = c.messages(f.channels, &out.Triggers)
	} else {
		root = c.answer(f, &out.Triggers)
	}
	var err error
	out.Grammar, err = c.Grammar(root)
	return out, err
}

// composer builds the grammar of one Constraint.
type composer struct {
	*grammar.Builder
	o         ConstraintOptions
	schemas   []*grammar.Schema // [tools]; any object if the tool's is not supported
	arguments []grammar.Expr    // [tools] as JSON objects
	loose     []error
	bodies    map[*form]grammar.Expr
	form      *grammar.Expr // form of an answer without calls; nil: any text

	bareMade     *bareValues
	elementsMade *elementValues
}

// gap is white space between calls and their parts; it is bounded, since models can go on with it forever.
var gap = grammar.Repeat(grammar.OneOf(" \t\r\n"), 0, 8)

// anyObject is the schema of tools that have none.
const anyObject = `{"type":"object"}`

// addArguments adds a tool's arguments. What its schema says and is not supported constrains nothing, unless the tool
// is strict; a schema that says nothing sensible allows any object.
func (c *composer) addArguments(t *Tool) error {
	text := t.Parameters
	if len(text) == 0 {
		text = json.RawMessage(anyObject)
	}
	schema, e, err := c.read(text, t.Strict)
	switch {
	case c.Err() != nil:
		return fmt.Errorf("the tool %s: %w", t.Name, err)
	case err != nil && t.Strict:
		return fmt.Errorf("the tool %s is strict, and its schema is not supported: %w", t.Name, err)
	case err != nil:
		c.loose = append(c.loose, fmt.Errorf("the tool %s: %w", t.Name, err))
		if schema, e, err = c.read(json.RawMessage(anyObject), false); err != nil {
			return err // the context has ended or the grammar is too large: the schema itself is ours
		}
	}
	for _, reason := range schema.Loose() {
		c.loose = append(c.loose, fmt.Errorf("the tool %s: %s", t.Name, reason))
	}
	c.schemas = append(c.schemas, schema)
	c.arguments = append(c.arguments, e)
	return nil
}

func (c *composer) read(schema json.RawMessage, strict bool) (*grammar.Schema, grammar.Expr, error) {
	s, err := c.Schema(schema)
	if err != nil {
		return nil, grammar.Expr{}, err
	}
	if !strict {
		s.Loosen()
	}
	e, err := s.Part("#")
	return s, e, err
}

// answer is an answer of one message.
func (c *composer) answer(f *Format, t *grammar.Triggers) grammar.Expr {
	primed := f.primed(c.o.Prompt)
	opened := f.opened(c.o.Prompt)
	if c.o.Required || c.form != nil {
		var said []grammar.Expr
		if len(c.o.Tools) > 0 {
			calls := c.calls(f.forms[0], primed != nil)
			if primed == nil && !f.forms[0].first {
				calls = grammar.Sequence(gap, calls)
			}
			calls = c.wrapped(f, calls)
			said = append(said, calls)
		}
		if c.form != nil {
			said = append(said, c.content(f, primed != nil))
		}
		all := c.Rule("answer", grammar.Choice(said...))
		switch {
		case slices.ContainsFunc(f.thoughts, func(t thought) bool { return c.writes(t.close) }):
			return all
		case opened != nil:
			return c.thought(f, opened, all)
		case primed != nil, !f.thinks && !c.o.Thinks, c.o.Plain, f.closed(c.o.Prompt): // a model that was not trained to think would begin a thought and not end it
			return all
		}
		ways := []grammar.Expr{all}
		for i := range f.thoughts { // some models write other markers than those of the template's instructions
			ways = append(ways, grammar.Sequence(gap, c.text(f.thoughts[i].open), c.thought(f, &f.thoughts[i], all)))
		}
		return grammar.Choice(ways...)
	}
	if !f.control {
		th := f.thoughts[0]
		if opened != nil {
			th = *opened
		}
		t.Quiet = grammar.Quiet{Begin: th.open, End: th.close, Open: opened != nil}
	}
	var roots []grammar.Expr
	var opens []string
	for _, form := range f.forms {
		open := form.open
		if form.first && form.keep {
			open += form.call[0].keys.name
		}
		if slices.Contains(opens, open) {
			continue // the grammar is of the first form that begins so
		}
		opens = append(opens, open)
		roots = append(roots, c.ended(f, c.calls(form, primed == form)))
		c.trigger(form, primed == form, t)
	}
	return grammar.Choice(roots...)
}

// thought is a thought that has begun, and the text after it. A call may end it, as in the parser.
func (c *composer) thought(f *Format, t *thought, after grammar.Expr) grammar.Expr {
	e := grammar.Sequence(c.Until(split(t.close)...), gap, grammar.Optional(c.text(f.speaker)), after)
	if form := f.forms[0]; len(c.o.Tools) > 0 && !form.first {
		e = grammar.Choice(e, c.callsAfter(form, c.UpTo([]grammar.End{split(t.close), split(form.open)}, 1, nil)))
	}
	return e
}

// writes reports whether the text's grammar names a marker.
func (c *composer) writes(marker string) bool { return strings.Contains(c.o.Text.GBNF, marker) }

// content is the answer's text with the format's text around it.
func (c *composer) content(f *Format, primed bool) grammar.Expr {
	text := *c.form
	for _, w := range f.wraps {
		text = grammar.Sequence(grammar.Optional(c.text(w.open)), text, grammar.Optional(c.text(w.close)))
		if w.end != "" {
			text = grammar.Sequence(text, grammar.Optional(c.text(w.end)))
		}
	}
	for _, form := range f.forms {
		if form.aside == "" {
			continue
		}
		open := c.text(form.open)
		if primed {
			open = grammar.Optional(open)
		}
		return grammar.Sequence(open, grammar.Literal(form.aside), text)
	}
	return text
}

// wrapped is calls with the format's text around or before them.
func (c *composer) wrapped(f *Format, calls grammar.Expr) grammar.Expr {
	calls = c.ended(f, calls)
	for _, w := range f.wraps {
		switch {
		case w.around:
			calls = grammar.Sequence(grammar.Optional(grammar.Sequence(gap, c.text(w.open))), calls)
		case w.empty:
			calls = grammar.Sequence(grammar.Optional(c.text(w.open+w.close)), calls)
		}
	}
	return calls
}

// ended is calls with the format's text after them.
func (c *composer) ended(f *Format, calls grammar.Expr) grammar.Expr {
	for _, w := range f.wraps {
		if w.around {
			calls = grammar.Sequence(calls, grammar.Optional(grammar.Sequence(gap, c.text(w.close))))
		}
		if w.end != "" {
			calls = grammar.Sequence(calls, grammar.Optional(c.text(w.end)))
		}
	}
	return calls
}

// trigger adds the beginning of a form's calls.
func (c *composer) trigger(f *form, primed bool, t *grammar.Triggers) {
	for _, tool := range c.o.Tools {
		switch {
		case f.aside != "":
			t.Words = append(t.Words, f.open+tool.Name+"\n")
			if primed {
				t.First = append(t.First, tool.Name+"\n")
			}
		case f.call[0].kind == partPython && f.first:
			t.First = append(t.First, f.open+tool.Name+"(")
		}
	}
	switch {
	case f.aside != "" || f.call[0].kind == partPython && f.first:
	case f.first && len(f.head) > 0:
		t.First = append(t.First, f.open+f.head[1].text)
	case f.first && f.list:
		t.First = append(t.First, f.open+`{"`+f.call[0].keys.name+`"`)
	case f.first:
		t.First = append(t.First, f.open+`"`+f.call[0].keys.name+`"`)
	case f.list && f.open == firefunction.open: // a word like any other
		t.Words = append(t.Words, f.open+"[")
	default:
		t.Words = append(t.Words, f.open)
	}
}

// calls is one or several calls in a form; the prompt may have the first one's opening.
func (c *composer) calls(f *form, primed bool) grammar.Expr {
	open := grammar.Sequence()
	if !f.keep {
		open = c.text(f.open)
	}
	if primed {
		open = grammar.Optional(open)
	}
	return c.callsAfter(f, open)
}

// callsAfter is one or several calls; opening opens the first.
func (c *composer) callsAfter(f *form, opening grammar.Expr) grammar.Expr {
	body := c.body(f)
	open, between := grammar.Sequence(), gap
	if !f.keep {
		open = c.text(f.open)
	}
	if f.between != "" {
		between = grammar.Sequence(gap, grammar.Optional(grammar.Sequence(grammar.Literal(f.between), gap)))
		open = grammar.Optional(open)
	}
	first := grammar.Sequence(opening, body)
	if c.o.Parallel && !f.list && !f.many && !f.lines && (!f.first || f.between != "") {
		first = grammar.Sequence(first, grammar.Repeat(grammar.Sequence(between, open, body), 0, -1))
	}
	if c.o.Parallel { // else the answer is over, and the model need not say so
		first = grammar.Sequence(first, gap)
	}
	return first
}

// body is a run of calls without what opens it.
func (c *composer) body(f *form) grammar.Expr {
	if e, ok := c.bodies[f]; ok {
		return e
	}
	var one []grammar.Expr
	for i := range c.o.Tools {
		one = append(one, c.one(f, i))
	}
	call := c.Rule("call", grammar.Choice(one...))
	var run []grammar.Expr
	for _, p := range f.head {
		run = append(run, c.part(f, p, 0))
	}
	switch {
	case f.list:
		comma := grammar.Sequence(gap, grammar.Literal(","), gap)
		run = append(run, gap, grammar.Literal("["), gap, call)
		if c.o.Parallel {
			run = append(run, grammar.Repeat(grammar.Sequence(comma, call), 0, -1))
		}
		run = append(run, gap, grammar.Literal("]"))
	case (f.many || f.lines) && c.o.Parallel:
		run = append(run, call, grammar.Repeat(grammar.Sequence(gap, call), 0, -1))
	default:
		run = append(run, call)
	}
	if f.close != "" && (f.many || !f.tagged()) {
		run = append(run, gap, c.text(f.close))
	}
	e := c.Rule("calls", grammar.Sequence(run...))
	c.bodies[f] = e
	return e
}

// one is a call of the tool with that index.
func (c *composer) one(f *form, tool int) grammar.Expr {
	var parts []grammar.Expr
	for _, p := range f.call {
		parts = append(parts, c.part(f, p, tool))
		if p.kind == partTagged { // with all that follows
			break
		}
	}
	return grammar.Sequence(parts...)
}

// special are texts that may be tokens without bytes.
var special = regexp.MustCompile(`<(?:function|param)\b|<\|[a-z_]+>|<[a-z_]+\|>|<\|[^|]*\|>|<｜[^｜]*｜>|｜DSML｜|\[[A-Z_]+\]|</?[a-z_:]+>|\]<\]minimax\[>\[|\[BEGIN FINAL RESPONSE\]`)

// split cuts a text into possible special tokens and other texts.
func split(s string) []string {
	var parts []string
	add := func(part string) {
		if part != "" {
			parts = append(parts, part)
		}
	}
	at := 0
	for _, m := range special.FindAllStringIndex(s, -1) {
		add(s[at:m[0]])
		add(s[m[0]:m[1]])
		at = m[1]
	}
	add(s[at:])
	return parts
}

// text is a text; parts of it may be special tokens.
func (c *composer) text(s string) grammar.Expr {
	var parts []grammar.Expr
	for _, p := range split(s) {
		if special.MatchString(p) {
			parts = append(parts, c.Marker(p))
		} else {
			parts = append(parts, grammar.Literal(p))
		}
	}
	return grammar.Sequence(parts...)
}

// colon and comma stand between the parts of JSON objects as in grammars of schemas.
var (
	colon = grammar.Sequence(grammar.Literal(":"), grammar.Optional(grammar.Literal(" ")))
	comma = grammar.Sequence(grammar.Literal(","), grammar.Optional(grammar.Literal(" ")))
	digit = grammar.OneOf("0123456789")

	identifier = grammar.Repeat(grammar.OneOf("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"), 1, 64)
)

func member(key string, value grammar.Expr) grammar.Expr {
	return grammar.Sequence(grammar.Literal(`"`+key+`"`), colon, value)
}

// part is a part of a call of the tool with that index.
func (c *composer) part(f *form, p part, tool int) grammar.Expr {
	t := &c.o.Tools[tool]
	switch p.kind {
	case partLiteral, partOptional:
		return c.text(p.text)
	case partSpace:
		return gap
	case partName:
		return grammar.Literal(t.Name)
	case partIdentifier:
		return grammar.Optional(grammar.Sequence(c.text(p.text), identifier))
	case partDigits:
		return grammar.Repeat(digit, 1, 3)
	case partNumber:
		return grammar.Sequence(grammar.Literal(":"), grammar.Repeat(digit, 1, 3))
	case partArguments:
		return c.arguments[tool]
	case partObject:
		return c.object(p.keys, tool)
	case partTagged:
		return c.tagged(f, &p.tags, tool)
	case partBare:
		return c.bare(tool)
	case partElements:
		return c.elements(p.text, tool)
	}
	return c.python(tool)
}

func (c *composer) object(k keys, tool int) grammar.Expr {
	quoted := func(e grammar.Expr) grammar.Expr {
		return grammar.Sequence(grammar.Literal(`"`), e, grammar.Literal(`"`))
	}
	parts := []grammar.Expr{grammar.Literal("{")}
	if k.idBefore != "" {
		parts = append(parts, member(k.idBefore, quoted(grammar.Repeat(digit, 1, 3))), comma)
	}
	parts = append(parts, member(k.name, quoted(grammar.Literal(c.o.Tools[tool].Name))), comma, member(k.arguments, c.arguments[tool]))
	if k.idBehind != "" {
		parts = append(parts, grammar.Optional(grammar.Sequence(comma, member(k.idBehind, quoted(identifier)))))
	}
	return grammar.Sequence(append(parts, grammar.Literal("}"))...)
}

// value is a value of a tool's parameter in JSON or as in Python, because models and templates mix them up.
func (c *composer) value(tool int, p *parameter) grammar.Expr {
	e, err := c.schemas[tool].PythonPart("#/properties/" + pointer.Replace(p.name))
	if err != nil { // the tool's schema is not supported; loose says so
		return c.arguments[tool]
	}
	return e
}

// python is a tool's call as in Python.
func (c *composer) python(tool int) grammar.Expr {
	t := &c.o.Tools[tool]
	return grammar.Sequence(grammar.Literal(t.Name+"("), c.inOrder(t.parameters(), func(p *parameter) grammar.Expr {
		return grammar.Sequence(grammar.Literal(p.name+"="), c.value(tool, p))
	}), grammar.Literal(")"))
}

// inOrder is arguments in the order of their parameters, with commas between them; optional ones may be missing.
func (c *composer) inOrder(params []parameter, argument func(*parameter) grammar.Expr) grammar.Expr {
	first, later := grammar.Sequence(), grammar.Sequence() // what follows without and with an argument before
	for i := len(params) - 1; i >= 0; i-- {
		p := &params[i]
		e := grammar.Sequence(argument(p), later)
		withComma := grammar.Sequence(comma, e)
		if p.required {
			first, later = e, c.Rule("argument", withComma)
			continue
		}
		first, later = grammar.Choice(e, first), c.Rule("argument", grammar.Choice(withComma, later))
	}
	return first
}
