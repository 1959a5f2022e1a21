package anthropic

import (
	"iter"
	"net/http"

	"github.com/powerinfer-go/powerinfer/internal/server"
)

// named begins every event, which is sent under its type's name.
type named struct {
	Type string `json:"type"`
}

func (n named) name() string { return n.Type }

// The events of a stream.
type (
	event        interface{ name() string }
	messageStart struct {
		named
		Message reply `json:"message"`
	}
	blockStart struct {
		named
		Index int `json:"index"`
		Block any `json:"content_block"`
	}
	blockDelta struct {
		named
		Index int `json:"index"`
		Delta any `json:"delta"`
	}
	blockStop struct {
		named
		Index int `json:"index"`
	}
	messageDelta struct {
		named
		Delta struct {
			StopReason   *string `json:"stop_reason"`
			StopSequence *string `json:"stop_sequence"`
		} `json:"delta"`
		Usage usage `json:"usage"`
	}
)

// The deltas of blocks.
type (
	textDelta struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	thinkingDelta struct {
		Type     string `json:"type"`
		Thinking string `json:"thinking"`
	}
	signatureDelta struct {
		Type      string `json:"type"`
		Signature string `json:"signature"`
	}
	inputDelta struct {
		Type string `json:"type"`
		JSON string `json:"partial_json"`
	}
)

// An eventStream sends events until one cannot be sent: then the client is gone.
type eventStream struct {
	*server.EventStream
	err error
}

func (s *eventStream) send(e event) {
	if s.err == nil {
		s.err = s.SendNamed(e.name(), e)
	}
}

// stream sends the answer while it is written. It returns an error where nothing was sent.
func (a *answering) stream(w http.ResponseWriter, events iter.Seq[server.Event]) error {
	a.out = &eventStream{EventStream: server.NewEventStream(w)}
	begun := false
	for e := range events {
		if e.Err != nil {
			return a.fail(w, e.Err)
		}
		if p := e.Progress; p != nil {
			a.reply.Usage.Input, a.reply.Usage.CacheRead = p.Total-p.Cache, p.Cache
		}
		if !begun && e != (server.Event{}) {
			begun = true
			a.out.send(messageStart{named{"message_start"}, a.reply})
		}
		switch {
		case e.Token != nil:
			a.add(a.parser.Feed(e.Token.Text))
		case e.End != nil:
			a.end(e.End)
			a.out.end(&a.reply)
		case e.Progress == nil:
			a.out.send(named{"ping"})
		}
		if a.out.err != nil {
			return nil // the client is gone
		}
	}
	return nil
}

// end sends what a reply ends with.
func (s *eventStream) end(r *reply) {
	d := messageDelta{named: named{"message_delta"}, Usage: r.Usage}
	d.Delta.StopReason, d.Delta.StopSequence = r.StopReason, r.StopSequence
	s.send(d)
	s.send(named{"message_stop"})
}

// fail sends an error as an event, or returns it where nothing was sent: then it can be told by the status.
func (a *answering) fail(w http.ResponseWriter, err error) error {
	if !a.out.Begun() {
		return err
	}
	_, f := failureOf(w.Header(), a.out.Told(err))
	a.out.send(f)
	return nil
}
