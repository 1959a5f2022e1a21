package engine_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/powerinfer-go/powerinfer/demo"
	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/compute/hybrid"
	"github.com/powerinfer-go/powerinfer/internal/compute/vulkan"
	"github.com/powerinfer-go/powerinfer/internal/engine"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/model"
	"github.com/powerinfer-go/powerinfer/internal/planner"
	"github.com/powerinfer-go/powerinfer/internal/quant"
	"github.com/powerinfer-go/powerinfer/internal/residency"
	"github.com/powerinfer-go/powerinfer/internal/synth"
	"github.com/powerinfer-go/powerinfer/internal/synth/synthtest"
	"github.com/powerinfer-go/powerinfer/internal/testenv"
	"github.com/powerinfer-go/powerinfer/internal/trace"
)

// openGPU opens an engine on lavapipe and the CPU, or skips the test. Messages of the validation layer fail the test.
// Tests take turns, because the layer (Debian 12's) crashed when several threads made and destroyed devices.
func openGPU(t *testing.T, f *gguf.File, o engine.Options, plan planner.Plan) onGPU {
	t.Helper()
	said := make(chan string, 100)
	plan.GPUs = slices.Clone(plan.GPUs)
	for j := range plan.GPUs {
		plan.GPUs[j].Device = vulkan.Software
	}
	devices := planner.Fixed(&plan, planner.Options{
		Processor: planner.Processor{Threads: 1}, Trace: o.Trace,
		Messages: func(s string) {
			select {
			case said <- s:
			default:
			}
		},
	})
	o.Devices = devices
	now := new(atomic.Int64)
	o.Clock = func() time.Duration { return time.Duration(now.Add(1)) * time.Millisecond } // drafts pay off or not independently of the machine's load
	e, err := engine.Open(t.Context(), f, o)
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
	return onGPU{e, devices}
}

// onGPU is an engine with the planner that opened its devices.
type onGPU struct {
	*engine.Engine
	devices *planner.Planner
}

// gigabyte returns a plan for one GPU of 1 GiB.
func gigabyte(places []compute.Place) planner.Plan {
	return planner.Plan{GPUs: []planner.GPU{{Budget: 1 << 30}}, Places: places}
}

// share puts attention, predictor and the first hot neurons of each layer, and the head, on the GPU.
func share(layers, hot int) []compute.Place {
	places := make([]compute.Place, layers+1)
	for l := range places {
		places[l] = compute.Place{Split: compute.Split{Bound: hot}, Attention: true, Predictor: true}
	}
	return places
}

// surprises returns the negative log likelihood of each token after the first.
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

// choice is the likeliest token and the distance of its logit from the next one.
type choice struct {
	id           int32
	gap, largest float64
}

// closeCall is the gap, as a share of the largest logit, below which either token may win: the CPU's products of F16
// weights round to eight bits of mantissa, the GPU's do not.
const closeCall = 1e-2

// likeliest returns the choice after each token of ids.
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

// floatSplits and quantSplits limit how much the mean surprise of a short text may differ between two splits. They are
// larger than the limits on perplexity, because a few dozen tokens do not average out the rounding of the CPU's eight
// bits of mantissa.
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

// TestDemoOnGPU: the demo chooses the same tokens on the CPU, on the GPU, and on every split between them, and gives a
// text the same likelihood.
func TestDemoOnGPU(t *testing.T) {
	testenv.Thorough(t)
	f, err := gguf.Parse(demo.Name, demo.Model())
	if err != nil {
		t.Fatal(err)
	}
	o := engine.Options{Devices: planner.CPU(planner.Processor{Threads: 2}), Limits: engine.Limits{Context: 256, Sequences: 64}, Neurons: engine.Neurons{Sparse: model.Exact}} // a predictor decides close calls differently
	plain, err := engine.Open(t.Context(), f, o)
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
	for _, hot := range testenv.Some(t, 2, []int{96, c.FF, 0}) {
		e := openGPU(t, f, o, gigabyte(share(c.Layers, hot)))
		for i, got := range likeliest(t, e.Engine, text) {
			if want := choices[i]; got.id != want.id && want.gap > closeCall*want.largest {
				t.Errorf("with %d of %d neurons on the GPU token %d of the text is %q, not %q", hot, c.FF, i,
					plain.Tokenizer().Decode([]int32{got.id}, false), plain.Tokenizer().Decode([]int32{want.id}, false))
			}
		}
		if got := mean(surprises(t, e.Engine, ids)); math.Abs(got-want) > floatSplits {
			t.Errorf("with %d of %d neurons on the GPU the text's mean surprise is %.5f, not %.5f", hot, c.FF, got, want)
		}
	}
}

