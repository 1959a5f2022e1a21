package responses

import (
	"encoding/base64"
	"encoding/json"
	"strings"

	"github.com/powerinfer-go/powerinfer/internal/chat"
	"github.com/powerinfer-go/powerinfer/internal/server"
)

// An inputItem is what a conversation consists of.
type inputItem struct {
	Type      string          `json:"type"`
	Role      string          `json:"role"`
	Content   json.RawMessage `json:"content"`
	CallID    string          `json:"call_id"`
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"`
	Input     string          `json:"input"`
	Output    json.RawMessage `json:"output"`
	Summary   []part          `json:"summary"`
	Encrypted string          `json:"encrypted_content"`
}

// readInput reads the field input: a text, which is a user's, or items. Without any the model answers an empty message,
// as clients ask that only want to know whether the server is there.
func readInput(f *server.Fields) []chat.Message {
	raw := f.Raw("input")
	var text string
	if raw == nil || json.Unmarshal(raw, &text) == nil {
		return []chat.Message{{Role: "user", Content: text}}
	}
	var items []inputItem
	if err := json.Unmarshal(raw, &items); err != nil {
		f.Fail(server.Invalid("the field input is neither a text nor a list of items"))
		return nil
	}
	if len(items) == 0 {
		return []chat.Message{{Role: "user"}}
	}
	c := conversation{calls: map[string]string{}}
	for i := range items {
		if err := c.add(&items[i]); err != nil {
			f.Fail(server.Invalid("item %d of the field input: %s", i, err))
			return nil
		}
	}
	return c.messages
}

// A conversation is put together from items. Those of an assistant that follow each other are one message.
type conversation struct {
	messages []chat.Message
	calls    map[string]string // names of tools by the ids of their calls
}

func (c *conversation) add(i *inputItem) error {
	switch i.Type {
	case "", "message":
		return c.addMessage(i)
	case "reasoning":
		thought, err := i.thought()
		if err == nil && thought != "" {
			m := c.assistant()
			m.Reasoning = join(m.Reasoning, thought)
		}
		return err
	case "function_call":
		return c.addCall(i, i.Arguments)
	case "custom_tool_call":
		input, _ := json.Marshal(map[string]string{customInput: i.Input})
		return c.addCall(i, input)
	case "function_call_output", "custom_tool_call_output":
		text, err := textOf(i.Output)
		if err != nil {
			return err
		}
		if i.CallID == "" {
			return server.Invalid("the field call_id is missing")
		}
		c.messages = append(c.messages, chat.Message{Role: "tool", Content: text, ToolCallID: i.CallID, Name: c.calls[i.CallID]})
		return nil
	case "item_reference":
		return server.Invalid("items cannot be referred to: the server stores nothing, so send the item itself")
	}
	return server.Invalid("items of type %.40q are not supported", i.Type)
}

func (c *conversation) addMessage(i *inputItem) error {
	text, err := textOf(i.Content)
	if err != nil {
		return err
	}
	switch i.Role {
	case "system", "developer", "user":
		c.messages = append(c.messages, chat.Message{Role: i.Role, Content: text})
	case "assistant":
		m := c.assistant()
		m.Content = join(m.Content, text)
	default:
		return server.Invalid("there is no role %.40q; there are system, developer, user and assistant", i.Role)
	}
	return nil
}

func (c *conversation) addCall(i *inputItem, arguments json.RawMessage) error {
	if i.Name == "" || i.CallID == "" {
		return server.Invalid("a call needs a name and a call_id")
	}
	m := c.assistant()
	m.ToolCalls = append(m.ToolCalls, chat.ToolCall{ID: i.CallID, Name: i.Name, Arguments: arguments})
	c.calls[i.CallID] = i.Name
	return nil
}

// assistant returns the assistant's message that goes on, or a new one.
func (c *conversation) assistant() *chat.Message {
	if n := len(c.messages); n == 0 || c.messages[n-1].Role != "assistant" {
		c.messages = append(c.messages, chat.Message{Role: "assistant"})
	}
	return &c.messages[len(c.messages)-1]
}

func join(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + "\n\n" + b
}

// A part is a piece of an item's content, of which there are several kinds.
type part struct {
	Type    string  `json:"type"`
	Text    *string `json:"text"`
	Refusal string  `json:"refusal"`
}

// textOf returns a content's text: a text, nothing, or a list of parts that are texts.
func textOf(content json.RawMessage) (string, error) {
	var text string
	if len(content) == 0 || json.Unmarshal(content, &text) == nil {
		return text, nil
	}
	var parts []part
	if json.Unmarshal(content, &parts) != nil {
		return "", server.Invalid("the content or output is neither a text nor a list of parts")
	}
	var b strings.Builder
	for _, p := range parts {
		switch p.Type {
		case "input_text", "output_text", "text", "reasoning_text", "summary_text":
			if p.Text == nil {
				return "", server.Invalid("a part is of type %s and has no text", p.Type)
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

// sealed begins the encrypted_content of our own. It is no secret: clients that send back nothing else of a thought
// thus send it whole.
const sealed = "powerinfer:"

func seal(thought string) string {
	return sealed + base64.StdEncoding.EncodeToString([]byte(thought))
}

// thought returns a reasoning item's text, or its summary where it has none. Other servers' encrypted thoughts cannot
// be read.
func (i *inputItem) thought() (string, error) {
	text, err := textOf(i.Content)
	if err != nil || text != "" {
		return text, err
	}
	if code, ok := strings.CutPrefix(i.Encrypted, sealed); ok {
		plain, err := base64.StdEncoding.DecodeString(code)
		if err != nil {
			return "", server.Invalid("the field encrypted_content is damaged")
		}
		return strings.ToValidUTF8(string(plain), "\uFFFD"), nil
	}
	for _, s := range i.Summary {
		if s.Type != "summary_text" || s.Text == nil {
			return "", server.Invalid("a part of the summary is not of type summary_text with a text")
		}
		text = join(text, *s.Text)
	}
	return text, nil
}
