package engine_test

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/powerinfer-go/powerinfer/demo"
	"github.com/powerinfer-go/powerinfer/internal/blueprint"
	"github.com/powerinfer-go/powerinfer/internal/compute/hybrid"
	"github.com/powerinfer-go/powerinfer/internal/compute/vulkan"
	"github.com/powerinfer-go/powerinfer/internal/engine"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/model"
	"github.com/powerinfer-go/powerinfer/internal/placement"
	"github.com/powerinfer-go/powerinfer/internal/quant"
	"github.com/powerinfer-go/powerinfer/internal/synth"
	"github.com/powerinfer-go/powerinfer/internal/synth/synthtest"
	"github.com/powerinfer-go/powerinfer/internal/testenv"
	"github.com/powerinfer-go/powerinfer/internal/trace"
)

// openCard opens an engine on lavapipe and the processor, or skips the test. What the validation layer says fails it. Tests take turns:
// the layer (Debian 12's) has crashed where several threads made and destroyed devices.
func openCard(t *testing.T, f *gguf.File, o engine.Options, places []placement.Place) *engine.Engine {
	t.Helper()
	said := make(chan string, 100)
	if o.Plan == nil {
		o.Plan = &engine.Plan{Cards: []engine.Card{{Budget: 1 << 30}}}
	}
	o.Plan.Places = places
	for j := range o.Plan.Cards {
		o.Plan.Cards[j].Device = vulkan.Software
	}
	o.Plan.Messages = func(s string) {
		select {
		case said <- s:
		default:
		}
	}
	e, err := engine.Open(f, o)
	if errors.Is(err, vulkan.ErrNone) || err != nil && (strings.Contains(err.Error(), "no device is called") || strings.Contains(err.Error(), "not installed")) {
		testenv.Missing(t, "vulkan", err.Error())
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		e.Close()
		if len(said) > 0 {
			t.Errorf("the validation layer says %d things, first: %s", len(said), <-said)
		}
	})
	return e
}

// share puts attention, predictor and so many of each layer's neurons on the card, and the head.
func share(layers, hot int) []placement.Place {
	places := make([]placement.Place, layers+1)
	for l := range places {
		places[l] = placement.Place{Attention: true, Predictor: true, Hot: hot}
	}
	return places
}

