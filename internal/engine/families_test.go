package engine_test

import (
	"bytes"
	"flag"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/engine"
	"github.com/powerinfer-go/powerinfer/internal/family"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/planner"
	"github.com/powerinfer-go/powerinfer/internal/quant"
	"github.com/powerinfer-go/powerinfer/internal/synth"
	"github.com/powerinfer-go/powerinfer/internal/synth/synthtest"
	"github.com/powerinfer-go/powerinfer/internal/testenv"
)

var everyFamily = flag.Bool("every-family", false, "test caches of all families, not of those with several parts alone")

// stateful are the families with more than keys and values per position: indexers' keys, blocks of positions, recurrent
// states, latent vectors; and one with windows.
func stateful() []string {
	return strings.Fields("qwen4exp deepseek32 deepseek4 minimax-m3 glm-dsa kimi-linear kimi-k3 qwen3next bailingmoe3 falcon-h1 minimax-01 gemma3n jamba rwkv7 lfm2moe granitehybrid")
}

// layersOf is the number of layers that show all kinds of a family's layers, if more than three.
var layersOf = map[string]int{
	"afmoe": 5, "cohere2": 5, "cohere2moe": 5, "exaone4": 5, "exaone-moe": 5, "gemma3": 7, "gemma3n": 6, "gemma4": 6, "granite_swa": 5, "kimi-k3": 4,
	"laguna": 5, "llama4": 5, "maple": 5, "mellum": 5, "muse-glimmer": 5, "nemotron_h": 5, "nemotron_h_moe": 5, "qwen35": 4, "qwen35moe": 4,
	"qwen3next": 4, "qwen4exp": 4, "smallthinker": 5, "smollm3": 5, "spark2_5": 5,
}

// tinySpec describes a small model of a family.
func tinySpec(arch string) synth.Spec {
	s := synth.Spec{Arch: arch, Type: quant.F32, Layers: max(3, layersOf[arch]), Embd: 64, FF: 64, Heads: 4, KVHeads: 2, HeadDim: 32, Context: 2048, Seed: 5}
	for _, change := range []func(){func() { s.KVHeads = s.Heads }, func() { s.KVHeads, s.HeadDim = 2, s.Embd/s.Heads }, func() { s.KVHeads, s.HeadDim = 0, 0 }} {
		if s.Check() == nil {
			break
		}
		change()
	}
	if arch == "deepseek4" {
		s.Keys = []gguf.KV{{Key: "deepseek4.attention.sliding_window", Value: uint32(40)}}
	}
	return s
}

// TestFamiliesKeep: in every family, continuing from the cache gives the same bytes of logits as computing everything.
// The cache comes from another request, from a file, from a text with wrong drafts, and from a text that filled its
// context.
func TestFamiliesKeep(t *testing.T) {
	names := stateful()
	if *everyFamily {
		names = family.Names()
	}
	for _, arch := range testenv.Few(t, 5, names) {
		t.Run(arch, func(t *testing.T) {
			t.Parallel()
			f := synthtest.File(t, tinySpec(arch))
			keeps(t, 1, func(drafts int) *engine.Engine {
				o := engine.Options{Devices: planner.CPU(planner.Processor{Threads: 1}), Limits: engine.Limits{Context: 1024, UBatch: 64}, Drafts: engine.Drafts{Most: drafts}}
				e, err := engine.Open(t.Context(), f, o)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { e.Close() })
				return e
			})
		})
	}
}

// TestFamiliesKeepOnGPU is TestFamiliesKeep with the cache on a GPU.
func TestFamiliesKeepOnGPU(t *testing.T) {
	testenv.Thorough(t)
	names := testenv.Some(t, 1, stateful()[:4])
	if *everyFamily {
		names = family.Names()
	}
	for _, arch := range names {
		t.Run(arch, func(t *testing.T) {
			spec := tinySpec(arch)
			f := synthtest.File(t, spec)
			keeps(t, 3, func(drafts int) *engine.Engine {
				o := engine.Options{Limits: engine.Limits{Context: 512, UBatch: 32}, Drafts: engine.Drafts{Most: drafts}}
				return openGPU(t, f, o, gigabyte(share(spec.Layers, 1<<20))).Engine
			})
		})
	}
}

