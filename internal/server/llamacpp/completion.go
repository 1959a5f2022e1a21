package llamacpp

import (
	"encoding/json"
	"iter"
	"net/http"
	"strings"

	"github.com/powerinfer-go/powerinfer/internal/engine"
	"github.com/powerinfer-go/powerinfer/internal/server"
)

// A chunk is a piece of a text, or its end.
type chunk struct {
	Index           int              `json:"index"`
	Content         string           `json:"content"`
	Tokens          []int32          `json:"tokens"`
	Slot            int              `json:"id_slot"`
	Stop            bool             `json:"stop"`
	TokensPredicted int              `json:"tokens_predicted"`
	TokensEvaluated int              `json:"tokens_evaluated"`
	Probabilities   []any            `json:"completion_probabilities,omitempty"` // server.Probability or server.Chance
	Progress        *server.Progress `json:"prompt_progress,omitempty"`
	SoFar           *server.Timings  `json:"timings,omitempty"` // an ending's hides it
	*ending
}

// An ending is what only the last chunk has.
type ending struct {
	Model        string         `json:"model"`
	Settings     map[string]any `json:"generation_settings"`
	HasNewLine   bool           `json:"has_new_line"`
	Truncated    bool           `json:"truncated"`
	StopType     string         `json:"stop_type"`
	StoppingWord string         `json:"stopping_word"`
	TokensCached int            `json:"tokens_cached"`
	Prompt       string         `json:"prompt"`
}

// A completion is one request's texts in the making.
type completion struct {
	model        *server.Model
	texts        []server.Generation
	stream       bool
	returnTokens bool
	fields       []string // of the last chunks, as paths; none: all
	parts        []chunk  // [texts] what was written
}

func complete(w http.ResponseWriter, r *http.Request, f *server.Fields, m *server.Model) error {
	return completeTokens(w, r, f, m, m.ReadPrompts(f)...)
}

// completeTokens answers with what follows prompts.
func completeTokens(w http.ResponseWriter, r *http.Request, f *server.Fields, m *server.Model, prompts ...[]int32) error {
	c := &completion{model: m}
	g := m.ReadGeneration(f)
	m.ReadConstraint(f, &g)
	f.Read("stream", &c.stream)
	f.Read("return_tokens", &c.returnTokens)
	f.Read("response_fields", &c.fields)
	f.Only("verbose", "false")
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
		g.Prompt = prompt
		c.texts = append(c.texts, server.Several(g, n)...)
	}
	c.parts = make([]chunk, len(c.texts))
	for i := range c.parts {
		c.parts[i] = chunk{Index: i, Tokens: []int32{}, TokensEvaluated: len(c.texts[i].Prompt)}
	}
	events, err := m.Generate(r.Context(), c.texts)
	if err != nil {
		return err
	}
	if c.stream {
		return c.send(server.NewEventStream(w), events)
	}
	return c.answer(w, events)
}

// next notes what an event says and returns it as a chunk, whose ending is set with the last one.
func (c *completion) next(e *server.Event) chunk {
	whole := &c.parts[e.Index]
	now := chunk{Index: e.Index, Slot: e.Slot, Tokens: []int32{}, TokensEvaluated: whole.TokensEvaluated, Progress: e.Progress, SoFar: e.Timings}
	switch {
	case e.Token != nil:
		whole.TokensPredicted++
		now.Content, now.Tokens = e.Token.Text, []int32{e.Token.ID}
		if c.texts[e.Index].Logprobs {
			now.Probabilities = []any{c.probability(&c.texts[e.Index], e.Token)}
		}
	case e.End != nil:
		now.Content, now.Stop = e.End.Text, true
	}
	whole.Slot, whole.Stop = e.Slot, now.Stop
	whole.Content += now.Content
	whole.Tokens = append(whole.Tokens, now.Tokens...)
	whole.Probabilities = append(whole.Probabilities, now.Probabilities...)
	now.TokensPredicted = whole.TokensPredicted
	if e.End != nil {
		now.ending, now.SoFar = c.end(&c.texts[e.Index], whole, e.End), server.TimingsOf(e.End)
		whole.ending, whole.SoFar = now.ending, now.SoFar
	}
	return now
}

func (c *completion) probability(g *server.Generation, t *engine.Token) any {
	p := c.model.ProbabilityOf(t)
	if g.Chances {
		return p.ChanceOf()
	}
	return p
}

func (c *completion) end(g *server.Generation, whole *chunk, r *engine.Result) *ending {
	kind := "eos"
	switch r.Stop {
	case engine.StopLength, engine.StopContext:
		kind = "limit"
	case engine.StopString:
		kind = "word"
	}
	return &ending{
		Model: c.model.Name, Settings: settings(&g.Sampling, g.Max), HasNewLine: strings.Contains(whole.Content, "\n"), StopType: kind,
		Truncated: r.Stop == engine.StopContext || r.Shifts > 0, StoppingWord: r.StopText, TokensCached: whole.TokensEvaluated + whole.TokensPredicted,
		Prompt: c.model.Engine.Tokenizer().Decode(g.Prompt, true),
	}
}

func (c *completion) answer(w http.ResponseWriter, events iter.Seq[server.Event]) error {
	for e := range events {
		if e.Err != nil {
			return e.Err
		}
		c.next(&e)
	}
	if !c.returnTokens {
		for i := range c.parts {
			c.parts[i].Tokens = []int32{}
		}
	}
	if len(c.parts) == 1 {
		server.WriteJSON(w, c.shown(&c.parts[0]))
		return nil
	}
	all := make([]any, len(c.parts))
	for i := range c.parts {
		all[i] = c.shown(&c.parts[i])
	}
	server.WriteJSON(w, all)
	return nil
}

// shown returns what a client wants to see of a text's last chunk.
func (c *completion) shown(k *chunk) any {
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
			k := c.next(&e)
			err = out.Send(c.shown(&k))
		default:
			err = out.Send(c.next(&e))
		}
		if err != nil {
			return nil // the client is gone
		}
	}
	return nil
}
