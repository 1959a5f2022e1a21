package server

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
)

// encoded returns v as JSON, with unescaped < and >. v is the server's own, so encoding cannot fail.
func encoded(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic(err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// pieces are an answer that is sent while it is made.
type pieces struct {
	w       http.ResponseWriter
	control *http.ResponseController
	kind    string // content type
	begun   bool
}

// An EventStream answers with server-sent events.
type EventStream struct{ pieces }

// NewEventStream returns a stream that sends its headers with the first event. Until then a request can still be
// refused by its status.
func NewEventStream(w http.ResponseWriter) *EventStream {
	return &EventStream{pieces{w: w, control: http.NewResponseController(w), kind: "text/event-stream"}}
}

// LineStream answers with JSON documents, one per line.
type LineStream struct{ pieces }

// NewLineStream returns a stream as NewEventStream does.
func NewLineStream(w http.ResponseWriter) *LineStream {
	return &LineStream{pieces{w: w, control: http.NewResponseController(w), kind: "application/x-ndjson"}}
}

// Send sends v as a line.
func (l *LineStream) Send(v any) error { return l.write(append(encoded(v), '\n')) }

// Send sends v as an event.
func (e *EventStream) Send(v any) error {
	return e.write(append(append([]byte("data: "), encoded(v)...), "\n\n"...))
}

// SendNamed sends v as an event that has a name.
func (e *EventStream) SendNamed(name string, v any) error {
	return e.write(fmt.Appendf(nil, "event: %s\ndata: %s\n\n", name, encoded(v)))
}

// Ping sends a comment, which keeps the connection open.
func (e *EventStream) Ping() error { return e.write([]byte(":\n\n")) }

// Done sends what ends OpenAI's streams.
func (e *EventStream) Done() error { return e.write([]byte("data: [DONE]\n\n")) }

// Begun reports whether something was sent, so that an error can no longer be told by the status.
func (p *pieces) Begun() bool { return p.begun }

// Told returns err in the stream's form for clients.
func (p *pieces) Told(err error) *Error {
	noteError(p.w, err)
	return errorOf(err)
}

// Fail sends an error as an event in the common form, or returns it where nothing was sent: then it can be told by the
// status.
func (e *EventStream) Fail(err error) error {
	if !e.begun {
		return err
	}
	e.Send(commonBody(e.Told(err))) // where that fails the client is gone
	return nil
}

func (p *pieces) write(data []byte) error {
	if !p.begun {
		h := p.w.Header()
		h.Set("Content-Type", p.kind)
		h.Set("Cache-Control", "no-cache")
		p.begun = true
	}
	if _, err := p.w.Write(data); err != nil {
		return err
	}
	return p.control.Flush()
}
