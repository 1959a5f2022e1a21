package ollama

import (
	"crypto/rand"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"github.com/powerinfer-go/powerinfer/internal/chat"
	"github.com/powerinfer-go/powerinfer/internal/chat/answer"
	"github.com/powerinfer-go/powerinfer/internal/server"
)

// A message is one of a conversation in Ollama's form.
type message struct {
	Role       string   `json:"role"`
	Content    string   `json:"content"`
	Thinking   string   `json:"thinking"`
	Images     []string `json:"images"`
	ToolCalls  []call   `json:"tool_calls"`
	ToolName   string   `json:"tool_name"`
	ToolCallID string   `json:"tool_call_id"`
}

// said is a message of the model's.
type said struct {
	Role     string `json:"role"`
	Content  string `json:"content"`
	Thinking string `json:"thinking,omitempty"`
	Calls    []call `json:"tool_calls,omitempty"`
}

// chatted is a document of an answer to /api/chat.
type chatted struct {
	head
	Message said `json:"message"`
	tail
}

func chattedOf(h head, p *piece, t tail) any {
	return chatted{h, said{"assistant", p.content, p.thinking, p.calls}, t}
}

// callID returns the id of the open call: the model's own, or a new one.
func (t *text) callID() string {
	if t.id != "" {
		return t.id
	}
	return "call_" + strings.ToLower(rand.Text())
}

func (a *api) chat(w http.ResponseWriter, r *http.Request, f *server.Fields) error {
	var messages []message
	f.Read("messages", &messages)
	q, release, done, err := a.begin(r.Context(), f, len(messages) == 0)
	if err != nil {
		return err
	}
	if release == nil {
		server.WriteJSON(w, chattedOf(head{q.name, time.Now().UTC()}, &piece{}, tail{Done: true, Reason: done}))
		return nil
	}
	defer release()
	a.readText(f, q)
	c := q.model.NewConversation()
	pictures := q.model.Pictures(f)
	for i := range messages {
		m, err := messages[i].convert(pictures)
		if err != nil {
			f.Fail(server.Invalid("message %d: %s", i, err))
		}
		c.Messages = append(c.Messages, m)
	}
	c.Continue()
	readTools(f, c)
	readThink(f, q.model, q.name, c)
	truncate := true
	f.Read("truncate", &truncate)
	server.Unused[bool](f, "shift")
	if err := f.Close(); err != nil {
		return err
	}
	if truncate {
		if err := q.model.Shorten(r.Context(), c); err != nil {
			return err
		}
	}
	if q.reading, err = q.model.Prepare(c, &q.text); err != nil {
		return err
	}
	return q.answer(w, r, chattedOf)
}

// convert returns the message as templates take it.
func (m *message) convert(pictures *server.Pictures) (chat.Message, error) {
	out := chat.Message{Role: strings.ToLower(m.Role), Reasoning: m.Thinking, Name: m.ToolName, ToolCallID: m.ToolCallID}
	switch out.Role {
	case "system", "developer", "user", "assistant", "tool":
	default:
		return out, server.Invalid("there is no role %.40q; there are system, user, assistant and tool", m.Role)
	}
	for _, k := range m.ToolCalls {
		out.ToolCalls = append(out.ToolCalls, chat.ToolCall{ID: k.ID, Name: k.Function.Name, Arguments: k.Function.Arguments})
	}
	return out, withImages(&out, pictures, m.Images, m.Content)
}

// readTools reads the tools into c.
func readTools(f *server.Fields, c *server.Conversation) {
	var definitions []json.RawMessage
	if f.Read("tools", &definitions); len(definitions) == 0 {
		return
	}
	tools, err := answer.Tools(definitions)
	if err != nil {
		f.Fail(server.Invalid("%s", err))
		return
	}
	c.Tools = definitions
	c.Choice = &server.ToolChoice{Tools: tools, Allowed: tools, Parallel: true}
}
