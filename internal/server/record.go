package server

import (
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/powerinfer-go/powerinfer/internal/engine"
	"github.com/powerinfer-go/powerinfer/internal/sample"
)

// A Completion is a text in llama-server's own form, or a piece of one.
type Completion struct {
	Index           int       `json:"index"`
	Content         string    `json:"content"`
	Tokens          []int32   `json:"tokens"`
	Slot            int       `json:"id_slot"`
	Stop            bool      `json:"stop"`
	TokensPredicted int       `json:"tokens_predicted"`
	TokensEvaluated int       `json:"tokens_evaluated"`
	Probabilities   []any     `json:"completion_probabilities,omitempty"` // Probability or Chance
	Progress        *Progress `json:"prompt_progress,omitempty"`
	Timings         *Timings  `json:"timings,omitempty"`
	*Ending
}

// An Ending holds the fields that only a text's last piece has.
type Ending struct {
	Model        string         `json:"model"`
	Settings     map[string]any `json:"generation_settings"`
	HasNewLine   bool           `json:"has_new_line"`
	Truncated    bool           `json:"truncated"`
	StopType     string         `json:"stop_type"`
	StoppingWord string         `json:"stopping_word"`
	TokensCached int            `json:"tokens_cached"`
	Prompt       string         `json:"prompt"`
}

// A Record gathers a text in llama-server's form while it is generated.
type Record struct {
	Completion
	model   *Model
	request *Generation
}

// NewRecords returns a record of each text.
func (m *Model) NewRecords(texts []Generation) []Record {
	all := make([]Record, len(texts))
	for i := range all {
		all[i] = Record{Completion{Index: i, Tokens: []int32{}, TokensEvaluated: len(texts[i].Prompt)}, m, &texts[i]}
	}
	return all
}

// Add adds an event to the text and returns what it adds, as a piece.
func (r *Record) Add(e *Event) Completion {
	now := Completion{Index: e.Index, Slot: e.Slot, Tokens: []int32{}, TokensEvaluated: r.TokensEvaluated, Progress: e.Progress, Timings: e.Timings}
	switch {
	case e.Token != nil:
		r.TokensPredicted++
		now.Content, now.Tokens = e.Token.Text, []int32{e.Token.ID}
		if r.request.Logprobs {
			now.Probabilities = []any{r.probability(e.Token)}
		}
	case e.End != nil:
		now.Content, now.Stop = e.End.Text, true
	}
	r.Slot, r.Stop = e.Slot, now.Stop
	r.Content += now.Content
	r.Tokens = append(r.Tokens, now.Tokens...)
	r.Probabilities = append(r.Probabilities, now.Probabilities...)
	now.TokensPredicted = r.TokensPredicted
	if e.End != nil {
		now.Ending, now.Timings = r.end(e.End), TimingsOf(e.End)
		r.Ending, r.Timings = now.Ending, now.Timings
	}
	return now
}

func (r *Record) probability(t *engine.Token) any {
	p := r.model.ProbabilityOf(t)
	if r.request.Chances {
		return p.ChanceOf()
	}
	return p
}

func (r *Record) end(end *engine.Result) *Ending {
	kind := "eos"
	switch end.Stop {
	case engine.StopLength, engine.StopContext:
		kind = "limit"
	case engine.StopString:
		kind = "word"
	}
	g := r.request
	return &Ending{
		Model: r.model.Name, Settings: r.model.Settings(g), HasNewLine: strings.Contains(r.Content, "\n"), StopType: kind,
		Truncated: end.Stop == engine.StopContext || end.Shifts > 0, StoppingWord: end.StopText, TokensCached: r.TokensEvaluated + r.TokensPredicted,
		Prompt: r.model.PromptText(g),
	}
}

// Settings returns a text's settings of sampling and drafting, under the names of request fields.
func (m *Model) Settings(g *Generation) map[string]any {
	o := &g.Sampling
	most, fewest, least := m.Engine.DraftsOf(&g.Request)
	settings := map[string]any{
		"seed": o.Seed, "samplers": o.Samplers, "n_predict": g.Max, "logit_bias": biases(o.LogitBias),
		"speculative.n_max": most, "speculative.n_min": fewest, "speculative.p_min": least,
	}
	for _, n := range sample.Numbers() {
		settings[n.JSON] = n.Of(o)
	}
	return settings
}

// biases returns biases in llama-server's form, by token; one that bans is null.
func biases(of map[int32]float32) []map[string]any {
	all := []map[string]any{}
	for _, id := range slices.Sorted(maps.Keys(of)) {
		var bias any
		if v := float64(of[id]); !math.IsInf(v, 0) {
			bias = v
		}
		all = append(all, map[string]any{"token": id, "bias": bias})
	}
	return all
}
