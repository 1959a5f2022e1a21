package engine_test

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/powerinfer-go/powerinfer/demo"
	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/engine"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/model"
	"github.com/powerinfer-go/powerinfer/internal/planner"
	"github.com/powerinfer-go/powerinfer/internal/quant"
	"github.com/powerinfer-go/powerinfer/internal/sample"
	"github.com/powerinfer-go/powerinfer/internal/synth"
	"github.com/powerinfer-go/powerinfer/internal/synth/synthtest"
	"github.com/powerinfer-go/powerinfer/internal/testenv"
)

// dictation is a sampler that chooses a given text's tokens, whatever the logits are. It keeps a checksum of the
// logits.
type dictation struct {
	text   []int32
	prompt int // tokens that Accept gets before them
	at     int
	sums   []uint64 // checksum of each token's logits
}

func (d *dictation) Accept(int32) {
	if d.prompt--; d.prompt < 0 {
		d.at++
	}
}

func (d *dictation) Sample(logits []float32) int32 {
	sum := uint64(1)
	for _, v := range logits {
		sum = sum*31 + uint64(math.Float32bits(v))
	}
	d.sums = append(d.sums, sum)
	return d.text[d.at]
}

func (d *dictation) Constrain(sample.Constraint) {}
func (d *dictation) Done() bool                  { return false }
func (d *dictation) Err() error                  { return nil }

// TestDraftsChangeNothing: for a repetitive text every token's logits have the same bytes with and without drafts, in
// every sparse mode, and some tokens were drafted.
func TestDraftsChangeNothing(t *testing.T) {
	const line = "The fox had a red hat, and the hen had a blue hat.\n"
	for _, mode := range []model.SparseMode{model.Off, model.Exact, model.Predict} {
		o := engine.Options{Devices: planner.CPU(planner.Processor{Threads: 2}), Limits: engine.Limits{Context: 256}, Neurons: engine.Neurons{Sparse: mode}}
		plain := open(t, o)
		o.Drafts.Most = 8
		guessing := open(t, o)
		dictate := func(e *engine.Engine) ([]uint64, engine.Result) {
			prompt, text := e.Tokenizer().Encode(line+line, true, true), e.Tokenizer().Encode(line+"The hen laughed.\n"+line, false, true)
			d := &dictation{text: text, prompt: len(prompt)}
			res, err := e.Generate(context.Background(), engine.Request{Prompt: prompt, Max: len(text), Sampler: d, IgnoreEOG: true}, nil)
			if err != nil {
				t.Fatal(err)
			}
			return d.sums, res
		}
		want, _ := dictate(plain)
		for range 2 { // the second time the prompt is in the cache
			got, res := dictate(guessing)
			if !slices.Equal(got, want) {
				t.Errorf("%v: logits with guesses are not those without", mode)
			}
			if res.Accepted > res.Drafted || res.Drafts > res.Drafted {
				t.Errorf("%v: %d of %d guesses in %d steps came", mode, res.Accepted, res.Drafted, res.Drafts)
			}
		}
		// The number of checked drafts depends on the times of steps; the first steps come before these are known.
		if s := guessing.Stats(); s.Accepted == 0 {
			t.Errorf("%v: none of %d guesses came in a text that repeats itself", mode, s.Drafted)
		}
	}
}

// TestDraftModel: a draft model's drafts change nothing either, and a model of another vocabulary is refused.
func TestDraftModel(t *testing.T) {
	o := engine.Options{Devices: planner.CPU(planner.Processor{Threads: 1}), Limits: engine.Limits{Context: 128}, Neurons: engine.Neurons{Sparse: model.Off}}
	plain, small := open(t, o), open(t, o)
	o.Drafts.Most, o.DraftModel = 4, engine.DraftModel{Engine: small, Least: 0.1}
	prompt := plain.Tokenizer().Encode("The old witch", true, true)
	want, _ := greedy(t, plain, prompt, 60)
	const tries = 8 // a pause of the machine in a first step can make drafts look too expensive for the rest of a text
	for try := 1; ; try++ {
		got, res := greedy(t, open(t, o), prompt, 60)
		if !slices.Equal(got, want) {
			t.Errorf("%v with a draft model, %v without", got, want)
		}
		if res.Accepted > 0 {
			break
		}
		if try == tries {
			t.Fatalf("none of %d guesses of the same model came", res.Drafted)
		}
	}
	f, err := gguf.Parse(demo.Name, demo.Model())
	if err != nil {
		t.Fatal(err)
	}
	o.DraftModel.Engine = openSynthetic(t, sparseModels[0].spec, engine.Options{Devices: planner.CPU(planner.Processor{Threads: 1}), Limits: engine.Limits{Context: 64}})
	if _, err := engine.Open(t.Context(), f, o); err == nil || !strings.Contains(err.Error(), "take a draft model of the same family") {
		t.Errorf("a model of another vocabulary drafts: %v", err)
	}
}

