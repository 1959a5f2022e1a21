package openai

import (
	"iter"
	"net/http"

	"github.com/powerinfer-go/powerinfer/internal/server"
)

// maxLogprobs is how many of the likeliest tokens are told at most, as OpenAI's own chat completions tell.
const maxLogprobs = 20

type textChoice struct {
	Text     string     `json:"text"`
	Index    int        `json:"index"`
	Logprobs *tokenLogs `json:"logprobs"`
	Finish   *string    `json:"finish_reason"`
}

// tokenLogs are the log probabilities of a text's tokens.
type tokenLogs struct {
	Content []server.Probability `json:"content"`
}

type textCompletion struct {
	head
	Choices  []textChoice     `json:"choices"`
	Usage    *usage           `json:"usage,omitempty"`
	Timings  *server.Timings  `json:"timings,omitempty"`
	Progress *server.Progress `json:"prompt_progress,omitempty"`
}

func completion(w http.ResponseWriter, r *http.Request, f *server.Fields, m *server.Model) error {
	g := m.ReadGeneration(f)
	g.Prompt = m.ReadPrompt(f)
	m.ReadConstraint(f, &g)
	o := readOutput(m, f)
	f.Only("echo", "false")
	f.Only("suffix", `""`)
	f.Only("best_of", "1")
	if f.Read("logprobs", &g.TopLogprobs) {
		g.Logprobs = true
	}
	if g.TopLogprobs < 0 || g.TopLogprobs > maxLogprobs {
		f.Fail(server.Invalid("the field logprobs is not a number from 0 to %d", maxLogprobs))
	}
	if err := f.Close(); err != nil {
		return err
	}
	events, err := m.Generate(r.Context(), server.Several(g, o.n))
	if err != nil {
		return err
	}
	t := textCompletion{head: newHead(m, "cmpl-", "text_completion")}
	if o.stream {
		return t.send(server.NewEventStream(w), events, o, g.Logprobs, m)
	}
	return t.answer(w, events, o, g.Logprobs, m)
}

func (t *textCompletion) answer(w http.ResponseWriter, events iter.Seq[server.Event], o output, logprobs bool, m *server.Model) error {
	t.Choices, t.Usage = make([]textChoice, o.n), &usage{}
	for e := range events {
		if e.Err != nil {
			return e.Err
		}
		c := &t.Choices[e.Index]
		c.Index = e.Index
		if e.Token != nil {
			c.Text += e.Token.Text
			if logprobs {
				if c.Logprobs == nil {
					c.Logprobs = &tokenLogs{}
				}
				c.Logprobs.Content = append(c.Logprobs.Content, m.ProbabilityOf(e.Token))
			}
		}
		if e.End != nil {
			reason, timings := finish(e.End), server.TimingsOf(e.End)
			c.Text += e.End.Text
			c.Finish, t.Timings = &reason, &timings
			t.Usage.add(e.End)
		}
	}
	server.WriteJSON(w, t)
	return nil
}

func (t *textCompletion) send(out *server.EventStream, events iter.Seq[server.Event], o output, logprobs bool, m *server.Model) error {
	var total usage
	for e := range events {
		chunk := textCompletion{head: t.head, Choices: []textChoice{{Index: e.Index}}, Progress: e.Progress}
		c := &chunk.Choices[0]
		var err error
		switch {
		case e.Err != nil:
			return out.Fail(e.Err)
		case e.Token != nil:
			if c.Text = e.Token.Text; logprobs {
				c.Logprobs = &tokenLogs{[]server.Probability{m.ProbabilityOf(e.Token)}}
			}
			err = out.Send(chunk)
		case e.End != nil:
			reason, timings := finish(e.End), server.TimingsOf(e.End)
			c.Text, c.Finish, chunk.Timings = e.End.Text, &reason, &timings
			total.add(e.End)
			err = out.Send(chunk)
		case e.Progress != nil:
			err = out.Send(chunk)
		default:
			err = out.Ping()
		}
		if err != nil {
			return nil // the client is gone
		}
	}
	if o.usage {
		if out.Send(textCompletion{head: t.head, Choices: []textChoice{}, Usage: &total}) != nil {
			return nil
		}
	}
	return out.Done()
}
