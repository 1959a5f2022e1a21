package openai

import (
	"iter"

	"github.com/powerinfer-go/powerinfer/internal/chat/answer"
	"github.com/powerinfer-go/powerinfer/internal/server"
)

// delta is the next part of an answer.
type delta struct {
	Role      string `json:"role,omitempty"`
	Content   any    `json:"content,omitempty"` // a text, or a nil *string for null
	Reasoning string `json:"reasoning_content,omitempty"`
	Calls     []call `json:"tool_calls,omitempty"`
}

type chunkChoice struct {
	Index    int        `json:"index"`
	Delta    delta      `json:"delta"`
	Logprobs *tokenLogs `json:"logprobs,omitempty"`
	Finish   *string    `json:"finish_reason"`
}

type chatChunk struct {
	head
	Choices  []chunkChoice    `json:"choices"`
	Usage    *usage           `json:"usage,omitempty"`
	Timings  *server.Timings  `json:"timings,omitempty"`
	Progress *server.Progress `json:"prompt_progress,omitempty"`

	Verbose *server.Completion `json:"__verbose,omitempty"`
}

// A chatStream sends answers while they are written.
type chatStream struct {
	model   *server.Model
	head    head
	request *chatRequest
	debug   *server.Completion // content of __verbose at the end of the first text; nil: none
	out     *server.EventStream
	texts   []*streamed
	total   usage
	timings *server.Timings // so far, if wanted
	last    *server.Timings // of the text that ended last
}

// streamed is one unfinished answer.
type streamed struct {
	parser *answer.Parser // nil once it is finished
	begun  bool
	calls  int // complete ones
}

// send returns an error where nothing was sent.
func (s *chatStream) send(events iter.Seq[server.Event]) error {
	s.texts = make([]*streamed, s.request.n)
	for i := range s.texts {
		s.texts[i] = &streamed{parser: s.request.reading.NewParser()}
	}
	defer func() {
		for _, t := range s.texts {
			if t.parser != nil {
				t.parser.Finish()
			}
		}
	}()
	for e := range events {
		if e.Err != nil {
			return s.out.Fail(e.Err)
		}
		if s.event(&e) != nil {
			return nil // the client is gone
		}
	}
	if s.request.usage && s.out.Send(chatChunk{head: s.head, Choices: []chunkChoice{}, Usage: &s.total, Timings: s.last}) != nil {
		return nil
	}
	return s.out.Done()
}

// event sends what an event says.
func (s *chatStream) event(e *server.Event) error {
	t := s.texts[e.Index]
	switch {
	case e.Progress != nil:
		return s.out.Send(chatChunk{head: s.head, Choices: []chunkChoice{{Index: e.Index}}, Progress: e.Progress, Timings: e.Timings})
	case e.Token != nil:
		s.timings = e.Timings
		var logs *tokenLogs
		if s.request.text.Logprobs {
			logs = &tokenLogs{[]server.Probability{s.model.ProbabilityOf(e.Token)}}
		}
		return s.pieces(e.Index, t.parser.Feed(e.Token.Text), logs)
	case e.End != nil:
		events := append(t.parser.Feed(e.End.Text), t.parser.Finish()...)
		t.parser = nil
		if err := s.pieces(e.Index, events, nil); err != nil {
			return err
		}
		s.timings = nil
		s.last = server.TimingsOf(e.End)
		s.total.add(e.End, e.Index == 0)
		reason := finish(e.End)
		if t.calls > 0 {
			reason = "tool_calls"
		}
		end := chatChunk{head: s.head, Choices: []chunkChoice{{Index: e.Index, Finish: &reason}}, Timings: s.last}
		if e.Index == 0 {
			end.Verbose = s.debug
		}
		return s.out.Send(end)
	}
	return s.out.Ping()
}

// pieces sends what pieces of an answer mean. Log probabilities go with the first.
func (s *chatStream) pieces(index int, events []answer.Event, logs *tokenLogs) error {
	t := s.texts[index]
	for i := range events {
		d, ok := deltaOf(&events[i])
		if events[i].Kind == answer.CallEnd {
			t.calls++
		}
		if !ok {
			continue
		}
		if err := s.delta(index, d, logs); err != nil {
			return err
		}
		logs = nil
	}
	if logs != nil {
		return s.delta(index, delta{}, logs) // its text is still held back
	}
	return nil
}

func (s *chatStream) delta(index int, d delta, logs *tokenLogs) error {
	if t := s.texts[index]; !t.begun {
		t.begun = true
		begin := delta{Role: "assistant", Content: (*string)(nil)}
		if err := s.out.Send(chatChunk{head: s.head, Choices: []chunkChoice{{Index: index, Delta: begin}}}); err != nil {
			return err
		}
	}
	return s.out.Send(chatChunk{head: s.head, Choices: []chunkChoice{{Index: index, Delta: d, Logprobs: logs}}, Timings: s.timings})
}

// deltaOf returns what a client gets for an event, and whether it gets anything. A call that turns out not to be one
// was begun already; its text is content, and the answer does not end with tool_calls.
func deltaOf(e *answer.Event) (d delta, ok bool) {
	switch e.Kind {
	case answer.Content, answer.CallFailed:
		d.Content = e.Text
	case answer.Reasoning:
		d.Reasoning = e.Text
	case answer.CallBegin:
		d.Calls = []call{{Index: &e.Index, ID: callID(e.ID), Type: "function"}}
		d.Calls[0].Function.Name = e.Name
	case answer.CallArguments:
		d.Calls = []call{{Index: &e.Index}}
		d.Calls[0].Function.Arguments = e.Text
	}
	return d, e.Kind != answer.Mark && e.Kind != answer.CallEnd
}
