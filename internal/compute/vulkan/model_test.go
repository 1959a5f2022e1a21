package vulkan

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/powerinfer-go/powerinfer/demo"
	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/compute/cpu"
	"github.com/powerinfer-go/powerinfer/internal/convert/lineage"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/model"
	"github.com/powerinfer-go/powerinfer/internal/quant"
	"github.com/powerinfer-go/powerinfer/internal/synth"
	"github.com/powerinfer-go/powerinfer/internal/synth/synthtest"
	"github.com/powerinfer-go/powerinfer/internal/testenv"
)

// Tolerances of logits, as shares of the largest one in size.
const (
	floatLogits = 1e-3 // keys, values and their rounding: sums of two layers in another order
	quantLogits = 3e-2 // activations are rounded to eight bits on both sides, at scales of their own
)

// quickFamilies are those that a quick run plays: with attention, recurrent, with experts.
var quickFamilies = []string{"llama", "mamba2", "qwen3moe"}

func onCPU(t *testing.T) compute.Device {
	t.Helper()
	d, err := cpu.New(cpu.Options{Threads: 2, Floats: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

func loadModel(t *testing.T, f *gguf.File, d compute.Device, mode model.SparseMode) *model.Model {
	t.Helper()
	m, err := model.Load(t.Context(), f, d, model.Options{Batch: 16, Outputs: 16, Cache: compute.CacheSpec{Pages: 6}, Neurons: model.Neurons{Sparse: mode}})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// sequence holds the place of a sequence's next tokens.
type sequence struct {
	m     *model.Model
	pages []int32
	at    int

	decode bool // steps' rows are single tokens of running sequences, not parts of prompts
}

// step evaluates tokens and returns the logits of each.
func (s *sequence) step(t *testing.T, tokens []int32) (logits [][]float32) {
	t.Helper()
	p := compute.Params{Tokens: tokens, Pages: [][]int32{s.pages}, Seq: make([]int32, len(tokens))}
	for i := range tokens {
		p.Pos = append(p.Pos, int32(s.at+i))
		p.Out = append(p.Out, int32(i))
	}
	if s.decode {
		p.Decode = len(tokens)
	}
	if err := s.m.Forward(&p); err != nil {
		t.Fatal(err)
	}
	s.at += len(tokens)
	for i := range tokens {
		logits = append(logits, slices.Clone(readable(s.m.Logits(i))))
	}
	return logits
}

// closeTo reports whether got is want within a share of its largest number in size.
func closeTo(got, want []float32, share float64) error {
	top := 0.0
	for _, v := range want {
		top = max(top, math.Abs(float64(v)))
	}
	for i, v := range want {
		if e := math.Abs(float64(got[i]) - float64(v)); !(e <= share*top) {
			return fmt.Errorf("logit %d is %g, want %g within %.3g", i, got[i], v, share*top)
		}
	}
	return nil
}

// TestModels: every family and mode has the CPU's logits, in prompts and token by token, from recordings that are
// replayed. Types and modes of a few families are played in exhaustive runs.
func TestModels(t *testing.T) {
	d := lent(t)
	play := func(name string, spec synth.Spec, mode model.SparseMode, tolerance float64) {
		t.Run(fmt.Sprintf("%s %s/%s", name, spec.Type, mode), func(t *testing.T) {
			spec.Layers, spec.Embd, spec.FF, spec.Heads, spec.Sparsity, spec.PowerLaw, spec.Seed = max(2, spec.Layers), 256, 512, 4, 0.9, 1, 11
			f := synthtest.OnDisk(t, spec)
			defer d.reset()
			pages := []int32{5, 0, 3}
			decode := mode == model.Predict // by halves, as prompts go, a predictor's close calls are others
			here, there := &sequence{m: loadModel(t, f, d, mode), pages: pages, decode: decode}, &sequence{m: loadModel(t, f, onCPU(t), mode), pages: pages, decode: decode}
			for round, n := range []int{3, 1, 1, 9, 1, 3} {
				tokens := make([]int32, n)
				for i := range tokens {
					tokens[i] = int32(7*round + 3*i + 1)
				}
				got, want := here.step(t, tokens), there.step(t, tokens)
				for i := range want {
					if err := closeTo(got[i], want[i], tolerance); err != nil {
						t.Fatalf("step %d of %d tokens, token %d: %v", round, n, i, err)
					}
				}
			}
			if len(d.segments) != 3 {
				t.Errorf("%d recordings of steps of three shapes", len(d.segments))
			}
			shared.messages.check(t)
		})
	}
	quick := testenv.Quick(t)
	for _, f := range lineage.All() {
		if f.Headless || f.Experts != nil && !f.Experts.Optional { // these come last
			continue
		}
		if quick && !slices.Contains(quickFamilies, f.Name) {
			continue
		}
		play(f.Name, synth.Spec{Arch: f.Name, Type: quant.F32}, model.Off, floatLogits)
	}
	play("llama", synth.Spec{Arch: "llama", Type: quant.Q4_0}, model.Off, quantLogits)
	if !quick {
		play("llama with predictors", synth.Spec{Arch: "llama", Type: quant.F16, Magic: "PWRI"}, model.Predict, floatLogits)
	}
	t.Run("experts", func(t *testing.T) { expertFamilies(t, d) })
	if !testenv.Exhaustive(t) {
		return
	}
	play("qwen2", synth.Spec{Arch: "qwen2", Type: quant.Q6_K}, model.Off, quantLogits)
	play("qwen3", synth.Spec{Arch: "qwen3", Type: quant.IQ2_XS}, model.Off, quantLogits)
	play("llama", synth.Spec{Arch: "llama", Type: quant.NVFP4}, model.Exact, quantLogits)
	play("bamboo", synth.Spec{Arch: "bamboo", Type: quant.Q8_0}, model.Exact, quantLogits)
	play("arcee", synth.Spec{Arch: "arcee", Type: quant.Q4_0}, model.Exact, quantLogits)
	play("gemma4 with shared layers", synth.Spec{Arch: "gemma4", Type: quant.F32, Layers: 5}, model.Off, floatLogits)
	play("gemma4 with experts", synth.Spec{Arch: "gemma4", Type: quant.F32, Layers: 6, Experts: 8}, model.Off, floatLogits)
	window := []gguf.KV{{Key: "phi3.attention.sliding_window", Value: uint32(7)}}
	play("phi3 with a window", synth.Spec{Arch: "phi3", Type: quant.Q4_0, Keys: window}, model.Exact, quantLogits)
	window = []gguf.KV{{Key: "gemma2.attention.sliding_window", Value: uint32(7)}}
	play("gemma2 with a window", synth.Spec{Arch: "gemma2", Type: quant.Q4_0, Keys: window}, model.Exact, quantLogits)
	play("nemotron", synth.Spec{Arch: "nemotron", Type: quant.F16, Rope: synth.Rope{RopeDims: 32}}, model.Exact, floatLogits)
	for _, arch := range []string{"falcon", "opt"} {
		play(arch+" with predictors", synth.Spec{Arch: arch, Type: quant.F16, Magic: "PWRI"}, model.Predict, floatLogits)
	}
}

// TestEncoders: of every family of embeddings the states are the CPU's, of a text alone and of several in a step.
func TestEncoders(t *testing.T) {
	d := lent(t)
	quick := testenv.Quick(t)
	for _, family := range lineage.All() {
		if !family.Headless || quick && family.Name != "bert" {
			continue
		}
		t.Run(family.Name, func(t *testing.T) {
			spec := synth.Spec{Arch: family.Name, Type: quant.F32, Layers: 4, Embd: 128, FF: 256, Heads: 4, Seed: 11}
			if family.Window {
				spec.Keys = []gguf.KV{{Key: family.Name + ".attention.sliding_window", Value: uint32(6)}}
			}
			f := synthtest.OnDisk(t, spec)
			defer d.reset()
			here, there := loadModel(t, f, d, model.Off), loadModel(t, f, onCPU(t), model.Off)
			for _, texts := range [][]int{{11}, {1, 9, 3}, {11}} {
				want := states(t, there, texts)
				for i, got := range states(t, here, texts) {
					if err := closeTo(got, want[i], floatLogits); err != nil {
						t.Fatalf("texts of %v tokens, row %d: %v", texts, i, err)
					}
				}
			}
			shared.messages.check(t)
		})
	}
}

// states returns the hidden states of texts with these numbers of tokens, which share a step.
func states(t *testing.T, m *model.Model, texts []int) (all [][]float32) {
	t.Helper()
	var p compute.Params
	for i, n := range texts {
		p.Pages = append(p.Pages, []int32{int32(5 - i)})
		for pos := range n {
			p.Tokens, p.Pos, p.Seq = append(p.Tokens, int32(3*pos+7*i+1)), append(p.Pos, int32(pos)), append(p.Seq, int32(i))
		}
	}
	if err := m.ForwardHidden(&p); err != nil {
		t.Fatal(err)
	}
	for i := range p.Tokens {
		all = append(all, slices.Clone(readable(m.Hidden(i))))
	}
	return all
}

// TestDemoText: the demo generates the same text on the CPU and here, token by token, as long as its two best tokens
// differ by more than rounding.
func TestDemoText(t *testing.T) {
	if !testenv.Exhaustive(t) { // as gpu-check is
		t.Skip("the engine's TestDemoOnGPU has longer texts")
	}
	d := lent(t)
	f, err := gguf.Parse(demo.Name, demo.Model())
	if err != nil {
		t.Fatal(err)
	}
	pages := []int32{1, 4, 2}
	here, there := &sequence{m: loadModel(t, f, d, model.Exact), pages: pages}, &sequence{m: loadModel(t, f, onCPU(t), model.Exact), pages: pages}
	tokens := []int32{1, 20, 300, 45}
	const length = 24
	for range length {
		got, want := here.step(t, tokens), there.step(t, tokens)
		last := len(want) - 1
		if err := closeTo(got[last], want[last], floatLogits); err != nil {
			t.Fatal(err)
		}
		best, gap := top(want[last])
		if other, _ := top(got[last]); other != best && float64(gap) > 2*floatLogits*float64(want[last][best]) {
			t.Fatalf("position %d: token %d, and the CPU says %d with %g to the next", here.at, other, best, gap)
		}
		tokens = []int32{int32(best)}
	}
}

// top returns the largest logit's index, and how far it is from the next.
func top(logits []float32) (best int, gap float32) {
	for i, v := range logits {
		if v > logits[best] {
			best = i
		}
	}
	gap = float32(math.Inf(1))
	for i, v := range logits {
		if i != best {
			gap = min(gap, logits[best]-v)
		}
	}
	return best, gap
}
