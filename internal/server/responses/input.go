package responses

import (
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"

	"github.com/powerinfer-go/powerinfer/internal/chat"
	"github.com/powerinfer-go/powerinfer/internal/server"
)

// An inputItem is what a conversation consists of.
type inputItem struct {
	Type      string            `json:"type"`
	ID        string            `json:"id"`
	Role      string            `json:"role"`
	Content   json.RawMessage   `json:"content"`
	CallID    string            `json:"call_id"`
	Namespace string            `json:"namespace"`
	Name      string            `json:"name"`
	Arguments json.RawMessage   `json:"arguments"`
	Action    json.RawMessage   `json:"action"`    // of a shell call
	Operation json.RawMessage   `json:"operation"` // of a patch call
	Input     json.RawMessage   `json:"input"`
	Output    json.RawMessage   `json:"output"`
	Summary   json.RawMessage   `json:"summary"`
	Encrypted string            `json:"encrypted_content"`
	Tools     []json.RawMessage `json:"tools"`
}

// readInput reads the field input: a text, which is a user's, or items. Without any the model answers an empty message,
// as clients ask that only want to know whether the server is there. It returns the tools that items define, too.
func readInput(m *server.Model, f *server.Fields) ([]chat.Message, []json.RawMessage) {
	raw := f.Raw("input")
	var text string
	if raw == nil || json.Unmarshal(raw, &text) == nil {
		return []chat.Message{{Role: "user", Content: text}}, nil
	}
	var items []json.RawMessage
	if err := json.Unmarshal(raw, &items); err != nil {
		f.Fail(server.Invalid("the field input is neither a text nor a list of items"))
		return nil, nil
	}
	if len(items) == 0 {
		return []chat.Message{{Role: "user"}}, nil
	}
	c := conversation{calls: map[string]string{}, pictures: m.Pictures(f)}
	for i, raw := range items {
		if err := c.read(raw); err != nil {
			f.Fail(server.Invalid("item %d of the field input: %s", i, err))
			return nil, nil
		}
	}
	if len(c.messages) == 0 { // nothing is for the model
		c.messages = []chat.Message{{Role: "user"}}
	}
	return c.messages, c.tools
}

// A conversation is built from items. Consecutive items of an assistant are one message.
type conversation struct {
	messages []chat.Message
	tools    []json.RawMessage
	calls    map[string]string // names of tools by the ids of their calls

	pictures *server.Pictures

	content, reasoning *chat.Text // of the assistant's last message
}

// checked are the types of items with fields that must have the right types. Fields of other items may be anything.
var checked = []string{"", "message", "reasoning", "function_call", "custom_tool_call", "function_call_output", "custom_tool_call_output", "additional_tools"}

// read adds an item. It drops items that are not for the model, and adds a line of text about tools of other servers.
func (c *conversation) read(raw json.RawMessage) error {
	var i inputItem
	if err := json.Unmarshal(raw, &i); err != nil {
		var kind struct {
			Type string `json:"type"`
		}
		if json.Unmarshal(raw, &kind) != nil || slices.Contains(checked, kind.Type) {
			return server.Invalid("it is not an item, or one of its fields has the wrong type")
		}
		i = inputItem{Type: kind.Type}
	}
	switch i.Type {
	case "", "message":
		return c.addMessage(&i)
	case "reasoning":
		thought, err := i.thought()
		if err == nil && thought != "" {
			m := c.assistant()
			c.reasoning.Paragraph(thought)
			m.Reasoning = c.reasoning.String()
		}
		return err
	case "function_call":
		return c.addCall(&i, i.Arguments)
	case "custom_tool_call":
		return c.addCall(&i, inputOf(i.Input))
	case "function_call_output", "custom_tool_call_output":
		if i.CallID == "" {
			return server.Invalid("the field call_id is missing")
		}
		return c.addResult(&i, raw)
	case "item_reference":
		return server.Invalid("items cannot be referred to: the server stores nothing, so send the item itself")
	case "additional_tools", "tool_search_output", "mcp_list_tools":
		if i.Type != "mcp_list_tools" { // another server's
			c.tools = append(c.tools, i.Tools...)
		}
		if name := c.calls[i.CallID]; name != "" { // the client's search of tools
			c.messages = append(c.messages, chat.Message{Role: "tool", Content: namesOf(i.Tools), ToolCallID: i.CallID, Name: name})
		}
		return nil
	}
	own, isCall := strings.CutSuffix(i.Type, "_call")
	switch {
	case isCall && i.CallID != "": // the client runs it
		if i.Name == "" {
			i.Name = own
		}
		for _, arguments := range []json.RawMessage{i.Arguments, i.Action, i.Operation} {
			if len(arguments) > 0 {
				return c.addCall(&i, arguments)
			}
		}
		return c.addCall(&i, inputOf(i.Input))
	case strings.HasSuffix(i.Type, "_output"):
		if i.CallID == "" {
			i.CallID = i.ID // a local shell has no call id
		}
		if c.calls[i.CallID] != "" {
			return c.addResult(&i, raw)
		}
	}
	if line := server.Described(raw); line != "" {
		m := c.assistant()
		c.content.Paragraph(line)
		m.Content = c.content.String()
	}
	return nil
}

