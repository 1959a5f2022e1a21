package responses

import (
	"strings"

	"github.com/powerinfer-go/powerinfer/internal/chat/answer"
	"github.com/powerinfer-go/powerinfer/internal/server"
)

// callID returns the id of a call: the model's own, or a new one.
func callID(own string) string {
	if own != "" {
		return own
	}
	return newID("call_")
}

// telling is a message that grows.
type telling struct {
	at
	told message
	text strings.Builder
	logs []server.Probability
}

func newTelling(w *writer) *telling {
	return &telling{told: message{Type: "message", ID: newID("msg_"), Status: inProgress, Role: "assistant", Content: []outputText{}}}
}

func (t *telling) value() any { return t.told }

func (t *telling) begin(w *writer) {
	t.at = w.added(t.told.ID, t.told)
	w.tell("response.content_part.added", func(e event) any { return partEvent{e, t.at, 0, newOutputText("", nil)} })
}

func (t *telling) grow(w *writer, text string) {
	t.text.WriteString(text)
	logs := w.takeLogs()
	t.logs = append(t.logs, logs...)
	w.tell("response.output_text.delta", func(e event) any { return deltaEvent{e, t.at, 0, text, &logs, w.timings} })
}

func (t *telling) end(w *writer, status string) {
	p := newOutputText(t.text.String(), t.logs)
	w.tell("response.output_text.done", func(e event) any { return textEvent{e, t.at, 0, p.Text, &p.Logprobs} })
	w.tell("response.content_part.done", func(e event) any { return partEvent{e, t.at, 0, p} })
	t.told.Content, t.told.Status = []outputText{p}, status
}

// thinking is a thought that grows.
type thinking struct {
	at
	told thought
	text strings.Builder
}

func newThinking(w *writer) *thinking {
	return &thinking{told: thought{Type: "reasoning", ID: newID("rs_"), Status: inProgress, Summary: []struct{}{}, Content: []reasoningText{}}}
}

func (t *thinking) value() any { return t.told }

func (t *thinking) begin(w *writer) {
	t.at = w.added(t.told.ID, t.told)
	w.tell("response.content_part.added", func(e event) any { return partEvent{e, t.at, 0, reasoningText{"reasoning_text", ""}} })
}

func (t *thinking) grow(w *writer, text string) {
	t.text.WriteString(text)
	w.tell("response.reasoning_text.delta", func(e event) any { return deltaEvent{e, t.at, 0, text, nil, w.timings} })
}

func (t *thinking) end(w *writer, status string) {
	p := reasoningText{"reasoning_text", t.text.String()}
	w.tell("response.reasoning_text.done", func(e event) any { return textEvent{e, t.at, 0, p.Text, nil} })
	w.tell("response.content_part.done", func(e event) any { return partEvent{e, t.at, 0, p} })
	t.told.Content, t.told.Status = []reasoningText{p}, status
	if w.request.thoughts {
		code := seal(p.Text)
		t.told.Encrypted = &code
	}
}

// calling is a call of a function that grows.
type calling struct {
	at
	told functionCall
	text strings.Builder
}

// newCall returns the item of a call that begins.
func (w *writer) newCall(e *answer.Event) item {
	n := w.request.nameOf(e.Name)
	if w.request.custom[e.Name] {
		return &customCalling{told: customCall{Type: "custom_tool_call", ID: newID("ctc_"), Status: inProgress, CallID: callID(e.ID), Namespace: n.space, Name: n.name}}
	}
	return &calling{told: functionCall{Type: "function_call", ID: newID("fc_"), Status: inProgress, CallID: callID(e.ID), Namespace: n.space, Name: n.name}}
}

func (c *calling) value() any { return c.told }

func (c *calling) begin(w *writer) { c.at = w.added(c.told.ID, c.told) }

func (c *calling) grow(w *writer, text string) {
	c.text.WriteString(text)
	w.tell("response.function_call_arguments.delta", func(e event) any { return callDeltaEvent{e, c.at, text} })
}

func (c *calling) end(w *writer, status string) {
	c.told.Arguments, c.told.Status = c.text.String(), status
	w.tell("response.function_call_arguments.done", func(e event) any { return argumentsEvent{e, c.at, c.told.Name, c.told.Arguments} })
}

// customCalling is an unfinished call of a custom tool. Its input is sent when it is complete, because models write it
// as a JSON text.
type customCalling struct {
	at
	told customCall
	text strings.Builder
}

func (c *customCalling) value() any { return c.told }

func (c *customCalling) begin(w *writer) { c.at = w.added(c.told.ID, c.told) }

func (c *customCalling) grow(_ *writer, text string) { c.text.WriteString(text) }

func (c *customCalling) end(w *writer, status string) {
	c.told.Input, c.told.Status = textOfInput(c.text.String()), status
	w.tell("response.custom_tool_call_input.delta", func(e event) any { return callDeltaEvent{e, c.at, c.told.Input} })
	w.tell("response.custom_tool_call_input.done", func(e event) any { return inputEvent{e, c.at, c.told.Input} })
}

// added announces an item, and returns its place.
func (w *writer) added(id string, value any) at {
	w.tell("response.output_item.added", func(e event) any { return itemEvent{e, w.index(), value} })
	return at{id, w.index()}
}