// split is a model that is partly on GPUs. Its mean surprise may differ from the processor's by this much.
type split struct {
	spec synth.Spec
	mode model.SparseMode
	diff float64
}

// TestSplitsOnGPU: sparse models of every kind give the same results on every split, and each split gives the same
// bytes again.
func TestSplitsOnGPU(t *testing.T) {
	testenv.Thorough(t)
	whole := testenv.Exhaustive(t)
	for _, c := range testenv.Some(t, 2, []split{
		{synth.Spec{Arch: "llama", Type: quant.F16}, model.Off, floatSplits},
		{synth.Spec{Arch: "llama", Type: quant.Q4_0, Magic: "PWRI"}, model.Predict, quantSplits},
		{synth.Spec{Arch: "llama", Type: quant.Q4_0}, model.Exact, quantSplits},
		{synth.Spec{Arch: "falcon", Type: quant.F16, Magic: "PWRI"}, model.Predict, floatSplits},
		{synth.Spec{Arch: "opt", Type: quant.F16, Magic: "PWRI"}, model.Predict, floatSplits},
	}) {
		t.Run(c.spec.Arch+" "+c.mode.String()+" "+c.spec.Type.String(), func(t *testing.T) {
			f := synthtest.Sparse(t, c.spec, 2)
			o := engine.Options{Devices: planner.CPU(planner.Processor{Threads: 1}), Limits: engine.Limits{Context: 128, Sequences: 32}, Neurons: engine.Neurons{Sparse: c.mode}}
			plain, err := engine.Open(t.Context(), f, o)
			if err != nil {
				t.Fatal(err)
			}
			defer plain.Close()
			ids := plain.Tokenizer().Encode("the quick brown fox jumps", true, true)
			want := mean(surprises(t, plain, ids))
			for _, hot := range []int{0, 320, 1024} {
				if hot != 320 && (c.spec.Arch != "llama" || c.mode == model.Off && !whole) {
					continue // a share of the neurons on the GPU covers the cases of all and none
				}
				places := share(2, hot)
				places[1].Attention, places[1].Predictor = hot == 0, hot == 0 // a layer of each kind
				e := openGPU(t, f, o, gigabyte(places))
				first := surprises(t, e.Engine, ids)
				if got := mean(first); math.Abs(got-want) > c.diff*want {
					t.Errorf("with %d neurons on the GPU the mean surprise is %.5f, not %.5f", hot, got, want)
				}
				if again := surprises(t, e.Engine, ids); !slices.Equal(again, first) {
					t.Errorf("with %d neurons on the GPU another run gives other bytes", hot)
				}
			}
		})
	}
}

// eager makes experts move to the GPU as soon as they are used more than others.
func eager() hybrid.Slots {
	tuning := residency.Tuned()
	tuning.Doubt = 0
	return hybrid.Slots{Speeds: residency.Speeds{RAM: 1, GPU: 10, Bus: 100}, Tuning: tuning, AtOnce: true}
}

