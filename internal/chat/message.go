package chat

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/powerinfer-go/powerinfer/internal/chat/jinja"
)

// A Message is one message of a conversation.
type Message struct {
	Role       string // system, developer, user, assistant or tool
	Content    string
	Parts      []Part     // content in parts, instead of Content
	Reasoning  string     // what an assistant thought before it answered
	ToolCalls  []ToolCall // of an assistant
	ToolCallID string     // of a tool: the call that it answers
	Name       string     // of a tool: the function's name
}

// A Part is a piece of a message's content.
type Part struct{ Type, Text string }

// A ToolCall is an assistant's call of a function.
type ToolCall struct {
	ID, Name  string
	Arguments json.RawMessage // an object
}

// A Tool is a function that the model may call, in OpenAI's form:
// {"type":"function","function":{"name":…,"parameters":…}}.
type Tool = json.RawMessage

// text returns the content as one string.
func (m *Message) text() string {
	if m.Parts == nil {
		return m.Content
	}
	var b strings.Builder
	for _, p := range m.Parts {
		b.WriteString(p.Text)
	}
	return b.String()
}

func dict(pairs ...any) *jinja.Dict {
	d := &jinja.Dict{}
	for i := 0; i < len(pairs); i += 2 {
		d.Set(pairs[i].(string), pairs[i+1])
	}
	return d
}

// value returns the message as templates take it.
func (m *Message) value(c *Capabilities) (*jinja.Dict, error) {
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
	if len(m.ToolCalls) == 0 {
		return d, nil
	}
	calls := &jinja.List{}
	for _, call := range m.ToolCalls {
		v, err := call.value(c.stringArguments)
		if err != nil {
			return nil, err
		}
		calls.Items = append(calls.Items, v)
	}
	d.Set("tool_calls", calls)
	return d, nil
}

func (m *Message) partList() *jinja.List {
	parts := m.Parts
	if parts == nil {
		parts = []Part{{"text", m.Content}}
	}
	l := &jinja.List{}
	for _, p := range parts {
		l.Items = append(l.Items, dict("type", p.Type, "text", p.Text))
	}
	return l
}

func (c *ToolCall) value(asString bool) (*jinja.Dict, error) {
	var arguments jinja.Value = string(c.Arguments)
	if !asString {
		var err error
		if arguments, err = jinja.FromJSON(c.Arguments); err != nil {
			return nil, fmt.Errorf("the arguments of the call of %s are not JSON: %w", c.Name, err)
		}
	}
	d := dict("type", "function", "function", dict("name", c.Name, "arguments", arguments))
	if c.ID != "" {
		d.Set("id", c.ID)
	}
	return d, nil
}