// TestDraftModelLeast: a request sets the least probability of a draft model's drafts, and the least number to check.
func TestDraftModelLeast(t *testing.T) {
	o := engine.Options{Devices: planner.CPU(planner.Processor{Threads: 1}), Limits: engine.Limits{Context: 128}, Neurons: engine.Neurons{Sparse: model.Off}}
	small := open(t, o)
	var now atomic.Int64 // ms: all steps take the same time
	o.Drafts.Most, o.Drafts.NoLookup, o.Clock = 4, true, func() time.Duration { return time.Duration(now.Add(1)) * time.Millisecond }
	o.DraftModel = engine.DraftModel{Engine: small, Least: 0.9}
	e := open(t, o)
	prompt := e.Tokenizer().Encode("The old witch", true, true)
	all, none := float32(0), float32(1.01)
	for _, c := range []struct {
		r       engine.Request
		guesses bool
	}{
		{engine.Request{LeastDraft: &all, FewestDrafts: 2}, true},
		{engine.Request{LeastDraft: &none}, false},
	} {
		c.r.Prompt, c.r.Max, c.r.IgnoreEOG, c.r.Sampler = prompt, 40, true, greedySampler(t, e)
		res, err := e.Generate(t.Context(), c.r, nil)
		if err != nil {
			t.Fatal(err)
		}
		if (res.Drafted > 0) != c.guesses || res.Drafted < c.r.FewestDrafts*res.Drafts {
			t.Errorf("from the probability %g on, %d at least: %d guesses in %d steps", *c.r.LeastDraft, c.r.FewestDrafts, res.Drafted, res.Drafts)
		}
	}
}

// cheapGuesses are times of steps with which drafts pay off on any machine.
var cheapGuesses = engine.StepTimes{Guess: time.Millisecond, Step: 10 * time.Millisecond, Token: time.Millisecond}

// guessed checks that e generates the same logits with and without drafts of hot neurons, for its own text and for
// another. It returns the number of accepted drafts.
func guessed(t *testing.T, e *engine.Engine, tokens int) engine.Result {
	t.Helper()
	prompt := e.Tokenizer().Encode("The old witch", true, true)
	text := func(drafts int) ([]int32, engine.Result) {
		o := sample.DefaultOptions()
		o.Temperature = 0
		s, err := sample.New(o, e.Config().Vocab)
		if err != nil {
			t.Fatal(err)
		}
		var out []int32
		res, err := e.Generate(t.Context(), engine.Request{Prompt: prompt, Max: tokens, Sampler: s, Drafts: drafts}, func(tok engine.Token) bool {
			out = append(out, tok.ID)
			return true
		})
		if err != nil {
			t.Fatal(err)
		}
		return out, res
	}
	sums := func(drafts int) []uint64 {
		text := e.Tokenizer().Encode(" saw a green boat; it was not there, said two cats.", false, true)
		d := &dictation{text: text, prompt: len(prompt)}
		if _, err := e.Generate(t.Context(), engine.Request{Prompt: prompt, Max: len(text), Sampler: d, IgnoreEOG: true, Drafts: drafts}, nil); err != nil {
			t.Fatal(err)
		}
		return d.sums
	}
	want, _ := text(-1)
	got, res := text(0)
	if !slices.Equal(got, want) {
		t.Errorf("%v with guesses of hot neurons, %v without", got, want)
	}
	if res.HotAccepted > res.HotDrafted || res.HotDrafted > res.Drafted {
		t.Errorf("%d of %d guesses of hot neurons came, of %d in all", res.HotAccepted, res.HotDrafted, res.Drafted)
	}
	if !slices.Equal(sums(0), sums(-1)) {
		t.Error("logits with guesses of hot neurons are not those without")
	}
	return res
}

