// Package conversation holds the messages of a user and a model. It makes prompts from them, leaves out the oldest when
// a context is full, and saves and loads them.
package conversation

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/powerinfer-go/powerinfer"
	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/internal/attachment"
	"github.com/powerinfer-go/powerinfer/internal/atomicfile"
	"github.com/powerinfer-go/powerinfer/internal/chat"
	"github.com/powerinfer-go/powerinfer/internal/wholefile"
)

// Conversation holds the messages so far and the template that makes a prompt from them.
type Conversation struct {
	Template *chat.Template // nil: texts are joined and continued
	Kwargs   map[string]json.RawMessage
	System   string
	Messages []chat.Message                 // alternately of the user and the assistant
	files    map[*powerinfer.Picture][]byte // files of the messages' pictures
	Left     int                            // the number of oldest messages that prompts leave out because the context has no room for them
}

// Unseen stands for a picture in the prompt of a model that sees none.
const Unseen = "[picture]"

// Pictures returns the number of pictures in all messages.
func (c *Conversation) Pictures() (n int) {
	for _, m := range c.Messages {
		for _, p := range m.Parts {
			if p.Picture != nil {
				n++
			}
		}
	}
	return n
}

// unseen returns messages with Unseen in the places of pictures.
func unseen(messages []chat.Message) []chat.Message {
	messages = slices.Clone(messages)
	for i := range messages {
		m := &messages[i]
		m.Parts = slices.Clone(m.Parts)
		for j, p := range m.Parts {
			if p.Picture != nil {
				m.Parts[j] = chat.Part{Type: "text", Text: Unseen}
			}
		}
	}
	return messages
}

// Prompt returns the text that the next answer continues. sees says whether the model can see pictures.
func (c *Conversation) Prompt(sees bool) (chat.Marked, error) {
	messages := c.Messages[c.Left:]
	if !sees {
		messages = unseen(messages)
	}
	if c.Template == nil {
		p := chat.Marked{Text: c.System}
		mark := "picture" + rand.Text()
		for _, m := range messages {
			if m.Role == "user" && p.Text != "" {
				p.Text += "\n"
			}
			p.Text += TextOf(&m, mark)
			for _, part := range m.Parts {
				if part.Picture != nil {
					p.Mark, p.Pictures = mark, append(p.Pictures, part.Picture)
				}
			}
		}
		return p, nil
	}
	return c.Template.RenderMarked(chat.Request{Messages: c.with(messages), Kwargs: chat.WithThinking(c.Kwargs), AddGenerationPrompt: true})
}

// TextOf returns a message's text with mark in the places of its pictures.
func TextOf(m *chat.Message, mark string) string {
	var b strings.Builder
	b.WriteString(m.Content)
	for _, p := range m.Parts {
		if p.Picture != nil {
			b.WriteString(mark)
		} else {
			b.WriteString(p.Text)
		}
	}
	return b.String()
}

// Tokens returns a prompt's tokens, and the places of pictures among them.
func (c *Conversation) Tokens(prompt *chat.Marked, m *powerinfer.Model) ([]int32, *powerinfer.Places, error) {
	if c.Template == nil && len(prompt.Pictures) == 0 {
		return m.Tokenize(prompt.Text, true, false), nil, nil
	}
	return m.TokenizeMarked(prompt.Text, prompt.Mark, prompt.Pictures, c.Template != nil)
}

// with returns the system message and messages.
func (c *Conversation) with(messages []chat.Message) []chat.Message {
	if c.System == "" {
		return messages
	}
	return slices.Concat([]chat.Message{{Role: "system", Content: c.System}}, messages)
}

// LeaveOut makes prompts leave out the oldest question that they still hold, and its answer. It reports whether there
// is a later question.
func (c *Conversation) LeaveOut() bool {
	for i := c.Left + 1; i < len(c.Messages); i++ {
		if c.Messages[i].Role == "user" {
			c.Left = i
			return true
		}
	}
	return false
}

// Clear begins a new conversation.
func (c *Conversation) Clear() { c.Messages, c.files, c.Left = nil, nil, 0 }

// Ask adds a user's message of a text.
func (c *Conversation) Ask(text string) { c.Add(chat.Message{Role: "user", Content: text}) }