// TestExpertsOnGPU: a quantised model with experts gives the same text on the CPU and with layers split by expert, and
// gives a text the same likelihood. Package vulkan tests other budgets and all families.
func TestExpertsOnGPU(t *testing.T) {
	testenv.Thorough(t)
	f := synthtest.Sparse(t, synth.Spec{Arch: "qwen2moe", Type: quant.Q4_0, Experts: 16, Used: 4, FF: 64}, 2)
	o := engine.Options{Devices: planner.CPU(planner.Processor{Threads: 1}), Limits: engine.Limits{Context: 128, Sequences: 64}}
	plain, err := engine.Open(t.Context(), f, o)
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	ids := plain.Tokenizer().Encode("the quick brown fox jumps over a lazy dog and another", true, true)
	want, choices := mean(surprises(t, plain, ids)), likeliest(t, plain, ids)
	for _, held := range []int{5, -3, -12} { // negative: slots with experts that follow the text
		slots := held < 0
		held = max(held, -held)
		places := share(2, held)
		places[1].Attention = held > 5
		places[0].Slots, places[1].Slots = slots, slots
		plan, o := gigabyte(places), o
		if slots {
			o.UBatch, o.Sparse = 1, model.Off // in mode exact experts stay where they are
			plan.GPUs[0].Slots = eager()
			plan.GPUs[0].Slots.AtOnce = held < 12 // otherwise a goroutine fills the slots
		}
		e := openGPU(t, f, o, plan)
		for i, got := range likeliest(t, e.Engine, ids) {
			if want := choices[i]; got.id != want.id && want.gap > closeCall*want.largest {
				t.Errorf("with %d experts on the GPU the likeliest token behind token %d is %d, not %d", held, i, got.id, want.id)
			}
		}
		if use := e.SlotUse(); plan.GPUs[0].Slots.AtOnce != (use.Promotions > 0) && held < 12 || slots != (use.Hits > 0) || slots != (use.Misses > 0) {
			t.Errorf("with %d experts on the GPU, slots %v: %+v", held, slots, use)
		}
		if got := mean(surprises(t, e.Engine, ids)); math.Abs(got-want) > quantSplits*want {
			t.Errorf("with %d experts on the GPU the text's mean surprise is %.5f, not %.5f", held, got, want)
		}
	}
}

// TestExpertUseByRequest: each of several concurrent requests counts its own tokens' uses of experts, and their sum is
// the engine's count.
func TestExpertUseByRequest(t *testing.T) {
	testenv.Thorough(t)
	const layers, used, each = 2, 4, 12
	f := synthtest.Sparse(t, synth.Spec{Arch: "qwen2moe", Type: quant.Q4_0, Experts: 16, Used: used, FF: 64}, layers)
	places := share(layers, 6)
	places[0].Slots, places[1].Slots = true, true
	plan := gigabyte(places)
	plan.GPUs[0].Slots = eager()
	e := openGPU(t, f, engine.Options{Limits: engine.Limits{Context: 128, Sequences: 4}, Neurons: engine.Neurons{Sparse: model.Off}}, plan)
	before := e.SlotUse()
	rng := rand.New(rand.NewPCG(3, 0))
	prompts := [][]int32{randomTokens(rng, 5), randomTokens(rng, 40)}
	results := make([]engine.Result, len(prompts))
	var group sync.WaitGroup
	for i, p := range prompts {
		group.Go(func() { _, results[i] = greedy(t, e.Engine, p, each) })
	}
	group.Wait()
	var sum compute.ExpertUse
	for i, r := range results {
		rows, last := int64(r.PromptTokens+r.Tokens-1), int64(r.Tokens) // the last layer computes only rows that need logits
		if r.Experts.Hits+r.Experts.Misses != (rows*(layers-1)+last)*used {
			t.Errorf("request %d: %+v of experts by %d tokens, of which %d have logits", i, r.Experts, rows, last)
		}
		sum.Add(r.Experts)
	}
	if all := e.SlotUse().Since(before); sum != all.ExpertUse || sum.Hits == 0 || sum.Misses == 0 {
		t.Errorf("requests count %+v, the engine %+v", sum, all)
	}
}

// sameNeurons is the share of neurons so close to zero that another order of sums changes whether they are active.
const sameNeurons = 0.01

// streamedText has more tokens than compute.ShortPrompt. Shorter prompts are computed like single tokens, and nothing
// is sent for them.
const streamedText = "the quick brown fox jumps over a lazy dog and another one that sleeps near it, while the hen and the cat look at them from a roof"

