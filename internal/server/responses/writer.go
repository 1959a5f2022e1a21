package responses

import (
	"encoding/json"
	"iter"
	"net/http"
	"time"

	"github.com/powerinfer-go/powerinfer/internal/chat/answer"
	"github.com/powerinfer-go/powerinfer/internal/engine"
	"github.com/powerinfer-go/powerinfer/internal/server"
)

// A writer turns a model's text into a response, and reports each step.
type writer struct {
	model    *server.Model
	request  *request
	parser   *answer.Parser
	response response
	out      *server.EventStream // nil: the response is sent at the end
	sequence int
	err      error // sending failed: the client is gone
	begun    bool
	stopped  bool // the parser

	open    item                 // the last of the output, which still grows; nil: none does
	pending []server.Probability // of tokens with text that is held back
	thought int                  // tokens of thoughts
	timings *server.Timings      // so far, if wanted
	short   bool                 // the text ended before the model ended it
}

// item is an unfinished item of the output.
type item interface {
	// begin announces the item, grow sends more of it, and end says that it is complete, or was cut short.
	begin(w *writer)
	grow(w *writer, text string)
	end(w *writer, status string)
	// value returns the item in its form for clients; it does not change afterwards.
	value() any
}

func newWriter(m *server.Model, q *request) *writer {
	return &writer{model: m, request: q, parser: q.reading.NewParser(), response: newResponse(m, q)}
}

// answer waits for the response and sends it as one document.
func (w *writer) answer(to http.ResponseWriter, events iter.Seq[server.Event]) error {
	defer w.stop()
	for e := range events {
		if e.Err != nil {
			return e.Err
		}
		w.event(&e)
	}
	server.WriteJSON(to, w.response)
	return nil
}

// stream sends each step. It returns an error where nothing was sent.
func (w *writer) stream(out *server.EventStream, events iter.Seq[server.Event]) error {
	defer w.stop()
	w.out = out
	for e := range events {
		if e.Err != nil {
			if !out.Begun() {
				return e.Err
			}
			w.fail(e.Err)
			return nil
		}
		if w.event(&e); w.err != nil {
			return nil
		}
	}
	return nil
}

// stop ends the parser.
func (w *writer) stop() []answer.Event {
	if w.stopped {
		return nil
	}
	w.stopped = true
	return w.parser.Finish()
}

// event writes what an event of the generation means.
func (w *writer) event(e *server.Event) {
	if !w.begun {
		w.begun = true
		w.tellResponse("response.created", nil, nil)
		w.tellResponse("response.in_progress", nil, nil)
	}
	switch {
	case e.Progress != nil:
		w.tellResponse("response.in_progress", e.Progress, e.Timings)
	case e.Token != nil:
		w.timings = e.Timings
		w.token(e.Token)
	case e.End != nil:
		w.finish(e.End)
	case w.out != nil && w.err == nil:
		w.err = w.out.Ping()
	}
}

// token writes a token's text.
func (w *writer) token(t *engine.Token) {
	if w.request.logprobs {
		w.pending = append(w.pending, w.model.ProbabilityOf(t))
	}
	events := w.parser.Feed(t.Text)
	w.write(events)
	if _, ok := w.open.(*thinking); ok {
		w.thought++
	}
	if len(events) > 0 {
		w.pending = nil // tokens outside content are sent without
	}
}

// write writes what pieces of an answer mean.
func (w *writer) write(events []answer.Event) {
	for i := range events {
		e := &events[i]
		switch e.Kind {
		case answer.Content:
			w.text(e.Text)
		case answer.Reasoning:
			w.grow(e.Text, func() item { return newThinking(w) }, func(i item) bool { _, ok := i.(*thinking); return ok })
		case answer.CallBegin:
			w.close(completed)
			w.begin(w.newCall(e))
		case answer.CallArguments:
			w.open.grow(w, e.Text)
		case answer.CallEnd:
			w.close(completed)
		case answer.CallFailed:
			w.unread(e.Text)
		}
	}
}

