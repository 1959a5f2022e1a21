package answer

import (
	"cmp"
	"slices"
	"strings"

	"github.com/powerinfer-go/powerinfer/internal/grammar"
)

// channels describes a format that writes an answer as several messages. A message is a header, a marker and a body.
// The header says whether the body is a thought, and for which tool it is.
type channels struct {
	start   string   // beginning of a message, before the role
	begins  []string // what an answer's header begins with
	message string   // between a header and a body
	ends    []string // ends of a body, including the next message's beginning, because models may forget the end
	end     string   // that of a thought

	channel string // text before a channel's name; empty if there are none, and the recipient marks thoughts
	thought string // the channel or the recipient of thoughts
	tools   string // text before a tool's name as a recipient
	form    *form  // form of calls in a body; nil: it is the arguments of one
}

// harmony is the format of gpt-oss (OpenAI's harmony response format).
var harmony = channels{
	start: "<|start|>", begins: []string{"<|start|>", "<|channel|>", "<|message|>", " to=", "<|constrain|>"}, message: "<|message|>",
	ends: []string{"<|end|>", "<|return|>", "<|call|>", "<|start|>", "<|channel|>"}, end: "<|end|>",
	channel: "<|channel|>", thought: "analysis", tools: "functions.",
}

// museEnd ends a message of Muse Glimmer that others follow.
const museEnd = "<|eom|>"

// muse is the format of Muse Glimmer; atem is the form of its calls.
var (
	muse = channels{
		start: "<|start|>", begins: []string{"<|start|>", "<|message|>", " to="}, message: "<|message|>",
		ends: []string{museEnd, "<|eot|>", "<|start|>"}, end: museEnd,
		thought: "self", form: &atem,
	}
	atem = invocations("<atem:", "atem:function_calls")
)

// opening returns the header of a thought.
func (c *channels) opening() string { return cmp.Or(c.channel, " to=") + c.thought + c.message }

// body reports whether a prompt ends in the body of the answer's message, and whether that is a thought.
func (c *channels) body(prompt string) (thought, inside bool) {
	header, body, ok := cutLast(prompt, c.message)
	if !ok || slices.ContainsFunc(c.ends, func(end string) bool { return strings.Contains(body, end) }) {
		return false, false
	}
	_, header, _ = cutLast(header, c.start)
	thought, _ = c.role(header)
	return thought, strings.HasPrefix(header, "assistant")
}

// cutLast cuts s around the last sep; without one all of s comes after it.
func cutLast(s, sep string) (before, after string, ok bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return "", s, false
}

// role reports whether a message with that header is a thought, and returns its recipient, unless that is the user or
// the model.
func (c *channels) role(header string) (thought bool, recipient string) {
	word := func(after string) string {
		_, text, _ := strings.Cut(header, after)
		text, _, _ = strings.Cut(strings.TrimLeft(text, " "), "<")
		text, _, _ = strings.Cut(text, " ")
		return text
	}
	recipient = word("to=")
	switch {
	case c.channel != "":
		return word(c.channel) == c.thought, recipient
	case recipient == c.thought:
		return true, ""
	case recipient == "user":
		return false, ""
	}
	return false, recipient
}

// messages reads an answer of several messages.
func (p *Parser) messages(c *channels) {
	thought, inside := c.body(p.o.Prompt)
	withCalls := c.ends
	if c.form != nil && len(p.tools) > 0 {
		withCalls = append(slices.Clone(c.ends), c.form.open)
	}
	for ; ; inside = false {
		if _, ok := p.peek(); !ok {
			p.rest(Content)
			return
		}
		var kind Kind
		var recipient string
		if inside {
			kind = p.bodyKind(thought)
		} else {
			kind, recipient = p.header(c)
		}
		if recipient != "" && p.messageCall(c, recipient) {
			kind = Content
		}
		markers := c.ends
		if kind == Content && !p.inline {
			markers = withCalls
		}
		m := p.span(kind, markers)
		for c.form != nil && m == c.form.open {
			p.calls([]*form{c.form}, false, kind)
			m = p.span(kind, markers)
		}
		p.rest(kind)
		if m == "" {
			return
		}
		if m != c.start && m != c.channel {
			p.pos += len(m)
			p.mark(kind)
		}
	}
}

// mark reports a marker of a message: it is none if thoughts are content.
func (p *Parser) mark(kind Kind) {
	if kind == Content && p.inline {
		p.rest(Content)
	}
	p.emit(Event{Kind: Mark})
}

// header reads a message's header, and returns the kind of its text and the tool that it is for. Without a header, text
// is content.
func (p *Parser) header(c *channels) (kind Kind, recipient string) {
	p.inline = false
	if !slices.ContainsFunc(c.begins, p.comes) {
		return Content, ""
	}
	start := p.pos
	for !p.literal(c.message) {
		if b, ok := p.peek(); !ok || p.pos-start > maxName || b == '\n' {
			return Content, ""
		}
		p.pos++
	}
	thought, recipient := c.role(string(p.buf[start : p.pos-len(c.message)]))
	if recipient != "" {
		tool := strings.TrimPrefix(recipient, c.tools)
		if c.form != nil && len(p.tools) > 0 || p.tools[tool] != nil {
			return Content, tool
		}
		p.inline = true
		return Content, ""
	}
	if kind = p.bodyKind(thought); !p.inline {
		p.emit(Event{Kind: Mark})
	}
	return kind, ""
}

