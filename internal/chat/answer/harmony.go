package answer

import (
	"slices"
	"strings"
)

// Markers of the harmony format (OpenAI's harmony response format for gpt-oss): a message is a header, <|message|> and
// a body, and a message for a tool is a call of it.
const (
	harmonyStart     = "<|start|>"
	harmonyChannel   = "<|channel|>"
	harmonyMessage   = "<|message|>"
	harmonyFunctions = "functions."
	harmonyThought   = "analysis" // the channel of thoughts
)

// What ends a body; the next message's beginning does so where the end was forgotten.
var harmonyEnds = []string{"<|end|>", "<|return|>", "<|call|>", harmonyStart, harmonyChannel}

// harmonyBody returns the channel of the answer's message with the body that a prompt ends in, and whether it ends in
// one.
func harmonyBody(prompt string) (channel string, inside bool) {
	header, body, ok := cutLast(prompt, harmonyMessage)
	if !ok || slices.ContainsFunc(harmonyEnds, func(end string) bool { return strings.Contains(body, end) }) {
		return "", false
	}
	_, header, _ = cutLast(header, harmonyStart)
	return channelOf(header), strings.HasPrefix(header, "assistant")
}

// cutLast cuts s around the last sep; without one all of s comes after it.
func cutLast(s, sep string) (before, after string, ok bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return "", s, false
}

// channelOf returns the channel that a message's header names.
func channelOf(header string) string {
	_, channel, _ := strings.Cut(header, harmonyChannel)
	channel, _, _ = strings.Cut(strings.TrimLeft(channel, " "), "<")
	channel, _, _ = strings.Cut(channel, " ")
	return channel
}

// messages reads an answer in the harmony format.
func (p *Parser) messages() {
	channel, inside := harmonyBody(p.o.Prompt)
	for ; ; inside = false {
		if _, ok := p.peek(); !ok {
			p.rest(Content)
			return
		}
		var kind Kind
		var recipient string
		if inside {
			kind = p.channelKind(channel)
		} else {
			kind, recipient = p.header()
		}
		if recipient != "" && p.harmonyCall(recipient) {
			kind = Content
		}
		m := p.span(kind, harmonyEnds)
		p.rest(kind)
		if m == "" {
			return
		}
		if m != harmonyStart && m != harmonyChannel {
			p.pos += len(m)
			p.mark(kind)
		}
	}
}

// mark tells of a marker of a message: it is none where thoughts are content.
func (p *Parser) mark(kind Kind) {
	if kind == Content && p.inline {
		p.rest(Content)
	}
	p.emit(Event{Kind: Mark})
}

// header reads a message's header, and returns of which kind its text is, and the tool that it is for. Without a
// header, text is content.
func (p *Parser) header() (kind Kind, recipient string) {
	p.inline = false
	begins := false
	for _, m := range []string{harmonyStart, harmonyChannel, harmonyMessage, " to=", "<|constrain|>"} {
		begins = begins || p.comes(m)
	}
	if !begins {
		return Content, ""
	}
	start := p.pos
	for !p.literal(harmonyMessage) {
		if c, ok := p.peek(); !ok || p.pos-start > maxName || c == '\n' {
			return Content, ""
		}
		p.pos++
	}
	text := string(p.buf[start : p.pos-len(harmonyMessage)])
	if _, to, ok := strings.Cut(text, "to="); ok {
		to, _, _ = strings.Cut(to, "<")
		to, _, _ = strings.Cut(to, " ")
		if tool := strings.TrimPrefix(to, harmonyFunctions); p.tools[tool] != nil {
			return Content, tool
		}
		p.inline = true
		return Content, ""
	}
	if kind = p.channelKind(channelOf(text)); !p.inline {
		p.emit(Event{Kind: Mark})
	}
	return kind, ""
}

// channelKind returns the kind of the text in a channel's messages.
func (p *Parser) channelKind(channel string) Kind {
	if channel != harmonyThought {
		return Content
	}
	if p.inline = p.o.Reasoning == ReasoningNone; p.inline {
		return Content
	}
	return Reasoning
}

// harmonyCall reads the arguments of a call, whose header was read, and reports whether they are any.
func (p *Parser) harmonyCall(tool string) bool {
	p.call = call{tool: p.tools[tool]}
	p.space()
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