// TestStreamedPrompts: a prompt for which cold neurons are sent to the GPU gives the same result as without sending,
// the same bytes every time, and the same counts of neurons.
func TestStreamedPrompts(t *testing.T) {
	testenv.Thorough(t)
	type streamed struct {
		spec   synth.Spec
		mode   model.SparseMode
		mapped bool // --no-repack
		diff   float64
	}
	whole := testenv.Exhaustive(t)
	for _, c := range testenv.Some(t, 3, []streamed{
		{synth.Spec{Arch: "llama", Type: quant.F16}, model.Off, false, floatSplits},
		{synth.Spec{Arch: "llama", Type: quant.Q8_0}, model.Exact, false, quantSplits},
		{synth.Spec{Arch: "qwen2moe", Type: quant.Q4_0, Experts: 32, Used: 4, FF: 64}, model.Off, false, quantSplits},
		{synth.Spec{Arch: "llama", Type: quant.Q4_0, Magic: "PWRI"}, model.Predict, false, quantSplits},
		{synth.Spec{Arch: "opt", Type: quant.F16, Magic: "PWRI"}, model.Predict, false, floatSplits},
		{synth.Spec{Arch: "llama", Type: quant.Q4_K}, model.Off, false, quantSplits},
		{synth.Spec{Arch: "llama", Type: quant.IQ3_S}, model.Exact, false, quantSplits},
		{synth.Spec{Arch: "llama", Type: quant.Q4_0}, model.Exact, true, quantSplits},
	}) {
		t.Run(fmt.Sprintf("%s %s %s %v", c.spec.Arch, c.mode, c.spec.Type, c.mapped), func(t *testing.T) {
			f := synthtest.Sparse(t, c.spec, 2)
			o := engine.Options{Devices: planner.CPU(planner.Processor{Threads: 1}), Limits: engine.Limits{Context: 128, Sequences: 64, Mapped: c.mapped}, Neurons: engine.Neurons{Sparse: c.mode}}
			some := 512
			if c.spec.Experts > 0 {
				some = 12
			}
			for _, hot := range []int{0, some} {
				if hot == 0 && c.spec.Type != quant.F16 && c.spec.Type != quant.Q4_0 {
					continue // other types take the same path
				}
				if !whole && (hot == 0) != (c.spec.Type == quant.F16) {
					continue
				}
				places := share(2, hot)
				places[1].Attention, places[1].Predictor = hot > 0, hot > 0
				plan := gigabyte(places)
				plain := openGPU(t, f, o, plan)
				ids := plain.Tokenizer().Encode(streamedText, true, true)
				if len(ids) < compute.ShortPrompt {
					t.Fatalf("a prompt of %d tokens is a short one", len(ids))
				}
				other := surprises(t, plain.Engine, ids)
				want := mean(other)
				plan.GPUs[0].Stream = hybrid.Streaming{Tokens: 9, Experts: 9, Bytes: 300 << 10, Pages: 1 << 20}
				e := openGPU(t, f, o, plan)
				first := surprises(t, e.Engine, ids)
				if got := mean(first); math.Abs(got-want) > c.diff*want {
					t.Errorf("with %d neurons on the GPU the mean surprise is %.5f where the others are sent, not %.5f", hot, got, want)
				}
				if slices.Equal(first, other) { // sums in the same order: nothing was sent
					t.Errorf("with %d neurons on the GPU the same bytes where the others are sent", hot)
				}
				for l, u := range e.Neurons() {
					w := plain.Neurons()[l]
					if math.Abs(float64(u.Active-w.Active)) > sameNeurons*float64(w.Active) || u.Tokens != w.Tokens {
						t.Errorf("with %d neurons on the GPU layer %d counted %+v where the others are sent, not %+v", hot, l, u, w)
					}
				}
				if again := surprises(t, e.Engine, ids); !slices.Equal(again, first) {
					t.Errorf("with %d neurons on the GPU another run gives other bytes", hot)
				}
			}
		})
	}
}

