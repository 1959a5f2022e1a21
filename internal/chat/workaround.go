package chat

import (
	"bytes"
	"encoding/json"
	"strings"
)

// adapted returns the messages in a form that the template can show:
//   - developer messages become system messages;
//   - system messages are put before the first user message's text, where there is no system role;
//   - tools are described in a system message, where the template does not show them;
//   - calls and results of tools become JSON in assistants' and users' messages, where it does not show those.
func (t *Template) adapted(messages []Message, tools []Tool) ([]Message, error) {
	c := &t.can
	out := make([]Message, 0, len(messages)+1)
	if len(tools) > 0 && !c.Tools {
		out = append(out, Message{Role: "system", Content: describe(tools)})
	}
	for _, m := range messages {
		switch {
		case m.Role == "developer" && !c.developer:
			m.Role = "system"
		case len(m.ToolCalls) > 0 && !c.ToolCalls:
			text, err := callsAsJSON(m.ToolCalls)
			if err != nil {
				return nil, err
			}
			m = Message{Role: m.Role, Content: strings.TrimPrefix(m.text()+"\n"+text, "\n"), Reasoning: m.Reasoning}
		case m.Role == "tool" && !c.ToolResults:
			text, err := resultAsJSON(&m)
			if err != nil {
				return nil, err
			}
			m = Message{Role: "user", Content: text}
		}
		out = append(out, m)
	}
	if len(tools) > 0 && !c.Tools {
		out = mergeSystem(out)
	}
	if !c.System {
		out = systemIntoUser(out)
	}
	return out, nil
}

// describe tells a model whose template knows no tools what it can call, and in which form.
func describe(tools []Tool) string {
	var b strings.Builder
	b.WriteString("You can call these tools, each described by a JSON schema:\n")
	for _, t := range tools {
		var line bytes.Buffer
		if json.Compact(&line, t) == nil {
			b.Write(line.Bytes())
			b.WriteByte('\n')
		}
	}
	b.WriteString(`To call tools, answer with nothing but JSON of this form: ` +
		`{"tool_calls": [{"name": "the tool's name", "arguments": {"argument": "value"}}]}`)
	return b.String()
}

func callsAsJSON(calls []ToolCall) (string, error) {
	type call struct {
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
		ID        string          `json:"id,omitempty"`
	}
	var list []call
	for _, c := range calls {
		list = append(list, call{c.Name, c.Arguments, c.ID})
	}
	return plainJSON(map[string]any{"tool_calls": list})
}

func resultAsJSON(m *Message) (string, error) {
	type response struct {
		Tool    string `json:"tool,omitempty"`
		ID      string `json:"tool_call_id,omitempty"`
		Content string `json:"content"`
	}
	return plainJSON(map[string]any{"tool_response": response{m.Name, m.ToolCallID, m.text()}})
}

// plainJSON encodes v without escapes for HTML.
func plainJSON(v any) (string, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return strings.TrimSuffix(b.String(), "\n"), err
}

// mergeSystem joins the system messages at the start into one.
func mergeSystem(messages []Message) []Message {
	n := 0
	var texts []string
	for n < len(messages) && messages[n].Role == "system" {
		texts = append(texts, messages[n].text())
		n++
	}
	if n < 2 {
		return messages
	}
	first := Message{Role: "system", Content: strings.Join(texts, "\n\n")}
	return append([]Message{first}, messages[n:]...)
}

// systemIntoUser puts each system message before the text of the user's message that follows it.
func systemIntoUser(messages []Message) []Message {
	var out []Message
	var pending []string
	for _, m := range messages {
		if m.Role == "system" {
			pending = append(pending, m.text())
			continue
		}
		if len(pending) > 0 {
			text := strings.Join(pending, "\n\n")
			pending = nil
			if m.Role == "user" {
				m = Message{Role: "user", Content: text + "\n\n" + m.text()}
			} else {
				out = append(out, Message{Role: "user", Content: text})
			}
		}
		out = append(out, m)
	}
	if len(pending) > 0 {
		out = append(out, Message{Role: "user", Content: strings.Join(pending, "\n\n")})
	}
	return out
}

// mergeRuns joins neighbouring messages of one role, for templates that insist on turns. Calls and results of tools
// stay.
func mergeRuns(messages []Message) []Message {
	var out []Message
	for _, m := range messages {
		if n := len(out); n > 0 && out[n-1].Role == m.Role && m.Role != "tool" && len(m.ToolCalls) == 0 && len(out[n-1].ToolCalls) == 0 {
			last := &out[n-1]
			*last = Message{Role: m.Role, Content: last.text() + "\n\n" + m.text(), Reasoning: last.Reasoning + m.Reasoning}
			continue
		}
		out = append(out, m)
	}
	return out
}

// showsSystem reports whether text has the first line of each system message.
func showsSystem(text string, messages []Message) bool {
	for _, m := range messages {
		if m.Role != "system" {
			continue
		}
		line, _, _ := strings.Cut(strings.TrimSpace(m.text()), "\n")
		if !strings.Contains(text, line) {
			return false
		}
	}
	return true
}
