package server

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"time"
)

// slowest is how long a client may take to take a piece of an answer: a stream holds a slot meanwhile.
const slowest = 30 * time.Second

// encoded returns v as JSON, with < and > as they are. What is encoded is the server's own, so that it cannot fail.
func encoded(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic(err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// An EventStream answers with server-sent events. A client that does not read them within 30 s is given up.
type EventStream struct {
	w       http.ResponseWriter
	control *http.ResponseController
	begun   bool
}

// NewEventStream returns a stream whose headers go out with the first event: until then a request can still be refused by its status.
func NewEventStream(w http.ResponseWriter) *EventStream {
	return &EventStream{w: w, control: http.NewResponseController(w)}
}

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
func (e *EventStream) Begun() bool { return e.begun }

// Fail sends an error as an event in the common form, or returns it where nothing was sent: then it can be told by the status.
func (e *EventStream) Fail(err error) error {
	if !e.begun {
		return err
	}
	e.Send(commonBody(ErrorOf(err))) // where that fails the client is gone
	return nil
}

func (e *EventStream) write(data []byte) error {
	if !e.begun {
		h := e.w.Header()
		h.Set("Content-Type", "text/event-stream")
		h.Set("Cache-Control", "no-cache")
		e.begun = true
	}
	e.control.SetWriteDeadline(time.Now().Add(slowest)) // a recorder of tests has none
	if _, err := e.w.Write(data); err != nil {
		return err
	}
	return e.control.Flush()
}