// TestPromptsInRAM: a model has its last layers in RAM, or all of them and the head, and sends their weights to the GPU
// for prompts. Its prompts give the CPU's result, and the same bytes every time, also after cached positions.
func TestPromptsInRAM(t *testing.T) {
	testenv.Thorough(t)
	const layers = 4
	turns := testenv.Turns(t, 0, 3, 1, 2) // layers on the GPU
	for i, c := range testenv.Some(t, 3, []split{
		{synth.Spec{Arch: "llama", Type: quant.Q4_0}, model.Off, quantSplits},
		{synth.Spec{Arch: "llama", Type: quant.F16}, model.Off, floatSplits},
		{synth.Spec{Arch: "qwen2", Type: quant.Q8_0}, model.Exact, quantSplits}, // products have biases
		{synth.Spec{Arch: "gemma2", Type: quant.Q4_K}, model.Off, quantSplits},  // windows
		{synth.Spec{Arch: "deepseek2", Type: quant.Q8_0}, model.Off, quantSplits},
		{synth.Spec{Arch: "llama", Type: quant.Q4_0, Magic: "PWRI"}, model.Predict, quantSplits},
	}) {
		t.Run(fmt.Sprintf("%s %s %s", c.spec.Arch, c.mode, c.spec.Type), func(t *testing.T) {
			f := synthtest.Sparse(t, c.spec, layers)
			o := engine.Options{Devices: planner.CPU(planner.Processor{Threads: 1}), Limits: engine.Limits{Context: 128, UBatch: 16, Sequences: 64}, Neurons: engine.Neurons{Sparse: c.mode}}
			plain, err := engine.Open(t.Context(), f, o)
			if err != nil {
				t.Fatal(err)
			}
			defer plain.Close()
			ids := plain.Tokenizer().Encode(strings.Repeat("the quick brown fox jumps over a lazy dog and another ", 2), true, true)
			ids = ids[:42] // three steps; the weights are sent in the last one, too
			want := mean(surprises(t, plain, ids))
			for _, there := range turns(i) {
				places := share(layers, plain.Config().FF)
				for l := there; l < layers; l++ {
					places[l] = compute.Place{}
				}
				places[layers].Attention = there > 0
				plan := gigabyte(places)
				plan.GPUs[0].Stream = hybrid.Streaming{Tokens: 9, Bytes: 90 << 10, Pages: 1 << 20} // matrices are sent in pieces
				e := openGPU(t, f, o, plan)
				first := surprises(t, e.Engine, ids)
				if got := mean(first); math.Abs(got-want) > c.diff*want {
					t.Errorf("with %d layers on the GPU the mean surprise is %.5f, not %.5f", there, got, want)
				}
				if again := surprises(t, e.Engine, ids); !slices.Equal(again, first) {
					t.Errorf("with %d layers on the GPU another run gives other bytes", there)
				}
			}
		})
	}
}

// TestTooSmall: loading refuses a plan larger than the budget, whichever part does not fit, and reports the figures.
// With enough room the model stays within the budget.
func TestTooSmall(t *testing.T) {
	testenv.Thorough(t)
	f := synthtest.Sparse(t, synth.Spec{Arch: "llama", Type: quant.Q4_0}, 2)
	const step = 1 << 20
	for budget := int64(1 << 20); ; budget += step {
		devices := planner.Fixed(&planner.Plan{
			Places: share(2, 512),
			GPUs:   []planner.GPU{{Device: vulkan.Software, Budget: budget, Stream: hybrid.Streaming{Tokens: 32, Bytes: 100 << 10, Pages: 1 << 20}}},
		}, planner.Options{Processor: planner.Processor{Threads: 1}})
		e, err := engine.Open(t.Context(), f, engine.Options{Devices: devices, Limits: engine.Limits{Context: 128, UBatch: 64}, Neurons: engine.Neurons{Sparse: model.Exact}})
		if errors.Is(err, vulkan.ErrNone) {
			testenv.Missing(t, "vulkan", err.Error())
		}
		if err == nil {
			use := devices.Usage()[0]
			e.Close()
			if use.Used > budget || use.Used < budget-step {
				t.Errorf("%d bytes are in use of a budget of %d", use.Used, budget)
			}
			return
		}
		var full *vulkan.OutOfMemory
		var gpu *hybrid.GPUError
		if !errors.As(err, &full) || !errors.As(err, &gpu) || full.Budget != budget || full.Used > budget {
			t.Fatalf("within %d bytes: error %v", budget, err)
		}
		t.Log(err)
	}
}

// TestTrace: a token on GPU and CPU takes one submission and one wait per layer, and one of each for the head.
func TestTrace(t *testing.T) {
	testenv.Thorough(t)
	const layers = 4
	log := trace.New()
	e := openGPU(t, synthtest.Sparse(t, synth.Spec{Arch: "llama", Type: quant.Q4_0, Magic: "PWRI"}, layers), engine.Options{Limits: engine.Limits{Context: 64}, Trace: log}, gigabyte(share(layers, 320)))
	greedy(t, e.Engine, []int32{1, 40, 300}, 4)
	count := within(t, log)
	if count["submit"] != layers+1 || count["wait"] != layers+1 || count["blk.3.ffn_up.weight"] != 1 || count["token"] != 1 {
		t.Errorf("within a token: %v", count)
	}
}
