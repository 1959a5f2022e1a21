package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/powerinfer-go/powerinfer"
	"github.com/powerinfer-go/powerinfer/internal/atomicfile"
	"github.com/powerinfer-go/powerinfer/internal/chat"
	"github.com/powerinfer-go/powerinfer/internal/wholefile"
)

// conversation holds the messages so far and the template that makes a prompt of them.
type conversation struct {
	template *chat.Template // nil: the texts are joined and continued
	kwargs   map[string]json.RawMessage
	system   string
	messages []chat.Message // users' and assistants' by turns
	left     int            // of messages, the oldest, that prompts leave out because the context has no room for them
}

// prompt returns the text that the next answer continues.
func (c *conversation) prompt() (string, error) {
	if c.template == nil {
		var b strings.Builder
		b.WriteString(c.system)
		for _, m := range c.messages[c.left:] {
			if m.Role == "user" && b.Len() > 0 {
				b.WriteString("\n")
			}
			b.WriteString(m.Content)
		}
		return b.String(), nil
	}
	return c.template.Render(chat.Request{Messages: c.with(c.messages[c.left:]), Kwargs: chat.WithThinking(c.kwargs), AddGenerationPrompt: true})
}

// tokens returns a prompt's tokens.
func (c *conversation) tokens(prompt string, m *powerinfer.Model) []int32 {
	if c.template == nil {
		return m.Tokenize(prompt, true, false)
	}
	return m.TokenizeTemplate(prompt)
}

// with returns the system message and messages.
func (c *conversation) with(messages []chat.Message) []chat.Message {
	if c.system == "" {
		return messages
	}
	return slices.Concat([]chat.Message{{Role: "system", Content: c.system}}, messages)
}

// leaveOut has prompts leave out the oldest question that they still hold, and what answers it, and reports whether
// there is a later one.
func (c *conversation) leaveOut() bool {
	for i := c.left + 1; i < len(c.messages); i++ {
		if c.messages[i].Role == "user" {
			c.left = i
			return true
		}
	}
	return false
}

// clear begins a new conversation.
func (c *conversation) clear() { c.messages, c.left = nil, 0 }

// ask adds a user's message.
func (c *conversation) ask(text string) {
	c.messages = append(c.messages, chat.Message{Role: "user", Content: text})
}

// withdraw takes the last question and its answer, if there is one, out of the conversation, and returns the question.
func (c *conversation) withdraw() (string, bool) {
	for n := len(c.messages); n > 0; n-- {
		if m := c.messages[n-1]; m.Role == "user" {
			c.messages = c.messages[:n-1]
			c.left = min(c.left, len(c.messages))
			return m.Content, true
		}
	}
	return "", false
}

// savedMessage is a message in a file, in the form of OpenAI's API.
type savedMessage struct {
	Role      string `json:"role"`
	Content   string `json:"content"`
	Reasoning string `json:"reasoning_content,omitempty"`
}

type savedConversation struct {
	Messages []savedMessage `json:"messages"`
}

// conversationKind is the kind of the files that save writes.
func conversationKind() atomicfile.Kind {
	return atomicfile.Matches("a conversation that /save wrote", `^\s*\{\s*"messages"\s*:`)
}

// save writes the conversation to a file.
func (c *conversation) save(path string) error {
	var s savedConversation
	for _, m := range c.with(c.messages) {
		s.Messages = append(s.Messages, savedMessage{m.Role, m.Content, m.Reasoning})
	}
	data, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	return atomicfile.Write(path, conversationKind(), func(f *atomicfile.File) error {
		_, err := f.Write(append(data, '\n'))
		return err
	})
}

// load replaces the conversation by that of a file.
func (c *conversation) load(path string) error {
	const other = "/model NAME goes on with another model"
	data, err := wholefile.Read(path, wholefile.Text)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("there is no file %s: /load takes a conversation that /save wrote; %s", path, other)
	}
	if err != nil {
		return err
	}
	var s savedConversation
	if bytes.HasPrefix(data, []byte("GGUF")) {
		return fmt.Errorf("%s is a model, and /load takes a conversation that /save wrote; %s", path, other)
	}
	if err := json.Unmarshal(data, &s); err != nil {
		return fmt.Errorf("%s holds no conversation that /save wrote: %w", path, err)
	}
	system, messages := "", []chat.Message(nil)
	for i, m := range s.Messages {
		switch {
		case m.Role == "system" && i == 0:
			system = m.Content
		case m.Role == "user" || m.Role == "assistant":
			messages = append(messages, chat.Message{Role: m.Role, Content: m.Content, Reasoning: m.Reasoning})
		default:
			return fmt.Errorf("%s: message %d has the role %q; there may be a system message first, then user and assistant", path, i+1, m.Role)
		}
	}
	c.system, c.messages, c.left = system, messages, 0
	return nil
}
