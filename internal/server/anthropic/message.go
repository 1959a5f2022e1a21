package anthropic

import (
	"encoding/json"
	"slices"
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
	ID        string          `json:"id"`        // id of a call
	Name      string          `json:"name"`
	Input     json.RawMessage `json:"input"`
	ToolUseID string          `json:"tool_use_id"` // the call that a result answers
	Content   json.RawMessage `json:"content"`     // content of a result: a text or blocks
	IsError   bool            `json:"is_error"`
	Source    source          `json:"source"`  // of a document
	Title     string          `json:"title"`   // title of a document
	Context   string          `json:"context"` // context of a document

	CacheControl map[string]any `json:"cache_control"` // changes nothing

	raw json.RawMessage
}

// A source is what a document consists of.
type source struct {
	Type      string          `json:"type"`
	MediaType string          `json:"media_type"`
	Data      string          `json:"data"`
	Content   json.RawMessage `json:"content"` // a text or blocks
	URL       string          `json:"url"`
}

// blocksOf returns a content's blocks.
func blocksOf(content json.RawMessage) ([]block, error) {
	var text string
	if len(content) == 0 || json.Unmarshal(content, &text) == nil {
		return []block{{Type: "text", Text: &text}}, nil
	}
	var parts []json.RawMessage
	if json.Unmarshal(content, &parts) != nil {
		return nil, server.Invalid("content is neither a text nor a list of blocks")
	}
	all := make([]block, len(parts))
	for i, p := range parts {
		b := &all[i]
		var kind struct {
			Type string `json:"type"`
		}
		if json.Unmarshal(p, &kind) == nil && !slices.Contains(read, kind.Type) {
			b.Type, b.raw = kind.Type, p // its fields may be of any type
			continue
		}
		if json.Unmarshal(p, b) != nil {
			return nil, server.Invalid("content is neither a text nor a list of blocks")
		}
		if b.raw = p; b.Type == "text" && b.Text == nil {
			return nil, server.Invalid("content.%d.text: it is missing", i)
		}
	}
	return all, nil
}

// read are the types of blocks that are read field by field.
var read = []string{"text", "thinking", "redacted_thinking", "tool_use", "tool_result", "document"}

// text returns what a block of another type than text says: a document's text, or a line about what another server did.
func (b *block) text() string {
	if b.Type == "document" {
		text := ""
		switch b.Source.Type {
		case "text":
			text = b.Source.Data
		case "content":
			text = textOf(b.Source.Content)
		case "base64":
			text, _ = server.TextFile("data:" + b.Source.MediaType + ";base64," + b.Source.Data)
		}
		if text != "" {
			return chat.Paragraphs(b.Title, b.Context, text)
		}
	}
	return server.Described(b.raw)
}

// textOf returns the text of a content.
func textOf(content json.RawMessage) string {
	text, _ := contentOf(content, nil) // without pictures there are no errors
	return text.String()
}

// contentOf returns a content with its pictures, if they can be shown.
func contentOf(content json.RawMessage, pictures *server.Pictures) (*chat.Text, error) {
	text := &chat.Text{}
	all, err := blocksOf(content)
	if err != nil {
		text.Add(server.Described(content))
		return text, nil
	}
	for i := range all {
		if b := &all[i]; b.Type != "image" || !pictures.Shown() {
			b.addTo(text)
		} else if err := b.show(text, pictures); err != nil {
			return nil, server.Invalid("content.%d: %s", i, err)
		}
	}
	return text, nil
}

// show adds the block's picture.
func (b *block) show(text *chat.Text, pictures *server.Pictures) error {
	var p struct {
		Source source `json:"source"`
	}
	json.Unmarshal(b.raw, &p) // without a source there is no data
	source := p.Source.Data
	if p.Source.Type == "url" {
		source = p.Source.URL
	}
	one, err := pictures.Read(source)
	if err == nil {
		text.Picture(one)
	}
	return err
}

// addTo adds the block's text. Blocks of text go on where the last one ended.
func (b *block) addTo(text *chat.Text) {
	if b.Type == "text" {
		text.Add(*b.Text)
		return
	}
	text.Paragraph(b.text())
}

// refused returns an error for content that the model cannot be shown, such as a document other than text.
func (b *block) refused(i int) error {
	if b.Type == "" {
		return server.Invalid("content.%d.type: it is missing", i)
	}
	if server.IsMedia(b.Type) || b.Type == "document" && b.text() == server.Described(b.raw) {
		return server.Invalid("content.%d: %s input is not supported; the model reads text", i, b.Type)
	}
	return nil
}

// converter turns messages into the templates' form.
type converter struct {
	names    map[string]string // names of the called tools, by the calls' ids
	pictures *server.Pictures
	out      []chat.Message
}

func (c *converter) add(m *message) error {
	if len(m.Content) == 0 || string(m.Content) == "null" {
		return server.Invalid("content: a text or a list of blocks is required")
	}
	if m.Role == "system" { // within the conversation
		c.out = append(c.out, chat.Message{Role: m.Role, Content: textOf(m.Content)})
		return nil
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

// addUser adds a user's message. Results come first, because templates show them after the calls that they answer.
func (c *converter) addUser(blocks []block) error {
	var all chat.Text
	results := 0
	for i := range blocks {
		b := &blocks[i]
		switch b.Type {
		case "tool_result":
			if b.ToolUseID == "" {
				return server.Invalid("content.%d: the tool_use_id is missing", i)
			}
			result, err := contentOf(b.Content, c.pictures)
			if err != nil {
				return server.Invalid("content.%d: %s", i, err)
			}
			m := chat.Message{Role: "tool", ToolCallID: b.ToolUseID, Name: c.names[b.ToolUseID]}
			result.Fill(&m)
			if b.IsError && !strings.Contains(strings.ToLower(result.String()), "error") { // templates have no other way to say it
				if m.Content = "Error: " + m.Content; m.Parts != nil {
					m.Parts = slices.Insert(m.Parts, 0, chat.Part{Type: "text", Text: m.Content})
				}
			}
			results++
			c.out = append(c.out, m)
		case "image":
			if err := b.show(&all, c.pictures); err != nil {
				return server.Invalid("content.%d: %s", i, err)
			}
		default:
			if err := b.refused(i); err != nil {
				return err
			}
			b.addTo(&all)
		}
	}
	if results == 0 || !all.Empty() {
		m := chat.Message{Role: "user"}
		all.Fill(&m)
		c.out = append(c.out, m)
	}
	return nil
}

func (c *converter) addAssistant(blocks []block) error {
	m := chat.Message{Role: "assistant"}
	var content, reasoning chat.Text
	for i := range blocks {
		b := &blocks[i]
		switch b.Type {
		case "thinking":
			reasoning.Add(b.Thinking)
		case "redacted_thinking": // another server's, which only that one can read
		case "tool_use":
			if b.ID == "" || b.Name == "" {
				return server.Invalid("content.%d: a block of type tool_use needs an id and a name", i)
			}
			c.names[b.ID] = b.Name
			m.ToolCalls = append(m.ToolCalls, chat.ToolCall{ID: b.ID, Name: b.Name, Arguments: b.Input})
		default: // calls of a server's tools are described in a line
			b.addTo(&content)
		}
	}
	m.Content, m.Reasoning = content.String(), reasoning.String()
	c.out = append(c.out, m)
	return nil
}