// TestHotDraftsOnGPU: drafts by the neurons on a GPU change no logits.
func TestHotDraftsOnGPU(t *testing.T) {
	testenv.Thorough(t)
	spec := synth.Spec{Arch: "llama", Type: quant.F16, Layers: 2, Embd: 64, FF: 128, Heads: 2, Sparsity: 0.9, PowerLaw: 1, Seed: 5}
	places := share(2, 96)
	places[1] = compute.Place{Split: compute.Split{Tier: compute.RAM}} // its neurons draft, too
	e := openGPU(t, synthtest.File(t, spec), engine.Options{Limits: engine.Limits{Context: 96, UBatch: 8}, Neurons: engine.Neurons{Sparse: model.Exact}, Drafts: engine.Drafts{Most: 1, Hot: engine.HotAlways}}, gigabyte(places))
	engine.SetTimes(e.Engine, cheapGuesses)
	if res := guessed(t, e.Engine, 20); res.HotDrafted == 0 {
		t.Error("nothing was guessed")
	}
}

// TestHotDrafts: drafts by the neurons that predictors choose change no logits of modes exact and off, and most are
// right.
func TestHotDrafts(t *testing.T) {
	for _, mode := range []model.SparseMode{model.Exact, model.Off} {
		e := open(t, engine.Options{Devices: planner.CPU(planner.Processor{Threads: 2}), Limits: engine.Limits{Context: 128}, Neurons: engine.Neurons{Sparse: mode}, Drafts: engine.Drafts{Most: 4, Hot: engine.HotAlways}})
		engine.SetTimes(e, cheapGuesses)
		if res := guessed(t, e, 80); 2*res.HotAccepted <= res.HotDrafted {
			t.Errorf("%v: %d of %d guesses came", mode, res.HotAccepted, res.HotDrafted)
		}
	}
}

// TestDraftsCost uses times of steps of processors that are bound by memory, by arithmetic, and by both. Texts with
// hardly a right draft take at most 3 % longer, from the first token on. A repetitive text takes half the time.
func TestDraftsCost(t *testing.T) {
	testenv.Thorough(t)
	const prompt = 8
	open := func(each time.Duration, drafts int) *engine.Engine {
		e := open(t, engine.Options{Devices: planner.CPU(planner.Processor{Threads: 1}), Limits: engine.Limits{Context: 512}, Neurons: engine.Neurons{Sparse: model.Off}, Drafts: engine.Drafts{Most: drafts}})
		engine.SetTimes(e, engine.StepTimes{Step: 10 * time.Millisecond, Token: each})
		return e
	}
	took := func(e *engine.Engine, text []int32) time.Duration {
		d := &dictation{text: text[prompt:], prompt: prompt}
		before := e.Stats().Time
		if _, err := e.Generate(t.Context(), engine.Request{Prompt: text[:prompt], Max: len(text) - prompt, Sampler: d, IgnoreEOG: true, Reuse: engine.ReuseNone}, nil); err != nil {
			t.Fatal(err)
		}
		return e.Stats().Time - before
	}
	for _, each := range []time.Duration{time.Millisecond, 3 * time.Millisecond, 10 * time.Millisecond} {
		for _, tokens := range []int{64, 300} {
			for _, seed := range testenv.Some(t, 2, []uint64{0, 1, 2, 3}) {
				rng := rand.New(rand.NewPCG(seed, 0))
				text := make([]int32, prompt+tokens)
				for i := range text {
					text[i] = 100 + rng.Int32N(10)
				}
				plain, guessing := took(open(each, 0), text), took(open(each, 16), text)
				if share := float64(plain) / float64(guessing); share < 0.97 {
					t.Errorf("%v a token, seed %d: %d tokens of which few can be guessed at %.3f of the speed without guesses", each, seed, tokens, share)
				}
			}
		}
	}
	text := make([]int32, prompt+400)
	for i := range text {
		text[i] = 100 + int32(i%40)
	}
	if plain, guessing := took(open(time.Millisecond, 0), text), took(open(time.Millisecond, 16), text); plain < 2*guessing {
		t.Errorf("a text that repeats itself takes %v with guesses, %v without", guessing, plain)
	}
}
