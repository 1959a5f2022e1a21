package engine_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/powerinfer-go/powerinfer/demo"
	"github.com/powerinfer-go/powerinfer/internal/engine"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/model"
	"github.com/powerinfer-go/powerinfer/internal/planner"
	"github.com/powerinfer-go/powerinfer/internal/sample"
)

// TestDraftsChangeNothing: a text that repeats itself is the same, token by token, with and without guesses, sampled or not, whichever neurons are
// computed.
func TestDraftsChangeNothing(t *testing.T) {
	const generated, mostDrafts = 60, 8
	prompt := strings.Repeat("The fox had a red hat, and the hen had a blue hat.\n", 4)
	accepted := 0
	for _, mode := range []model.SparseMode{model.Off, model.Exact, model.Predict} {
		o := engine.Options{Devices: planner.CPU(planner.Processor{Threads: 2}), Context: 256, Sparse: mode}
		plain := open(t, o)
		o.Drafts = mostDrafts
		guessing := open(t, o)
		for _, temperature := range []float32{0, 0.7} {
			text := func(e *engine.Engine) ([]int32, engine.Result) {
				so := sample.DefaultOptions()
				so.Temperature, so.Seed = temperature, 3
				s, err := sample.New(so, e.Config().Vocab)
				if err != nil {
					t.Fatal(err)
				}
				var out []int32
				r := engine.Request{Prompt: e.Tokenizer().Encode(prompt, true, true), Max: generated, Sampler: s, IgnoreEOG: true}
				res, err := e.Generate(context.Background(), r, func(tok engine.Token) bool {
					out = append(out, tok.ID)
					return true
				})
				if err != nil {
					t.Fatal(err)
				}
				return out, res
			}
			want, _ := text(plain)
			for range 2 { // the second time the prompt's keys and values are there
				got, res := text(guessing)
				if !slices.Equal(got, want) {
					t.Errorf("%v, temperature %g: %v with guesses, %v without", mode, temperature, got, want)
				}
				accepted += res.Accepted
				t.Logf("%v, temperature %g: %d of %d guesses came", mode, temperature, res.Accepted, res.Drafted)
			}
		}
	}
	if accepted < generated/6 { // how many are checked depends on what steps take
		t.Errorf("%d guesses came in texts that repeat themselves", accepted)
	}
}

// TestDraftModel: a draft model's guesses change nothing either, and a model of another vocabulary is refused.
func TestDraftModel(t *testing.T) {
	o := engine.Options{Devices: planner.CPU(planner.Processor{Threads: 1}), Context: 128, Sparse: model.Off}
	plain, small := open(t, o), open(t, o)
	o.Drafts, o.DraftModel = 4, engine.DraftModel{Engine: small, Least: 0.1}
	guessing := open(t, o)
	prompt := plain.Tokenizer().Encode("The old witch", true, true)
	want, _ := greedy(t, plain, prompt, 60)
	got, res := greedy(t, guessing, prompt, 60)
	if !slices.Equal(got, want) {
		t.Errorf("%v with a draft model, %v without", got, want)
	}
	if res.Drafted == 0 || res.Accepted < res.Drafted/2 {
		t.Errorf("%d of %d guesses of the same model came", res.Accepted, res.Drafted)
	}
	f, err := gguf.Parse(demo.Name, demo.Model())
	if err != nil {
		t.Fatal(err)
	}
	o.DraftModel.Engine = openSynthetic(t, sparseModels[0].spec, engine.Options{Devices: planner.CPU(planner.Processor{Threads: 1}), Context: 64})
	if _, err := engine.Open(t.Context(), f, o); err == nil || !strings.Contains(err.Error(), "take a draft model of the same family") {
		t.Errorf("a model of another vocabulary drafts: %v", err)
	}
}
