package openai

import (
	"encoding/json"
	"slices"

	"github.com/powerinfer-go/powerinfer/internal/chat"
	"github.com/powerinfer-go/powerinfer/internal/server"
)

// A message is one of a conversation in OpenAI's form.
type message struct {
	Role         string          `json:"role"`
	Content      json.RawMessage `json:"content"`
	Reasoning    string          `json:"reasoning_content"`
	Name         string          `json:"name"`
	ToolCallID   string          `json:"tool_call_id"`
	ToolCalls    []toolCall      `json:"tool_calls"`
	FunctionCall *called         `json:"function_call"` // the only call, as older clients send it
}

type toolCall struct {
	ID       string `json:"id"`
	Type     string `json:"type"`
	Function called `json:"function"`
	Custom   called `json:"custom"`
}

type called struct {
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"`
	Input     json.RawMessage `json:"input"` // input of a custom tool: a text
}

// readConversation reads the fields that make a prompt.
func readConversation(m *server.Model, f *server.Fields) *server.Conversation {
	q := m.NewConversation()
	var messages []message
	if !f.Read("messages", &messages) || len(messages) == 0 {
		f.Fail(server.Invalid("the field messages has no message"))
	}
	pictures := m.Pictures(f)
	for i := range messages {
		m, err := messages[i].convert(pictures)
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

// readContinue lets an assistant's message at the end be continued, unless the request says otherwise.
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
func (m *message) convert(pictures *server.Pictures) (chat.Message, error) {
	out := chat.Message{Role: m.Role, Reasoning: m.Reasoning, Name: m.Name, ToolCallID: m.ToolCallID}
	switch m.Role {
	case "system", "developer", "user", "assistant", "tool":
	case "function": // as older clients send results
		out.Role = "tool"
	default:
		return out, server.Invalid("there is no role %.40q; there are system, developer, user, assistant and tool", m.Role)
	}
	if m.FunctionCall != nil {
		m.ToolCalls = append(m.ToolCalls, toolCall{Function: *m.FunctionCall})
	}
	if err := m.read(&out, pictures); err != nil {
		return out, err
	}
	if len(m.Content) == 0 && len(m.ToolCalls) == 0 && m.Role != "assistant" {
		return out, server.Invalid("the field content is missing")
	}
	for i, c := range m.ToolCalls {
		f := c.Function
		if c.Type == "custom" {
			f = c.Custom
			f.Arguments, _ = json.Marshal(map[string]json.RawMessage{"input": f.Input}) // null where there is none
		}
		if f.Name == "" {
			return out, server.Invalid("tool_calls.%d is no call of a function with a name", i)
		}
		out.ToolCalls = append(out.ToolCalls, chat.ToolCall{ID: c.ID, Name: f.Name, Arguments: f.Arguments})
	}
	return out, nil
}

// read reads the content: a text, nothing, or a list of parts. What a tool gave back may have parts that cannot be
// shown, which only a user's message may not.
func (m *message) read(out *chat.Message, pictures *server.Pictures) error {
	if len(m.Content) == 0 || json.Unmarshal(m.Content, &out.Content) == nil {
		return nil
	}
	var parts []json.RawMessage
	if json.Unmarshal(m.Content, &parts) != nil {
		return server.Invalid("the field content is neither a text nor a list of parts")
	}
	var content, reasoning chat.Text
	content.Add(out.Content)
	reasoning.Add(out.Reasoning)
	for _, raw := range parts {
		var p struct {
			Type    string  `json:"type"`
			Text    *string `json:"text"`
			Refusal string  `json:"refusal"`
			File    struct {
				Data string `json:"file_data"`
			} `json:"file"`
			Thinking json.RawMessage `json:"thinking"` // a text or parts, as Mistral has it
		}
		if err := json.Unmarshal(raw, &p); err != nil {
			return server.Invalid("a part of the content cannot be read: %s", err)
		}
		file, isText := server.TextFile(p.File.Data)
		picture := slices.Contains(server.PictureTypes, p.Type)
		switch {
		case p.Type == "text" || p.Type == "input_text" || p.Type == "output_text":
			if p.Text == nil {
				return server.Invalid("a part of the content is of type %s and has no text", p.Type)
			}
			content.Add(*p.Text)
		case p.Type == "refusal":
			content.Add(p.Refusal)
		case p.Type == "thinking":
			thought := message{Content: p.Thinking}
			var read chat.Message
			if thought.read(&read, pictures) == nil {
				reasoning.Paragraph(read.Content)
			}
		case p.Type == "file" && isText:
			content.Paragraph(file)
		case p.Type == "" && out.Role == "user":
			return server.Invalid("a part of the content has no type")
		case picture && (out.Role != "tool" || pictures.Shown()):
			one, err := pictures.Read(server.PictureURL(raw))
			if err != nil {
				return server.Invalid("a part of type %s: %s", p.Type, err)
			}
			content.Picture(one)
		case out.Role != "tool" && (server.IsMedia(p.Type) || p.Type == "file"):
			return server.Invalid("parts of type %.40q are not supported; the model reads text", p.Type)
		default:
			content.Paragraph(server.Described(raw))
		}
	}
	content.Fill(out)
	out.Reasoning = reasoning.String()
	return nil
}
