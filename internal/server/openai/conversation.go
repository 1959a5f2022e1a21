package openai

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/powerinfer-go/powerinfer/internal/chat"
	"github.com/powerinfer-go/powerinfer/internal/server"
)

// A message is one of a conversation in OpenAI's form.
type message struct {
	Role       string          `json:"role"`
	Content    json.RawMessage `json:"content"`
	Reasoning  string          `json:"reasoning_content"`
	Name       string          `json:"name"`
	ToolCallID string          `json:"tool_call_id"`
	ToolCalls  []struct {
		ID       string `json:"id"`
		Type     string `json:"type"`
		Function struct {
			Name      string          `json:"name"`
			Arguments json.RawMessage `json:"arguments"`
		} `json:"function"`
	} `json:"tool_calls"`
}

// readConversation reads the fields that make a prompt.
func readConversation(m *server.Model, f *server.Fields) *server.Conversation {
	q := m.NewConversation()
	var messages []message
	if !f.Read("messages", &messages) || len(messages) == 0 {
		f.Fail(server.Invalid("the field messages has no message"))
	}
	for i := range messages {
		m, err := messages[i].convert()
		if err != nil {
			f.Fail(server.Invalid("message %d: %s", i, err))
		}
		q.Messages = append(q.Messages, m)
	}
	var kwargs server.Kwargs
	f.Read("chat_template_kwargs", &kwargs)
	var effort string
	if f.Read("reasoning_effort", &effort) {
		q.Kwargs["reasoning_effort"], _ = json.Marshal(effort)
		if effort == "none" {
			q.Think(false)
		}
	}
	var think bool
	if v, ok := kwargs["enable_thinking"]; ok && json.Unmarshal(v, &think) != nil {
		f.Fail(server.Invalid("the field chat_template_kwargs has an enable_thinking that is neither true nor false"))
	}
	for name, value := range kwargs {
		q.Kwargs[name] = value
	}
	q.Choice = readTools(f, &q.Request)
	readContinue(f, q)
	return q
}

// readContinue has an assistant's message at the end be continued, unless the request says otherwise.
func readContinue(f *server.Fields, q *server.Conversation) {
	goOn := q.EndsInAnswer()
	var begin bool
	said := f.Read("add_generation_prompt", &begin)
	var asked bool
	if f.Read("continue_final_message", &asked); asked && !goOn {
		f.Fail(server.Invalid("the field continue_final_message is true, but the last message is not an assistant's with a text"))
	} else if asked && begin {
		f.Fail(server.Invalid("the fields continue_final_message and add_generation_prompt exclude each other"))
	}
	switch {
	case asked, goOn && !said:
		q.ContinueFinalMessage, q.AddGenerationPrompt = true, false
	case said:
		q.AddGenerationPrompt = begin
	}
}

// convert returns the message as templates take it.
func (m *message) convert() (chat.Message, error) {
	out := chat.Message{Role: m.Role, Reasoning: m.Reasoning, Name: m.Name, ToolCallID: m.ToolCallID}
	switch m.Role {
	case "system", "developer", "user", "assistant", "tool":
	default:
		return out, server.Invalid("there is no role %.40q; there are system, developer, user, assistant and tool", m.Role)
	}
	var err error
	if out.Content, err = textOf(m.Content); err != nil {
		return out, err
	}
	if len(m.Content) == 0 && len(m.ToolCalls) == 0 && m.Role != "assistant" {
		return out, server.Invalid("the field content is missing")
	}
	for i, c := range m.ToolCalls {
		if c.Type != "" && c.Type != "function" || c.Function.Name == "" {
			return out, server.Invalid("tool_calls.%d is no call of a function with a name", i)
		}
		if first := string(c.Function.Arguments[:min(1, len(c.Function.Arguments))]); !strings.Contains(`"{n`, first) {
			return out, server.Invalid("tool_calls.%d: the arguments are neither a text nor an object", i)
		}
		call := chat.ToolCall{ID: c.ID, Name: c.Function.Name, Arguments: c.Function.Arguments}
		var text string
		if json.Unmarshal(call.Arguments, &text) == nil && json.Valid([]byte(text)) {
			call.Arguments = json.RawMessage(text)
		}
		if len(bytes.TrimSpace(call.Arguments)) == 0 || text == "" && string(call.Arguments) == `""` {
			call.Arguments = json.RawMessage("{}")
		}
		out.ToolCalls = append(out.ToolCalls, call) // what a model once wrote is shown to it as it is, even if it is not JSON
	}
	return out, nil
}

// textOf returns a content's text: a text, nothing, or a list of parts that are texts.
func textOf(content json.RawMessage) (string, error) {
	var text string
	if len(content) == 0 || json.Unmarshal(content, &text) == nil {
		return text, nil
	}
	var parts []struct {
		Type    string  `json:"type"`
		Text    *string `json:"text"`
		Refusal string  `json:"refusal"`
	}
	if json.Unmarshal(content, &parts) != nil {
		return "", server.Invalid("the field content is neither a text nor a list of parts")
	}
	var b strings.Builder
	for _, p := range parts {
		switch p.Type {
		case "text":
			if p.Text == nil {
				return "", server.Invalid("a part of the content is of type text and has none")
			}
			b.WriteString(*p.Text)
		case "refusal":
			b.WriteString(p.Refusal)
		default:
			return "", server.Invalid("parts of type %.40q are not supported; the model reads text", p.Type)
		}
	}
	return b.String(), nil
}