func (w *writer) text(text string) {
	w.grow(text, func() item { return newTelling(w) }, func(i item) bool { _, ok := i.(*telling); return ok })
}

// grow has the open item go on if it is of that kind, else a new one.
func (w *writer) grow(text string, make func() item, same func(item) bool) {
	if text == "" {
		return
	}
	if w.open == nil || !same(w.open) {
		w.close(completed)
		w.begin(make())
	}
	w.open.grow(w, text)
}

func (w *writer) begin(i item) {
	w.open = i
	w.response.Output = append(w.response.Output, nil)
	i.begin(w)
}

// index returns where the open item stands in the output.
func (w *writer) index() int { return len(w.response.Output) - 1 }

// close ends the open item, if there is one.
func (w *writer) close(status string) {
	if w.open == nil {
		return
	}
	w.open.end(w, status)
	value := w.open.value()
	w.response.Output[w.index()] = value
	w.tell("response.output_item.done", func(e event) any { return itemEvent{e, w.index(), value} })
	w.open = nil
}

// unread ends a call that cannot be read: its text is content. A stream has told of the call, so that it stays there as
// incomplete. A call that was cut short is incomplete in any case, and no content.
func (w *writer) unread(text string) {
	switch {
	case w.short:
		w.close(incomplete)
		return
	case w.out != nil:
		w.close(incomplete)
	default:
		w.response.Output, w.open = w.response.Output[:w.index()], nil
	}
	w.text(text)
}

// finish ends the response.
func (w *writer) finish(r *engine.Result) {
	w.short = r.Stop == engine.StopLength || r.Stop == engine.StopContext
	w.write(w.parser.Feed(r.Text))
	w.write(w.stop())
	now, timings := time.Now().Unix(), server.TimingsOf(r)
	w.response.CompletedAt, w.response.Usage, w.response.Status = &now, usageOf(r, w.thought), completed
	name := "response.completed"
	if w.short {
		w.response.Status, w.response.Incomplete, w.response.CompletedAt = incomplete, &reason{"max_output_tokens"}, nil
		name = "response.incomplete"
	}
	w.close(w.response.Status)
	if w.out == nil {
		w.response.Timings = timings
	}
	w.tellResponse(name, nil, timings)
}

// fail ends a stream that has begun with an error.
func (w *writer) fail(err error) {
	e := w.out.Told(err)
	code := "server_error"
	switch e.Status {
	case http.StatusBadRequest:
		code = "invalid_prompt"
	case http.StatusServiceUnavailable:
		code = "rate_limit_exceeded" // the only one after which clients try again
	}
	w.close(incomplete)
	w.response.Status, w.response.Error = failed, &failure{code, e.Message}
	w.tell("error", func(at event) any { return errorEvent{at, code, e.Message, nil} })
	w.tellResponse("response.failed", nil, nil)
}

// tell sends an event, unless the response is sent whole at the end or the client is gone.
func (w *writer) tell(name string, fill func(event) any) {
	if w.out == nil || w.err != nil {
		return
	}
	e := event{name, w.sequence}
	w.sequence++
	w.err = w.out.SendNamed(name, fill(e))
}

func (w *writer) tellResponse(name string, p *server.Progress, t *server.Timings) {
	w.tell(name, func(e event) any { return responseEvent{e, w.response, p, t} })
}

// takeLogs returns the log probabilities of the last tokens, each once.
func (w *writer) takeLogs() []server.Probability {
	logs := append([]server.Probability{}, w.pending...)
	w.pending = nil
	return logs
}

// textOfInput returns the text of a custom tool's input, which models write as a function's argument.
func textOfInput(arguments string) string {
	var v map[string]string
	if json.Unmarshal([]byte(arguments), &v) != nil {
		return arguments
	}
	return v[customInput]
}
