package ollama

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/powerinfer-go/powerinfer/internal/chat/answer"
	"github.com/powerinfer-go/powerinfer/internal/engine"
	"github.com/powerinfer-go/powerinfer/internal/server"
)

// A piece is a part of an answer, or all of it.
type piece struct {
	content, thinking string
	calls             []call
	logs              []server.Probability
}

func (p *piece) empty() bool {
	return p.content == "" && p.thinking == "" && p.calls == nil && p.logs == nil
}

func (p *piece) add(more *piece) {
	p.content += more.content
	p.thinking += more.thinking
	p.calls = append(p.calls, more.calls...)
	p.logs = append(p.logs, more.logs...)
}

// A call is a call of a tool.
type call struct {
	ID       string   `json:"id,omitempty"`
	Function function `json:"function"`
}

type function struct {
	Index     int             `json:"index"`
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"` // an object
}

// A head is what all documents of an answer begin with.
type head struct {
	Model     string    `json:"model"`
	CreatedAt time.Time `json:"created_at"`
}

// A tail is what they end with. All but the last have Done only.
type tail struct {
	Done     bool                 `json:"done"`
	Reason   string               `json:"done_reason,omitempty"`
	Context  []int32              `json:"context,omitempty"`
	Logprobs []server.Probability `json:"logprobs,omitempty"`
	*metrics
}

// metrics are times in nanoseconds and numbers of tokens.
type metrics struct {
	Total       time.Duration `json:"total_duration"`
	Load        time.Duration `json:"load_duration"`
	PromptCount int           `json:"prompt_eval_count"`
	PromptEval  time.Duration `json:"prompt_eval_duration"`
	Count       int           `json:"eval_count"`
	Eval        time.Duration `json:"eval_duration"`
}

// A document is a route's form of a piece.
type document func(h head, p *piece, t tail) any

// text is an answer in the making.
type text struct {
	request  *request
	document document
	parser   *answer.Parser // nil: the text is sent as it is
	lines    *server.LineStream
	tokens   []int32 // tokens of the answer
	open     *function
	id       string // id of the open call
	calls    int
	whole    piece
	last     any // document
	gone     bool
}

// close frees the parser of an answer that was given up.
func (t *text) close() {
	if t.parser != nil {
		t.parser.Finish()
	}
}

// take takes what happened. It returns an error that can be told by the status.
func (t *text) take(e *server.Event) error {
	p := &piece{}
	switch {
	case e.Err != nil && t.lines != nil && t.lines.Begun():
		t.lines.Send(map[string]string{"error": t.lines.Told(e.Err).Message})
		t.gone = true
		return nil
	case e.Err != nil:
		return e.Err
	case e.Token != nil:
		t.read(p, e.Token.Text)
		t.tokens = append(t.tokens, e.Token.ID)
		if t.request.text.Logprobs {
			p.logs = []server.Probability{t.request.model.ProbabilityOf(e.Token)}
		}
	case e.End != nil:
		t.read(p, e.End.Text)
		if t.parser != nil {
			t.events(p, t.parser.Finish())
			t.parser = nil
		}
	}
	if t.lines == nil {
		t.whole.add(p)
	} else if !p.empty() {
		t.send(t.document(t.head(), p, tail{Logprobs: p.logs}))
	}
	if e.End != nil {
		t.end(e.End)
	}
	return nil
}

func (t *text) head() head { return head{t.request.name, time.Now().UTC()} }

func (t *text) send(document any) {
	if t.lines.Send(document) != nil {
		t.gone = true
	}
}

// end makes the last document.
func (t *text) end(r *engine.Result) {
	q := t.request
	last := tail{Done: true, Reason: "stop", Logprobs: t.whole.logs, metrics: &metrics{
		Total: time.Since(q.began), Load: q.loading, PromptCount: r.Reused + r.PromptTokens, PromptEval: r.PromptTime, Count: r.Tokens, Eval: r.Time,
	}}
	if r.Stop == engine.StopLength || r.Stop == engine.StopContext {
		last.Reason = "length"
	}
	if q.context {
		last.Context = slices.Concat(q.text.Prompt, t.tokens)
	}
	if t.last = t.document(t.head(), &t.whole, last); t.lines != nil {
		t.send(t.last)
	}
}

// read adds to p what a piece of the text means.
func (t *text) read(p *piece, text string) {
	if t.parser == nil {
		p.content += text
		return
	}
	t.events(p, t.parser.Feed(text))
}

// events adds events to p. Calls are sent when they are complete.
func (t *text) events(p *piece, events []answer.Event) {
	for i := range events {
		switch e := &events[i]; e.Kind {
		case answer.Content, answer.CallFailed:
			p.content += e.Text
		case answer.Reasoning:
			p.thinking += e.Text
		case answer.CallBegin:
			t.open, t.id = &function{Index: t.calls, Name: e.Name}, e.ID
		case answer.CallArguments:
			t.open.Arguments = append(t.open.Arguments, e.Text...)
		case answer.CallEnd:
			if len(t.open.Arguments) == 0 {
				t.open.Arguments = json.RawMessage("{}")
			}
			p.calls = append(p.calls, call{t.callID(), *t.open})
			t.calls++
		}
	}
}
