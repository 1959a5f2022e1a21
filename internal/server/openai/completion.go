package openai

import (
	"iter"
	"net/http"
	"strings"

	"github.com/powerinfer-go/powerinfer/internal/engine"
	"github.com/powerinfer-go/powerinfer/internal/server"
)

// maxLogprobs is the largest number of likeliest tokens that an answer lists, as in OpenAI's own chat completions.
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

	Verbose *server.Completion `json:"__verbose,omitempty"`
}

// textRequest is a request for completions of texts, read and checked.
type textRequest struct {
	output
	model *server.Model
	texts []server.Generation // n for each prompt
	echo  bool
	debug *server.Completion // content of __verbose at the end; nil: none
}

func completion(w http.ResponseWriter, r *http.Request, f *server.Fields, m *server.Model) error {
	c := &textRequest{model: m}
	g := m.ReadGeneration(f)
	prompts := m.ReadPrompts(f)
	m.ReadConstraint(f, &g)
	c.output = readOutput(m, f)
	f.Read("echo", &c.echo)
	f.Only("suffix", `""`)
	f.Only("best_of", "1")
	f.Only("response_fields", "[]")
	if f.Read("logprobs", &g.TopLogprobs) {
		g.Logprobs = true
	}
	switch {
	case g.TopLogprobs < 0 || g.TopLogprobs > maxLogprobs:
		f.Fail(server.Invalid("the field logprobs is not a number from 0 to %d", maxLogprobs))
	case c.echo && g.Logprobs:
		f.Fail(server.Invalid("the field echo cannot be combined with logprobs, which there are of the answer only"))
	}
	if err := f.Close(); err != nil {
		return err
	}
	for _, p := range prompts {
		g.Ask(p)
		c.texts = append(c.texts, server.Several(g, c.n)...)
	}
	events, err := m.Generate(r.Context(), c.texts)
	if err != nil {
		return err
	}
	if c.verbose {
		events, c.debug = recorded(m, c.texts, events)
	}
	head := newHead(m, "cmpl-", "text_completion")
	if c.stream {
		return c.send(server.NewEventStream(w), head, events)
	}
	return c.answer(w, head, events)
}

// begin returns what a text begins with before anything is generated: its prompt, where that is wanted.
func (c *textRequest) begin(index int) string {
	if !c.echo {
		return ""
	}
	g := &c.texts[index]
	text := c.model.PromptText(g)
	tok := c.model.Engine.Tokenizer()
	if tok.AddsBOS() && len(g.Prompt) > 0 && g.Prompt[0] == tok.BOS() {
		text = strings.TrimPrefix(text, string(tok.Piece(tok.BOS(), true)))
	}
	before := strings.TrimSuffix(tok.Decode(tok.Encode("a", false, false), false), "a") // the space that Encode puts before a text
	return strings.TrimPrefix(text, before)
}

// logs returns a token's log probabilities, if wanted.
func (c *textRequest) logs(index int, t *engine.Token) []server.Probability {
	if !c.texts[index].Logprobs {
		return nil
	}
	return []server.Probability{c.model.ProbabilityOf(t)}
}

func (c *textRequest) answer(w http.ResponseWriter, h head, events iter.Seq[server.Event]) error {
	t := textCompletion{head: h, Choices: make([]textChoice, len(c.texts)), Usage: &usage{}}
	for i := range t.Choices {
		t.Choices[i].Index, t.Choices[i].Text = i, c.begin(i)
	}
	for e := range events {
		if e.Err != nil {
			return e.Err
		}
		k := &t.Choices[e.Index]
		if e.Token != nil {
			k.Text += e.Token.Text
			if logs := c.logs(e.Index, e.Token); logs != nil {
				if k.Logprobs == nil {
					k.Logprobs = &tokenLogs{}
				}
				k.Logprobs.Content = append(k.Logprobs.Content, logs...)
			}
		}
		if e.End != nil {
			reason := finish(e.End)
			k.Text += e.End.Text
			k.Finish, t.Timings = &reason, server.TimingsOf(e.End)
			t.Usage.add(e.End, e.Index%c.n == 0)
		}
	}
	t.Verbose = c.debug
	server.WriteJSON(w, t)
	return nil
}

// send returns an error where nothing was sent.
func (c *textRequest) send(out *server.EventStream, h head, events iter.Seq[server.Event]) error {
	var total usage
	var last *server.Timings
	begun := make([]bool, len(c.texts))
	for e := range events {
		chunk := textCompletion{head: h, Choices: []textChoice{{Index: e.Index}}, Progress: e.Progress, Timings: e.Timings}
		k := &chunk.Choices[0]
		if e.Token != nil || e.End != nil {
			if !begun[e.Index] {
				k.Text, begun[e.Index] = c.begin(e.Index), true
			}
		}
		var err error
		switch {
		case e.Err != nil:
			return out.Fail(e.Err)
		case e.Token != nil:
			k.Text += e.Token.Text
			if logs := c.logs(e.Index, e.Token); logs != nil {
				k.Logprobs = &tokenLogs{logs}
			}
			err = out.Send(chunk)
		case e.End != nil:
			reason := finish(e.End)
			k.Text += e.End.Text
			last = server.TimingsOf(e.End)
			k.Finish, chunk.Timings = &reason, last
			if e.Index == 0 {
				chunk.Verbose = c.debug
			}
			total.add(e.End, e.Index%c.n == 0)
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
	if c.usage {
		if out.Send(textCompletion{head: h, Choices: []textChoice{}, Usage: &total, Timings: last}) != nil {
			return nil
		}
	}
	return out.Done()
}
