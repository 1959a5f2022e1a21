package anthropic

import (
	"encoding/json"
	"strings"

	"github.com/powerinfer-go/powerinfer/internal/chat"
	"github.com/powerinfer-go/powerinfer/internal/server"
)

// A message is one of a conversation in Anthropic's form.
type message struct {
	Role    string          `json:"role"`
	Content json.RawMessage `json:"content"` // a text or blocks
}

// A block is a piece of a message's content.
type block struct {
	Type      string          `json:"type"`
	Text      *string         `json:"text"`
	Thinking  string          `json:"thinking"`
	Signature string          `json:"signature"` // nobody checks it
	ID        string          `json:"id"`        // of a call
	Name      string          `json:"name"`
	Input     json.RawMessage `json:"input"`
	ToolUseID string          `json:"tool_use_id"` // the call that a result answers
	Content   json.RawMessage `json:"content"`     // of a result: a text or blocks
	IsError   bool            `json:"is_error"`

	CacheControl map[string]any `json:"cache_control"` // changes nothing
}

// blocksOf returns a content's blocks.
func blocksOf(content json.RawMessage) ([]block, error) {
	var text string
	if len(content) == 0 || json.Unmarshal(content, &text) == nil {
		return []block{{Type: "text", Text: &text}}, nil
	}
	var all []block
	if err := json.Unmarshal(content, &all); err != nil {
		return nil, server.Invalid("content is neither a text nor a list of blocks")
	}
	for i := range all {
		if all[i].Type == "text" && all[i].Text == nil {
			return nil, server.Invalid("content.%d.text: it is missing", i)
		}
	}
	return all, nil
}

// textOf returns the text of a content that may have nothing else.
func textOf(content json.RawMessage) (string, error) {
	all, err := blocksOf(content)
	var b strings.Builder
	for i := range all {
		if all[i].Type != "text" {
			return "", all[i].refuse(i)
		}
		b.WriteString(*all[i].Text)
	}
	return b.String(), err
}

// refuse returns the error of a block that cannot stand where it does.
func (b *block) refuse(i int) error {
	switch b.Type {
	case "image", "document":
		return server.Invalid("content.%d: %s input is not supported; the model reads text", i, b.Type)
	}
	return server.Invalid("content.%d: a block of type %.40q is not supported here", i, b.Type)
}

// A converter turns messages into those that templates take.
type converter struct {
	names map[string]string // of the tools that were called, by the calls' ids
	out   []chat.Message
}

func (c *converter) add(m *message) error {
	if len(m.Content) == 0 || string(m.Content) == "null" {
		return server.Invalid("content: a text or a list of blocks is required")
	}
	if m.Role == "system" { // within the conversation
		text, err := textOf(m.Content)
		c.out = append(c.out, chat.Message{Role: m.Role, Content: text})
		return err
	}
	blocks, err := blocksOf(m.Content)
	switch {
	case err != nil:
		return err
	case m.Role == "user":
		return c.addUser(blocks)
	case m.Role == "assistant":
		return c.addAssistant(blocks)
	}
	return server.Invalid("there is no role %.40q; there are user, assistant and system", m.Role)
}

// addUser adds a user's message. Results come first: templates show them behind the calls that they answer.
func (c *converter) addUser(blocks []block) error {
	var text strings.Builder
	results := 0
	for i := range blocks {
		b := &blocks[i]
		switch b.Type {
		case "text":
			text.WriteString(*b.Text)
		case "tool_result":
			result, err := textOf(b.Content)
			if err == nil && b.ToolUseID == "" {
				err = server.Invalid("the tool_use_id is missing")
			}
			if err != nil {
				return server.Invalid("content.%d: %s", i, err)
			}
			if b.IsError && !strings.Contains(strings.ToLower(result), "error") { // templates have no other way to say it
				result = "Error: " + result
			}
			results++
			c.out = append(c.out, chat.Message{Role: "tool", Content: result, ToolCallID: b.ToolUseID, Name: c.names[b.ToolUseID]})
		default:
			return b.refuse(i)
		}
	}
	if results == 0 || text.Len() > 0 {
		c.out = append(c.out, chat.Message{Role: "user", Content: text.String()})
	}
	return nil
}

func (c *converter) addAssistant(blocks []block) error {
	m := chat.Message{Role: "assistant"}
	for i := range blocks {
		b := &blocks[i]
		switch b.Type {
		case "text":
			m.Content += *b.Text
		case "thinking":
			m.Reasoning += b.Thinking
		case "redacted_thinking": // another server's, which only that one can read
		case "tool_use":
			if b.ID == "" || b.Name == "" {
				return server.Invalid("content.%d: a block of type tool_use needs an id and a name", i)
			}
			c.names[b.ID] = b.Name
			m.ToolCalls = append(m.ToolCalls, chat.ToolCall{ID: b.ID, Name: b.Name, Arguments: b.Input})
		default:
			return b.refuse(i)
		}
	}
	c.out = append(c.out, m)
	return nil
}