// Show adds a user's message with pictures.
func (c *Conversation) Show(parts []chat.Part, pictures []attachment.Picture) {
	c.Add(chat.Message{Role: "user", Parts: parts})
	if c.files == nil {
		c.files = map[*powerinfer.Picture][]byte{}
	}
	for _, p := range pictures {
		c.files[p.Picture] = p.File
	}
}

// Add adds a message.
func (c *Conversation) Add(m chat.Message) { c.Messages = append(c.Messages, m) }

// Withdraw takes the last question and its answer, if there is one, out of the conversation, and returns the question.
func (c *Conversation) Withdraw() (chat.Message, bool) {
	for n := len(c.Messages); n > 0; n-- {
		if m := c.Messages[n-1]; m.Role == "user" {
			c.Messages = c.Messages[:n-1]
			c.Left = min(c.Left, len(c.Messages))
			return m, true
		}
	}
	return chat.Message{}, false
}

// savedMessage is a message in a file, in the form of OpenAI's API.
type savedMessage struct {
	Role      string `json:"role"`
	Content   any    `json:"content"` // a text, or parts
	Reasoning string `json:"reasoning_content,omitempty"`
}

// savedPart is a text or a picture, which is a data URI.
type savedPart struct {
	Type  string        `json:"type"`
	Text  string        `json:"text,omitempty"`
	Image *savedPicture `json:"image_url,omitempty"`
}

type savedPicture struct {
	URL string `json:"url"`
}

// saved returns a message as it is in a file.
func (c *Conversation) saved(m *chat.Message) savedMessage {
	s := savedMessage{m.Role, m.Content, m.Reasoning}
	if len(m.Parts) == 0 {
		return s
	}
	var parts []savedPart
	for _, p := range m.Parts {
		if p.Picture != nil {
			parts = append(parts, savedPart{Type: "image_url", Image: &savedPicture{attachment.DataURI(c.files[p.Picture])}})
		} else {
			parts = append(parts, savedPart{Type: "text", Text: p.Text})
		}
	}
	s.Content = parts
	return s
}

// addSaved adds a message of a file.
func (c *Conversation) addSaved(s *savedMessage) error {
	text, ok := s.Content.(string)
	if ok {
		c.Add(chat.Message{Role: s.Role, Content: text, Reasoning: s.Reasoning})
		return nil
	}
	data, err := json.Marshal(s.Content)
	if err != nil {
		return err
	}
	var saved []savedPart
	if err := json.Unmarshal(data, &saved); err != nil {
		return fmt.Errorf("its content is neither a text nor parts: %w", err)
	}
	var parts []chat.Part
	var pictures []attachment.Picture
	for _, p := range saved {
		if p.Image == nil {
			parts = append(parts, chat.Part{Type: "text", Text: p.Text})
			continue
		}
		file, err := attachment.FileOf(p.Image.URL)
		if err != nil {
			return err
		}
		picture, err := powerinfer.ReadPicture(file)
		if err != nil {
			return err
		}
		parts = append(parts, chat.Part{Type: "image", Picture: picture})
		pictures = append(pictures, attachment.Picture{File: file, Picture: picture})
	}
	c.Show(parts, pictures)
	return nil
}

type savedConversation struct {
	Messages []savedMessage `json:"messages"`
}

// conversationKind is the kind of the files that save writes.
func conversationKind() atomicfile.Kind {
	return atomicfile.Matches("a conversation that /save wrote", `^\s*\{\s*"messages"\s*:`)
}

// Save writes the conversation to a file.
func (c *Conversation) Save(path string) error {
	var s savedConversation
	for _, m := range c.with(c.Messages) {
		s.Messages = append(s.Messages, c.saved(&m))
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

// Load replaces the conversation by a file's.
func (c *Conversation) Load(path string) error {
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
	loaded := Conversation{Template: c.Template, Kwargs: c.Kwargs}
	for i, m := range s.Messages {
		text, isText := m.Content.(string)
		switch {
		case m.Role == "system" && i == 0 && isText:
			loaded.System = text
		case m.Role == "user" || m.Role == "assistant" && isText:
			if err := loaded.addSaved(&m); err != nil {
				return fmt.Errorf("%s: message %d: %w", path, i+1, err)
			}
		default:
			return fmt.Errorf("%s: message %d has the role %q; there may be a system message first, then user and assistant", path, i+1, m.Role)
		}
	}
	*c = loaded
	return nil
}