// TestFamiliesOnGPU: in every family, a GPU with all layers, or with attention and half of each layer's neurons or
// experts, gives the CPU's results apart from rounding.
func TestFamiliesOnGPU(t *testing.T) {
	testenv.Thorough(t)
	names := testenv.Some(t, 2, stateful())
	if *everyFamily {
		names = family.Names()
	}
	for _, arch := range names {
		t.Run(arch, func(t *testing.T) {
			spec := tinySpec(arch)
			f := synthtest.File(t, spec)
			o := engine.Options{Devices: planner.CPU(planner.Processor{Threads: 1}), Limits: engine.Limits{Context: 128, UBatch: 32}}
			e, err := engine.Open(t.Context(), f, o)
			if err != nil {
				t.Fatal(err)
			}
			defer e.Close()
			c := e.Config()
			if c.Headless {
				t.Skip("it has no logits")
			}
			ids := randomTokens(rand.New(rand.NewPCG(4, 0)), 70)
			want := surprises(t, e, ids)
			half := spec.FF / 2
			if c.Experts.Count > 0 {
				half = c.Experts.Count / 2
			}
			for _, hot := range []int{1 << 20, half} {
				got := surprises(t, openGPU(t, f, o, gigabyte(share(spec.Layers, hot))).Engine, ids)
				worst := 0.0
				for i := range want {
					worst = max(worst, math.Abs(got[i]-want[i]))
				}
				if t.Logf("%d on the GPU: %.2g", hot, worst); !(worst < 0.02) {
					t.Errorf("with %d neurons or experts of each layer on the GPU tokens differ by up to %g", hot, worst)
				}
			}
		})
	}
}

// keeps checks this with texts of 1/small of the usual length.
func keeps(t *testing.T, small int, open func(drafts int) *engine.Engine) {
	t.Helper()
	const tail = 2 * compute.FewTokens // tokens of a text that may have to be evaluated again
	afresh := open(0)
	if c := afresh.Config(); c.Encoder() {
		t.Skip("an encoder keeps nothing")
	}
	rng := rand.New(rand.NewPCG(3, 0))
	ask := func(e *engine.Engine, prompt, answer []int32, r engine.Request) ([]uint64, engine.Result) {
		t.Helper()
		d := &dictation{text: answer, prompt: len(prompt)}
		r.Prompt, r.Max, r.Sampler, r.IgnoreEOG = prompt, len(answer), d, true
		res, err := e.Generate(t.Context(), r, nil)
		if err != nil {
			t.Fatal(err)
		}
		return d.sums, res
	}
	answer := randomTokens(rng, 12/small)
	same := func(what string, e *engine.Engine, prompt []int32, least int) {
		t.Helper()
		want, _ := ask(afresh, prompt, answer, engine.Request{Reuse: engine.ReuseNone})
		got, res := ask(e, prompt, answer, engine.Request{Reuse: engine.ReuseSame})
		if !slices.Equal(got, want) {
			t.Errorf("%s: other logits than afresh, %d of %d positions are reused", what, res.Reused, len(prompt))
		}
		if res.Reused < least {
			t.Errorf("%s: %d of %d positions are reused, want %d", what, res.Reused, len(prompt), least)
		}
	}
	e := open(0)
	text := randomTokens(rng, 203/small)
	same("a question", e, text, 0)
	same("the same question", e, text, len(text)-tail)
	next := slices.Concat(text, randomTokens(rng, 30/small))
	same("a longer one", e, next, len(text)-tail)
	same("an edited one", e, slices.Concat(text[:150/small], randomTokens(rng, 40/small)), 0)

	var file bytes.Buffer
	saved, err := e.Save(t.Context(), &file, next)
	if err != nil || len(saved.Tokens) < len(next)-tail {
		t.Fatalf("%d of %d tokens were saved: %v", len(saved.Tokens), len(next), err)
	}
	restored := open(0)
	restore(t, restored, file.Bytes())
	same("a restored text", restored, next, len(next)-tail)
	same("what goes on after a restored text", restored, slices.Concat(next, randomTokens(rng, 70/small)), len(next)-tail)

	full, further := randomTokens(rng, 90/small), randomTokens(rng, 60/small)
	room := len(full) + len(further)/2
	got, res := ask(e, full, further, engine.Request{Context: room, Shift: &engine.Shift{Keep: 10, Discard: 50 / small}})
	first := room - len(full) + 1 // tokens up to the first without room
	behind := slices.Concat(full, further[:first])
	behind = slices.Concat(behind[:10], behind[10+50/small:])
	if want, _ := ask(afresh, behind, further[first:], engine.Request{Reuse: engine.ReuseNone}); res.Shifts != 1 || !slices.Equal(got[first:], want) {
		t.Errorf("after %d shifts the logits are not those behind what is left", res.Shifts)
	}

	guessedRecurrent(t, afresh, open(4), 40/small)
}
