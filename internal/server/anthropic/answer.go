package anthropic

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"iter"
	"net/http"
	"slices"

	"github.com/powerinfer-go/powerinfer/internal/chat/answer"
	"github.com/powerinfer-go/powerinfer/internal/engine"
	"github.com/powerinfer-go/powerinfer/internal/server"
)

// usage counts tokens. The prompt's tokens are either input or cache read.
type usage struct {
	Input         int `json:"input_tokens"`
	CacheCreation int `json:"cache_creation_input_tokens"`
	CacheRead     int `json:"cache_read_input_tokens"`
	Output        int `json:"output_tokens"`
}

// A reply is a message of the model's; in a stream the beginning of one.
type reply struct {
	ID           string  `json:"id"`
	Type         string  `json:"type"`
	Role         string  `json:"role"`
	Model        string  `json:"model"`
	Content      []any   `json:"content"`
	StopReason   *string `json:"stop_reason"`
	StopSequence *string `json:"stop_sequence"`
	Usage        usage   `json:"usage"`
}

// The blocks of a reply.
type (
	textBlock struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	thinkingBlock struct {
		Type      string `json:"type"`
		Thinking  string `json:"thinking"`
		Signature string `json:"signature"`
	}
	toolUse struct {
		Type  string          `json:"type"`
		ID    string          `json:"id"`
		Name  string          `json:"name"`
		Input json.RawMessage `json:"input"`
	}
)

// answering turns what a model writes into a reply's blocks.
type answering struct {
	request *request
	parser  *answer.Parser
	reply   reply
	calls   int // complete ones
	open    any // the block that is being written: *textBlock, *thinkingBlock or *toolUse; nil: none
	out     *eventStream
}

func newAnswer(m *server.Model, r *request, reading *server.Reading) *answering {
	return &answering{
		request: r, parser: reading.NewParser(),
		reply: reply{ID: newID("msg_"), Type: "message", Role: "assistant", Model: m.Name, Content: []any{}},
	}
}

// close frees the parser of an answer that was given up.
func (a *answering) close() {
	if a.parser != nil {
		a.parser.Finish()
	}
}

// send waits for the answer and sends it as one document.
func (a *answering) send(w http.ResponseWriter, events iter.Seq[server.Event]) error {
	for e := range events {
		switch {
		case e.Err != nil:
			return e.Err
		case e.Token != nil:
			a.add(a.parser.Feed(e.Token.Text))
		case e.End != nil:
			a.end(e.End)
		}
	}
	server.WriteJSON(w, a.reply)
	return nil
}

// end adds what the answer ends with.
func (a *answering) end(r *engine.Result) {
	a.add(a.parser.Feed(r.Text))
	a.add(a.parser.Finish())
	a.parser = nil
	a.stop()
	reason := a.reason(r)
	a.reply.StopReason = &reason
	if reason == "stop_sequence" {
		a.reply.StopSequence = &r.StopText
	}
	a.reply.Usage = usage{Input: r.PromptTokens, CacheRead: r.Reused, Output: r.Tokens}
}

// reason returns why the answer ended, in Anthropic's words.
func (a *answering) reason(r *engine.Result) string {
	switch {
	case a.calls > 0:
		return "tool_use"
	case r.Stop == engine.StopLength:
		return "max_tokens"
	case r.Stop == engine.StopContext:
		return "model_context_window_exceeded"
	case r.Stop == engine.StopString && slices.Contains(a.request.stops, r.StopText):
		return "stop_sequence"
	}
	return "end_turn"
}

// add adds what a piece of the answer means.
func (a *answering) add(events []answer.Event) {
	for i := range events {
		switch e := &events[i]; e.Kind {
		case answer.Content:
			a.text(e.Text)
		case answer.Reasoning:
			a.thought(e.Text)
		case answer.CallBegin:
			a.call(e)
		case answer.CallArguments:
			if u, ok := a.open.(*toolUse); ok {
				u.Input = append(u.Input, e.Text...)
				a.delta(inputDelta{"input_json_delta", e.Text})
			}
		case answer.CallEnd:
			a.calls++
			a.stop()
		case answer.CallFailed: // a stream has told its beginning already; its text comes again, as text
			if a.out == nil {
				a.open = nil
			}
			a.stop()
			a.text(e.Text)
		}
	}
}

func (a *answering) text(text string) {
	if text == "" {
		return
	}
	b, ok := a.open.(*textBlock)
	if !ok {
		b = &textBlock{Type: "text"}
		a.start(b)
	}
	b.Text += text
	a.delta(textDelta{"text_delta", text})
}

func (a *answering) thought(text string) {
	if text == "" {
		return
	}
	b, ok := a.open.(*thinkingBlock)
	if !ok {
		b = &thinkingBlock{Type: "thinking"}
		a.start(b)
	}
	b.Thinking += text
	a.delta(thinkingDelta{"thinking_delta", text})
}

func (a *answering) call(e *answer.Event) {
	id := e.ID
	if id == "" {
		id = newID("toolu_")
	}
	a.start(&toolUse{Type: "tool_use", ID: id, Name: e.Name, Input: json.RawMessage("{}")})
	a.open.(*toolUse).Input = nil
}

// start begins a block; the one before ends.
func (a *answering) start(block any) {
	a.stop()
	a.open = block
	if a.out != nil {
		a.out.send(blockStart{named{"content_block_start"}, len(a.reply.Content), block})
	}
}

func (a *answering) delta(d any) {
	if a.out != nil {
		a.out.send(blockDelta{named{"content_block_delta"}, len(a.reply.Content), d})
	}
}

// stop ends the block that is being written.
func (a *answering) stop() {
	switch b := a.open.(type) {
	case nil:
		return
	case *thinkingBlock:
		b.Signature = signature(b.Thinking)
		a.delta(signatureDelta{"signature_delta", b.Signature})
	case *toolUse:
		if len(b.Input) == 0 {
			b.Input = json.RawMessage("{}")
		}
	}
	if a.out != nil {
		a.out.send(blockStop{named{"content_block_stop"}, len(a.reply.Content)})
	}
	a.reply.Content = append(a.reply.Content, a.open)
	a.open = nil
}

// signature returns a thought's signature. Nobody checks it, but clients drop thoughts that have none.
func signature(thought string) string {
	hash := sha256.Sum256([]byte(thought))
	return base64.StdEncoding.EncodeToString(hash[:])
}