// surprises is the negative log likelihood of each token behind the first.
func surprises(t *testing.T, e *engine.Engine, ids []int32) []float64 {
	t.Helper()
	var out []float64
	s := e.NewSequence()
	defer e.Release(s)
	err := e.Evaluate(s, ids, func(i int) bool { return i+1 < len(ids) }, func(i int, logits []float32) {
		top := float64(slices.Max(logits))
		sum := 0.0
		for _, v := range logits {
			sum += math.Exp(float64(v) - top)
		}
		out = append(out, math.Log(sum)+top-float64(logits[ids[i+1]]))
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// choice is the likeliest token, and how far its logit is above the next one's.
type choice struct {
	id           int32
	gap, largest float64
}

// closeCall is the gap, as a share of the largest logit, below which either token may come out first: the processor's products of F16
// weights round to eight bits of mantissa, the card's do not.
const closeCall = 1e-2

// likeliest is the choice behind each token of ids.
func likeliest(t *testing.T, e *engine.Engine, ids []int32) []choice {
	t.Helper()
	var out []choice
	s := e.NewSequence()
	defer e.Release(s)
	err := e.Evaluate(s, ids, func(int) bool { return true }, func(_ int, logits []float32) {
		c := choice{gap: math.Inf(1)}
		for id, v := range logits {
			if v > logits[c.id] {
				c.id = int32(id)
			}
		}
		for id, v := range logits {
			c.largest = max(c.largest, math.Abs(float64(v)))
			if int32(id) != c.id {
				c.gap = min(c.gap, float64(logits[c.id]-v))
			}
		}
		out = append(out, c)
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// floatSplits and quantSplits are by how much the mean surprise of a short text may differ between two splits: three times and once
// DESIGN's share of perplexity, for over a few dozen tokens the processor's eight bits of mantissa do not average out.
const (
	floatSplits = 0.003
	quantSplits = 0.006
)

func mean(v []float64) float64 {
	sum := 0.0
	for _, x := range v {
		sum += x
	}
	return sum / float64(len(v))
}

// TestDemoOnCard: the demo chooses the same tokens on the processor, on the card, and on every split between them, and finds a text
// as likely.
func TestDemoOnCard(t *testing.T) {
	f, err := gguf.Parse(demo.Name, demo.Model())
	if err != nil {
		t.Fatal(err)
	}
	o := engine.Options{Threads: 2, Context: 256, Outputs: 64, Sparse: model.Exact} // a predictor's close calls are others
	plain, err := engine.Open(f, o)
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	prompt := plain.Tokenizer().Encode("Once upon a time there was a king", true, true)
	text, _ := greedy(t, plain, prompt, 64)
	text = append(slices.Clone(prompt), text...)
	choices := likeliest(t, plain, text)
	ids := plain.Tokenizer().Encode("There was once a poor woodcutter who lived with his wife and his daughter in a little house at the edge of a wood. One day he said to her: go and see.", true, true)
	want := mean(surprises(t, plain, ids))
	c := plain.Config()
	for _, hot := range []int{0, 96, 500, c.FF} {
		e := openCard(t, f, o, share(c.Layers, hot))
		for i, got := range likeliest(t, e, text) {
			if want := choices[i]; got.id != want.id && want.gap > closeCall*want.largest {
				t.Errorf("with %d of %d neurons on the card token %d of the text is %q, not %q", hot, c.FF, i,
					plain.Tokenizer().Decode([]int32{got.id}, false), plain.Tokenizer().Decode([]int32{want.id}, false))
			}
		}
		if got := mean(surprises(t, e, ids)); math.Abs(got-want) > floatSplits {
			t.Errorf("with %d of %d neurons on the card the text's mean surprise is %.5f, not %.5f", hot, c.FF, got, want)
		}
	}
}

// TestSplitsOnCard: sparse models of every kind are the same model on every split, and each split gives the same bytes again.
func TestSplitsOnCard(t *testing.T) {
	for _, c := range []struct {
		spec synth.Spec
		mode model.SparseMode
		diff float64
	}{
		{synth.Spec{Arch: "llama", Type: quant.F16}, model.Off, floatSplits},
		{synth.Spec{Arch: "llama", Type: quant.Q4_0}, model.Exact, quantSplits},
		{synth.Spec{Arch: "llama", Type: quant.Q4_0, Magic: "PWRI"}, model.Predict, quantSplits},
		{synth.Spec{Arch: "falcon", Type: quant.F16, Magic: "PWRI"}, model.Predict, floatSplits},
		{synth.Spec{Arch: "opt", Type: quant.F16, Magic: "PWRI"}, model.Predict, floatSplits},
	} {
		t.Run(c.spec.Arch+" "+c.mode.String()+" "+c.spec.Type.String(), func(t *testing.T) {
			f := synthtest.Sparse(t, c.spec, 2)
			o := engine.Options{Threads: 1, Context: 128, Outputs: 32, Sparse: c.mode}
			plain, err := engine.Open(f, o)
			if err != nil {
				t.Fatal(err)
			}
			defer plain.Close()
			ids := plain.Tokenizer().Encode("the quick brown fox jumps over a lazy dog and another", true, true)
			want := mean(surprises(t, plain, ids))
			for _, hot := range []int{0, 320, 1024} {
				places := share(2, hot)
				places[1].Attention, places[1].Predictor = hot == 0, hot == 0 // a layer of each kind
				e := openCard(t, f, o, places)
				first := surprises(t, e, ids)
				if got := mean(first); math.Abs(got-want) > c.diff*want {
					t.Errorf("with %d neurons on the card the mean surprise is %.5f, not %.5f", hot, got, want)
				}
				if again := surprises(t, e, ids); !slices.Equal(again, first) {
					t.Errorf("with %d neurons on the card another run gives other bytes", hot)
				}
			}
		})
	}
}

// sameNeurons is the share of neurons so close to zero that another order of sums turns them on or off.
const sameNeurons = 0.01

// TestStreamedPrompts: a prompt whose cold neurons are sent to the card says what it says otherwise, the same bytes every time, and counts
// the same neurons.
func TestStreamedPrompts(t *testing.T) {
	for _, c := range []struct {
		spec   synth.Spec
		mode   model.SparseMode
		mapped bool // --no-repack
		diff   float64
	}{
		{synth.Spec{Arch: "llama", Type: quant.F16}, model.Off, false, floatSplits},
		{synth.Spec{Arch: "llama", Type: quant.Q8_0}, model.Exact, false, quantSplits},
		{synth.Spec{Arch: "llama", Type: quant.Q4_0, Magic: "PWRI"}, model.Predict, false, quantSplits},
		{synth.Spec{Arch: "opt", Type: quant.F16, Magic: "PWRI"}, model.Predict, false, floatSplits},
		{synth.Spec{Arch: "llama", Type: quant.Q4_K}, model.Exact, false, quantSplits},
		{synth.Spec{Arch: "llama", Type: quant.Q6_K}, model.Off, false, quantSplits},
		{synth.Spec{Arch: "llama", Type: quant.Q4_0}, model.Exact, true, quantSplits},
	} {
		t.Run(fmt.Sprintf("%s %s %s %v", c.spec.Arch, c.mode, c.spec.Type, c.mapped), func(t *testing.T) {
			f := synthtest.Sparse(t, c.spec, 2)
			o := engine.Options{Threads: 1, Context: 128, Outputs: 64, Sparse: c.mode, NoRepack: c.mapped}
			for _, hot := range []int{0, 512} {
				places := share(2, hot)
				places[1].Attention, places[1].Predictor = hot > 0, hot > 0
				o.Plan = nil
				plain := openCard(t, f, o, places)
				ids := plain.Tokenizer().Encode("the quick brown fox jumps over a lazy dog and another", true, true)
				other := surprises(t, plain, ids)
				want := mean(other)
				o.Plan = &engine.Plan{Cards: []engine.Card{{Budget: 1 << 30, Stream: hybrid.Streaming{Tokens: 9, Bytes: 300 << 10}}}}
				e := openCard(t, f, o, places)
				first := surprises(t, e, ids)
				if got := mean(first); math.Abs(got-want) > c.diff*want {
					t.Errorf("with %d neurons on the card the mean surprise is %.5f where the others are sent, not %.5f", hot, got, want)
				}
				if dense := c.mode == model.Off && hot == 0; slices.Equal(first, other) != dense { // sums in the same order: nothing was sent
					t.Errorf("with %d neurons on the card the same bytes: %v", hot, !dense)
				}
				for l, u := range e.Neurons() {
					w := plain.Neurons()[l]
					if math.Abs(float64(u.Active-w.Active)) > sameNeurons*float64(w.Active) || u.Tokens != w.Tokens {
						t.Errorf("with %d neurons on the card layer %d counted %+v where the others are sent, not %+v", hot, l, u, w)
					}
				}
				if again := surprises(t, e, ids); !slices.Equal(again, first) {
					t.Errorf("with %d neurons on the card another run gives other bytes", hot)
				}
			}
		})
	}
}

// planned is how far the plan's bytes may be from what the card has in use, as a share, and slab in bytes: slabs that are not full,
// and what only some plans need.
const (
	planned = 0.05
	slab    = 1 << 20
)

// TestBudgetKept: what is in use after load is what was planned, within any budget, and no step needs more.
func TestBudgetKept(t *testing.T) {
	for _, c := range []struct {
		spec synth.Spec
		mode model.SparseMode
	}{
		{synth.Spec{Arch: "llama", Type: quant.Q4_0, Magic: "PWRI"}, model.Predict},
		{synth.Spec{Arch: "falcon", Type: quant.F16}, model.Exact},
		{synth.Spec{Arch: "llama", Type: quant.Q8_0}, model.Off},
	} {
		t.Run(c.spec.Arch+" "+c.mode.String(), func(t *testing.T) {
			f := synthtest.Sparse(t, c.spec, 4)
			o := engine.Options{Threads: 1, Context: 256, UBatch: 64, Sparse: c.mode}
			b, err := blueprint.Of(f, blueprint.Options{Context: o.Context, UBatch: o.UBatch, Sparse: c.mode, Law: blueprint.UsualLaw()})
			if err != nil {
				t.Fatal(err)
			}
			weights := b.Model.Bytes()
			stream := hybrid.Streaming{Tokens: 32, Bytes: 256 << 10}
			for _, try := range []struct {
				share float64
				cards int
			}{{0.2, 1}, {0.7, 1}, {2, 1}, {0.6, 2}} {
				budget := b.Buffers + stream.RoomBytes() + int64(try.share*float64(weights))/int64(try.cards)
				on := placement.Machine{Stream: 20e9, Rows: 5e9, GPUs: slices.Repeat([]placement.GPU{{Read: 500e9, Budget: budget}}, try.cards)}
				plan, err := b.Places(on, slices.Repeat([]hybrid.Streaming{stream}, try.cards), placement.Solve)
				if err != nil {
					t.Fatal(err)
				}
				o.Plan = &engine.Plan{}
				for j := range try.cards {
					o.Plan.Cards = append(o.Plan.Cards, engine.Card{Budget: budget, Planned: plan.VRAM[j], Stream: stream})
				}
				e := openCard(t, f, o, plan.Places())
				before := e.CardUse()
				if len(before) != try.cards {
					t.Fatalf("%d cards are in use, not %d", len(before), try.cards)
				}
				for j, use := range before {
					if use.Used > use.Budget || use.Used > budget {
						t.Errorf("%.1f of the model: card %d: %+v of a budget of %d", try.share, j, use, budget)
					}
					if d := math.Abs(float64(use.Planned - use.Used)); d > planned*float64(use.Used)+slab {
						t.Errorf("%.1f of the model: card %d: %d bytes are planned and %d in use", try.share, j, use.Planned, use.Used)
					}
				}
				greedy(t, e, e.Tokenizer().Encode(strings.Repeat("the quick brown fox jumps over a lazy dog ", 4), true, true), 20)
				if after := e.CardUse(); !slices.Equal(after, before) {
					t.Errorf("%.1f of the model: %+v after a text, and %+v before", try.share, after, before)
				}
			}
		})
	}
}

// TestTooSmall: a plan that is larger than the budget is refused with the figures, at load, whatever it is that finds no room; once
// there is room for all, it stays within the budget.
func TestTooSmall(t *testing.T) {
	f := synthtest.Sparse(t, synth.Spec{Arch: "llama", Type: quant.Q4_0}, 2)
	for budget := int64(1 << 20); ; budget += 320 << 10 {
		e, err := engine.Open(f, engine.Options{Threads: 1, Context: 128, UBatch: 64, Sparse: model.Exact, Plan: &engine.Plan{
			Places: share(2, 512),
			Cards:  []engine.Card{{Device: vulkan.Software, Budget: budget, Stream: hybrid.Streaming{Tokens: 32, Bytes: 100 << 10}}},
		}})
		if errors.Is(err, vulkan.ErrNone) {
			testenv.Missing(t, "vulkan", err.Error())
		}
		if err == nil {
			use := e.CardUse()[0]
			e.Close()
			if use.Used > budget || use.Used < budget-(320<<10) {
				t.Errorf("%d bytes are in use of a budget of %d", use.Used, budget)
			}
			return
		}
		var full *vulkan.OutOfMemory
		var card *hybrid.CardError
		if !errors.As(err, &full) || !errors.As(err, &card) || full.Budget != budget || full.Used > budget {
			t.Fatalf("within %d bytes: error %v", budget, err)
		}
		t.Log(err)
	}
}

// TestTrace: a token on both processors is one submission and one wait a layer, and one of each for the head.
func TestTrace(t *testing.T) {
	const layers = 4
	log := trace.New()
	e := openCard(t, synthtest.Sparse(t, synth.Spec{Arch: "llama", Type: quant.Q4_0, Magic: "PWRI"}, layers), engine.Options{Threads: 1, Context: 64, Trace: log}, share(layers, 320))
	greedy(t, e, []int32{1, 40, 300}, 4)
	count := within(t, log)
	if count["submit"] != layers+1 || count["wait"] != layers+1 || count["blk.3.ffn_up.weight"] != 1 || count["token"] != 1 {
		t.Errorf("within a token: %v", count)
	}
}
