package chat

import (
	"slices"
	"strings"

	"github.com/powerinfer-go/powerinfer/internal/chat/jinja"
	"github.com/powerinfer-go/powerinfer/internal/picture"
)

// Message is one message of a conversation.
type Message struct {
	Role       string // system, developer, user, assistant or tool
	Content    string
	Parts      []Part     // content in parts, instead of Content
	Reasoning  string     // what an assistant thought before it answered
	ToolCalls  []ToolCall // of an assistant
	ToolCallID string     // of a tool: the call that it answers
	Name       string     // of a tool: the function's name

	silent  bool      // it is only for the template, and is cut out of the text
	results []Message // of its calls, for templates that show them in the same message
}

// A Part is a piece of a message's content: a text, or a picture of the type image.
type Part struct {
	Type, Text string
	Picture    *picture.Image
}

// text returns the content as one string, without pictures.
func (m *Message) text() string {
	if m.silent {
		return silence
	}
	if m.Parts == nil {
		return m.Content
	}
	var b strings.Builder
	for _, p := range m.Parts {
		b.WriteString(p.Text)
	}
	return b.String()
}

// IsEmpty reports whether the content has neither a text nor a picture.
func (m *Message) IsEmpty() bool {
	return strings.TrimSpace(m.text()) == "" && !slices.ContainsFunc(m.Parts, func(p Part) bool { return p.Picture != nil })
}

func dict(pairs ...any) *jinja.Dict {
	d := &jinja.Dict{}
	for i := 0; i < len(pairs); i += 2 {
		d.Set(pairs[i].(string), pairs[i+1])
	}
	return d
}

// value returns the message as templates take it.
func (m *Message) value(c *Capabilities) *jinja.Dict {
	d := dict("role", m.Role)
	switch {
	case c.ContentParts && !c.ContentString:
		d.Set("content", m.partList())
	case m.Parts != nil && c.ContentParts:
		d.Set("content", m.partList())
	default:
		d.Set("content", m.text())
	}
	if m.Reasoning != "" {
		for _, field := range c.reasoningFields {
			d.Set(field, m.Reasoning)
		}
	}
	if m.Name != "" {
		d.Set("name", m.Name)
	}
	if m.ToolCallID != "" {
		d.Set("tool_call_id", m.ToolCallID)
	}
	if len(m.ToolCalls) > 0 {
		calls := &jinja.List{}
		for i := range m.ToolCalls {
			calls.Items = append(calls.Items, m.ToolCalls[i].value(c.stringArguments))
		}
		d.Set("tool_calls", calls)
	}
	if len(m.results) > 0 {
		results := &jinja.List{}
		for i := range m.results {
			r := &m.results[i]
			var response jinja.Value = r.text()
			if object, err := jinja.FromJSON([]byte(r.text())); err == nil {
				if _, ok := object.(*jinja.Dict); ok {
					response = object
				}
			}
			results.Items = append(results.Items, dict("name", r.Name, "response", response))
		}
		d.Set("tool_responses", results)
	}
	return d
}

func (m *Message) partList() *jinja.List {
	parts := m.Parts
	if parts == nil {
		parts = []Part{{Type: "text", Text: m.text()}}
	}
	l := &jinja.List{}
	for _, p := range parts {
		l.Items = append(l.Items, dict("type", p.Type, "text", p.Text))
	}
	return l
}

// A Text is put together from parts, in time that grows with their length. Pictures may stand in it.
type Text struct {
	b        strings.Builder
	pictures []placed
}

// placed is a picture after this many bytes of a text.
type placed struct {
	at int
	*picture.Image
}

// Add appends a part directly.
func (t *Text) Add(part string) { t.b.WriteString(part) }

// Picture adds a picture.
func (t *Text) Picture(m *picture.Image) { t.pictures = append(t.pictures, placed{t.b.Len(), m}) }

// Paragraph appends a part after an empty line, unless it or the text before is empty.
func (t *Text) Paragraph(part string) {
	if part != "" && t.b.Len() > 0 {
		t.b.WriteString("\n\n")
	}
	t.b.WriteString(part)
}

// String returns the text without its pictures.
func (t *Text) String() string { return t.b.String() }

// Empty reports whether there is neither text nor picture.
func (t *Text) Empty() bool { return t.b.Len() == 0 && len(t.pictures) == 0 }

// Fill makes t the content of m.
func (t *Text) Fill(m *Message) {
	m.Content, m.Parts = t.String(), nil
	if len(t.pictures) == 0 {
		return
	}
	text, from := m.Content, 0
	add := func(to int) {
		if from < to {
			m.Parts = append(m.Parts, Part{Type: "text", Text: text[from:to]})
		}
		from = to
	}
	for _, p := range t.pictures {
		add(p.at)
		m.Parts = append(m.Parts, Part{Type: "image", Picture: p.Image})
	}
	add(len(text))
	m.Content = ""
}

// Paragraphs joins the texts that are not empty, with empty lines between them.
func Paragraphs(texts ...string) string {
	var all Text
	for _, t := range texts {
		all.Paragraph(t)
	}
	return all.String()
}
