package llamacpp

import (
	"encoding/json"
	"iter"
	"net/http"
	"strings"

	"github.com/powerinfer-go/powerinfer/internal/server"
)

// completion collects one request's texts.
type completion struct {
	model        *server.Model
	texts        []server.Generation
	stream       bool
	returnTokens bool
	fields       []string        // fields of the last chunks, as paths; none: all
	records      []server.Record // [texts]
}

// mostProbabilities bounds the probabilities in an answer in one piece. Each takes some hundred bytes.
const mostProbabilities = 1 << 20

func complete(w http.ResponseWriter, r *http.Request, f *server.Fields, m *server.Model) error {
	return completeTokens(w, r, f, m, m.ReadPrompts(f)...)
}

// completeTokens answers with what follows prompts.
func completeTokens(w http.ResponseWriter, r *http.Request, f *server.Fields, m *server.Model, prompts ...*server.Prompt) error {
	c := &completion{model: m}
	g := m.ReadGeneration(f)
	m.ReadConstraint(f, &g)
	f.Read("stream", &c.stream)
	f.Read("return_tokens", &c.returnTokens)
	f.Read("response_fields", &c.fields)
	server.Unused[bool](f, "verbose") // the answer has all there is
	n := 1
	for _, name := range []string{"n_cmpl", "n"} {
		f.Read(name, &n)
	}
	for _, name := range []string{"logprobs", "n_probs"} {
		if f.Read(name, &g.TopLogprobs); g.TopLogprobs < 0 || g.TopLogprobs > m.Engine.Config().Vocab {
			f.Fail(server.Invalid("the field %s is not a number of tokens of the vocabulary", name))
		}
	}
	if n < 1 || n > m.Slots {
		f.Fail(server.Invalid("the field n_cmpl is not a number from 1 to %d, the number of slots", m.Slots))
	}
	if err := f.Close(); err != nil {
		return err
	}
	g.Logprobs = g.TopLogprobs > 0
	for _, prompt := range prompts {
		g.Ask(prompt)
		c.texts = append(c.texts, server.Several(g, n)...)
	}
	c.records = m.NewRecords(c.texts)
	events, err := m.Generate(r.Context(), c.texts)
	if err != nil {
		return err
	}
	if c.stream {
		return c.send(server.NewEventStream(w), events)
	}
	return c.answer(w, events)
}

func (c *completion) answer(w http.ResponseWriter, events iter.Seq[server.Event]) error {
	probabilities := 0
	for e := range events {
		if e.Err != nil {
			return e.Err
		}
		if e.Token != nil {
			probabilities += len(e.Token.Top)
		}
		if probabilities > mostProbabilities {
			return server.Invalid("an answer in one piece has at most %d probabilities; ask for fewer by n_probs or n_predict, or for a stream", mostProbabilities)
		}
		c.records[e.Index].Add(&e)
	}
	if !c.returnTokens {
		for i := range c.records {
			c.records[i].Tokens = []int32{}
		}
	}
	if len(c.records) == 1 {
		server.WriteJSON(w, c.shown(&c.records[0].Completion))
		return nil
	}
	all := make([]any, len(c.records))
	for i := range c.records {
		all[i] = c.shown(&c.records[i].Completion)
	}
	server.WriteJSON(w, all)
	return nil
}

// shown returns what a client wants to see of a text's last chunk.
func (c *completion) shown(k *server.Completion) any {
	if len(c.fields) == 0 {
		return k
	}
	text, _ := json.Marshal(k)
	var all map[string]any
	json.Unmarshal(text, &all) // what was just written
	shown := map[string]any{}
	for _, path := range c.fields {
		var at any = all
		for name := range strings.SplitSeq(path, "/") {
			object, _ := at.(map[string]any)
			at = object[name]
		}
		if at != nil {
			shown[path] = at
		}
	}
	return shown
}

// send returns an error where nothing was sent.
func (c *completion) send(out *server.EventStream, events iter.Seq[server.Event]) error {
	for e := range events {
		var err error
		switch {
		case e.Err != nil:
			return out.Fail(e.Err)
		case e.Token == nil && e.Progress == nil && e.End == nil:
			err = out.Ping()
		case e.End != nil:
			k := c.records[e.Index].Add(&e)
			err = out.Send(c.shown(&k))
		default:
			r := &c.records[e.Index]
			err = out.Send(r.Add(&e))
			r.Tokens, r.Probabilities = nil, nil // they have been sent
		}
		if err != nil {
			return nil // the client is gone
		}
	}
	return nil
}