// namesOf returns the names of tools, as the result of a search for them.
func namesOf(tools []json.RawMessage) string {
	var names []string
	for _, raw := range tools {
		var t definition
		if json.Unmarshal(raw, &t) == nil {
			names = append(names, t.Name)
		}
	}
	return "tools: " + strings.Join(names, ", ")
}

// inputOf returns the arguments of a call to a tool that takes a text.
func inputOf(text json.RawMessage) json.RawMessage {
	if len(text) == 0 {
		text = json.RawMessage(`""`)
	}
	arguments, _ := json.Marshal(map[string]json.RawMessage{customInput: text}) // the text was read as JSON
	return arguments
}

// addResult adds a tool's result: a text, parts, or an object.
func (c *conversation) addResult(i *inputItem, raw json.RawMessage) error {
	m := chat.Message{Role: "tool", ToolCallID: i.CallID, Name: c.calls[i.CallID]}
	output := i.Output
	if len(output) > 0 && output[0] == '{' { // a single part, such as a screenshot
		output = slices.Concat([]byte("["), output, []byte("]"))
	}
	text, err := contentOf(output, true, c.pictures)
	if c.pictures.Err() != nil {
		return c.pictures.Err()
	}
	if err == nil && len(i.Output) > 0 {
		text.Fill(&m)
	} else {
		m.Content = server.Described(raw)
	}
	c.messages = append(c.messages, m)
	return nil
}

func (c *conversation) addMessage(i *inputItem) error {
	text, err := contentOf(i.Content, false, c.pictures)
	if err != nil {
		return err
	}
	switch i.Role {
	case "system", "developer", "user":
		m := chat.Message{Role: i.Role}
		text.Fill(&m)
		c.messages = append(c.messages, m)
	case "assistant":
		m := c.assistant()
		c.content.Paragraph(text.String())
		m.Content = c.content.String()
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
	name := spacedName{i.Namespace, i.Name}.joined()
	m.ToolCalls = append(m.ToolCalls, chat.ToolCall{ID: i.CallID, Name: name, Arguments: arguments})
	c.calls[i.CallID] = name
	return nil
}

// assistant returns the assistant's unfinished message, or a new one.
func (c *conversation) assistant() *chat.Message {
	if n := len(c.messages); n == 0 || c.messages[n-1].Role != "assistant" {
		c.messages = append(c.messages, chat.Message{Role: "assistant"})
		c.content, c.reasoning = new(chat.Text), new(chat.Text)
	}
	return &c.messages[len(c.messages)-1]
}

// A part is a piece of an item's content. There are several kinds.
type part struct {
	Type    string  `json:"type"`
	Text    *string `json:"text"`
	Refusal string  `json:"refusal"`
	File    string  `json:"file_data"`
}

// textOf returns the text of content other than the user's.
func textOf(content json.RawMessage) (string, error) {
	text, err := contentOf(content, true, nil)
	if err != nil {
		return "", err
	}
	return text.String(), nil
}

// contentOf returns a content: a text, nothing, or a list of parts that are texts and pictures. What a tool gave back may
// have parts that cannot be shown, which only a user's message may not.
func contentOf(content json.RawMessage, result bool, pictures *server.Pictures) (*chat.Text, error) {
	text := &chat.Text{}
	var whole string
	if len(content) == 0 || json.Unmarshal(content, &whole) == nil {
		text.Add(whole)
		return text, nil
	}
	var parts []json.RawMessage
	if json.Unmarshal(content, &parts) != nil {
		return nil, server.Invalid("the content or output is neither a text nor a list of parts")
	}
	for _, raw := range parts {
		var p part
		if err := json.Unmarshal(raw, &p); err != nil {
			return nil, server.Invalid("a part cannot be read: %s", err)
		}
		file, isText := server.TextFile(p.File)
		switch {
		case slices.Contains(textParts, p.Type):
			if p.Text == nil {
				return nil, server.Invalid("a part is of type %s and has no text", p.Type)
			}
			text.Add(*p.Text)
		case p.Type == "refusal":
			text.Add(p.Refusal)
		case p.Type == "input_file" && isText:
			text.Paragraph(file)
		case slices.Contains(server.PictureTypes, p.Type) && (!result || pictures.Shown()):
			one, err := pictures.Read(server.PictureURL(raw))
			if err != nil {
				return nil, server.Invalid("a part of type %s: %s", p.Type, err)
			}
			text.Picture(one)
		case !result && (server.IsMedia(p.Type) || p.Type == "input_file"):
			return nil, server.Invalid("parts of type %.40q are not supported; the model reads text", p.Type)
		default:
			text.Paragraph(server.Described(raw))
		}
	}
	return text, nil
}

// textParts are the types of parts that are texts.
var textParts = []string{"input_text", "output_text", "text", "reasoning_text", "summary_text"}

// sealed begins our encrypted_content. It is not encrypted: clients that send back nothing else of a thought send it
// complete.
const sealed = "powerinfer:"

func seal(thought string) string {
	return sealed + base64.StdEncoding.EncodeToString([]byte(thought))
}

// thought returns a reasoning item's text, or else its summary. Other servers' encrypted thoughts cannot be read.
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
	var parts []json.RawMessage
	if json.Unmarshal(i.Summary, &parts) != nil {
		return textOf(i.Summary)
	}
	var all chat.Text
	for _, p := range parts {
		one, err := textOf(slices.Concat([]byte("["), p, []byte("]")))
		if err != nil {
			return "", err
		}
		all.Paragraph(one)
	}
	return all.String(), nil
}