// bodyKind returns the kind of a body's text.
func (p *Parser) bodyKind(thought bool) Kind {
	if !thought {
		return Content
	}
	if p.inline = p.o.Reasoning == ReasoningNone; p.inline {
		return Content
	}
	return Reasoning
}

// messageCall reads the body of a message to a tool, after its header, and reports whether it is a call.
func (p *Parser) messageCall(c *channels, tool string) bool {
	p.space()
	if c.form != nil {
		p.inline = !p.comes(c.form.open) || !p.calls([]*form{c.form}, false, Content)
		if p.inline {
			return false
		}
		p.space()
		p.emit(Event{Kind: Mark})
		return true
	}
	p.call = call{tool: p.tools[tool]}
	ok := p.part(args)
	switch {
	case ok:
		p.flush()
		p.emit(Event{Kind: CallEnd, Index: p.index})
		p.index++
		p.space()
		p.emit(Event{Kind: Mark})
	case p.call.begun:
		p.fail()
	default:
		p.inline = true
	}
	p.call = call{}
	return ok
}

// messages is an answer of several messages: thoughts, if a call is required or texts have a form, and the answer.
func (c *composer) messages(ch *channels, t *grammar.Triggers) grammar.Expr {
	said, thought := c.harmony, c.Marker(ch.channel)
	if ch.form != nil {
		said, thought = c.muse, grammar.Literal(" to=")
	}
	calls, text := said(ch, t)
	if !c.o.Required && c.form == nil {
		return calls
	}
	if c.writes(cmp.Or(ch.channel, ch.message)) {
		return *c.form
	}
	all := grammar.Choice()
	if len(c.o.Tools) > 0 {
		all = calls
	}
	if c.form != nil {
		all = grammar.Choice(all, grammar.Sequence(text, c.Marker(ch.message), *c.form))
	}
	next := grammar.Sequence(c.Until(ch.end), c.Marker(ch.start), grammar.Literal("assistant"))
	header := grammar.Sequence(thought, grammar.Literal(ch.thought), c.Marker(ch.message))
	further := grammar.Repeat(grammar.Sequence(header, next), 0, -1)
	switch thought, inside := ch.body(c.o.Prompt); {
	case inside && thought:
		return grammar.Sequence(next, further, all)
	case inside && c.form != nil: // within the text, which continues
		return *c.form
	case c.o.Plain:
		return all
	}
	return grammar.Sequence(further, all)
}

// harmony is the calls in gpt-oss' messages, in either order of the header, and the header of a text.
func (c *composer) harmony(ch *channels, t *grammar.Triggers) (calls, text grammar.Expr) {
	*t = grammar.Triggers{
		Words: []string{" to=" + ch.tools}, First: []string{"to=" + ch.tools},
		Quiet: grammar.Quiet{Begin: ch.channel + ch.thought, End: ch.end},
	}
	channel := grammar.Sequence(c.Marker(ch.channel), grammar.Literal("commentary"))
	space := grammar.Optional(grammar.Literal(" "))
	content := grammar.Choice(grammar.Literal(" json"), grammar.Sequence(space, c.Marker("<|constrain|>"), grammar.Literal("json")))
	var all []grammar.Expr
	for i := range c.o.Tools {
		all = append(all, grammar.Sequence(grammar.Literal("to="+ch.tools+c.o.Tools[i].Name), grammar.Optional(grammar.Sequence(space, channel)),
			grammar.Optional(content), c.Marker(ch.message), c.arguments[i], grammar.Optional(c.Marker("<|call|>"))))
	}
	calls = grammar.Sequence(space, grammar.Choice(all...))
	if c.o.Required || c.form != nil {
		calls = grammar.Sequence(grammar.Optional(channel), grammar.Literal(" "), grammar.Choice(all...))
	}
	return calls, grammar.Sequence(c.Marker(ch.channel), grammar.Literal("final"), grammar.Optional(content))
}

// muse is the calls in Muse Glimmer's messages, each to its tool, and the header of a text.
func (c *composer) muse(ch *channels, t *grammar.Triggers) (calls, text grammar.Expr) {
	var all []grammar.Expr
	for i := range c.o.Tools {
		to := "to=" + c.o.Tools[i].Name
		t.Words = append(t.Words, " "+to+ch.message)
		t.First = append(t.First, to+ch.message)
		all = append(all, grammar.Sequence(grammar.Literal(to), c.Marker(ch.message), c.text(ch.form.open), gap, c.one(ch.form, i), gap, c.text(ch.form.close)))
	}
	one := c.Rule("call", grammar.Choice(all...))
	calls = one
	if c.o.Parallel {
		calls = grammar.Sequence(one, grammar.Repeat(grammar.Sequence(c.Marker(ch.end), c.Marker(ch.start), grammar.Literal("assistant "), one), 0, -1))
	}
	space := grammar.Literal(" ")
	if !c.o.Required && c.form == nil {
		space = grammar.Optional(space)
	}
	return grammar.Sequence(space, calls), grammar.Optional(grammar.Literal(" to=user"))
}
