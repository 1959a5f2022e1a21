package openai

import (
	"crypto/rand"
	"iter"
	"net/http"

	"github.com/powerinfer-go/powerinfer/internal/engine"
	"github.com/powerinfer-go/powerinfer/internal/server"
)

// A call is a call of a tool, or in a stream a piece of one.
type call struct {
	Index    *int   `json:"index,omitempty"` // in streams
	ID       string `json:"id,omitempty"`
	Type     string `json:"type,omitempty"`
	Function struct {
		Name      string `json:"name,omitempty"`
		Arguments string `json:"arguments"`
	} `json:"function"`
}

// callID returns the id of a call: the model's own, or a new one.
func callID(own string) string {
	if own != "" {
		return own
	}
	return "call_" + rand.Text()
}

type answered struct {
	Role      string  `json:"role"`
	Content   *string `json:"content"`
	Reasoning string  `json:"reasoning_content,omitempty"`
	Calls     []call  `json:"tool_calls,omitempty"`
}

type choice struct {
	Index    int        `json:"index"`
	Message  answered   `json:"message"`
	Logprobs *tokenLogs `json:"logprobs"`
	Finish   string     `json:"finish_reason"`
}

// recorded returns the events of texts, and where the first text is in llama-server's own form when they have passed.
func recorded(m *server.Model, texts []server.Generation, events iter.Seq[server.Event]) (iter.Seq[server.Event], *server.Completion) {
	first := &m.NewRecords(texts[:1])[0]
	return func(yield func(server.Event) bool) {
		for e := range events {
			if e.Index == 0 && e.Err == nil {
				first.Add(&e)
			}
			if !yield(e) {
				return
			}
		}
	}, &first.Completion
}

// answer waits for the answers and sends them as one document.
func (c *chatRequest) answer(w http.ResponseWriter, m *server.Model, events iter.Seq[server.Event], debug *server.Completion) error {
	choices, texts := make([]choice, c.n), make([]string, c.n)
	var total usage
	var timings *server.Timings
	for e := range events {
		if e.Err != nil {
			return e.Err
		}
		this := &choices[e.Index]
		if e.Token != nil {
			texts[e.Index] += e.Token.Text
			if c.text.Logprobs {
				if this.Logprobs == nil {
					this.Logprobs = &tokenLogs{}
				}
				this.Logprobs.Content = append(this.Logprobs.Content, m.ProbabilityOf(e.Token))
			}
		}
		if e.End != nil {
			texts[e.Index] += e.End.Text
			total.add(e.End, e.Index == 0)
			timings = server.TimingsOf(e.End)
			this.Index = e.Index
			this.Message, this.Finish = c.read(texts[e.Index], e.End)
		}
	}
	server.WriteJSON(w, struct {
		head
		Choices []choice        `json:"choices"`
		Usage   usage           `json:"usage"`
		Timings *server.Timings `json:"timings"`

		Verbose *server.Completion `json:"__verbose,omitempty"`
	}{newHead(m, "chatcmpl-", "chat.completion"), choices, total, timings, debug})
	return nil
}

// read returns a whole answer's message, and why it ended.
func (c *chatRequest) read(text string, end *engine.Result) (answered, string) {
	m := c.reading.Read(text)
	out := answered{Role: "assistant", Content: &m.Content, Reasoning: m.Reasoning}
	for _, k := range m.Calls {
		one := call{ID: callID(k.ID), Type: "function"}
		one.Function.Name, one.Function.Arguments = k.Name, string(k.Arguments)
		out.Calls = append(out.Calls, one)
	}
	if len(out.Calls) == 0 {
		return out, finish(end)
	}
	if m.Content == "" {
		out.Content = nil
	}
	return out, "tool_calls"
}
