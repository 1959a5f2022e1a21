package engine_test

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/engine"
	"github.com/powerinfer-go/powerinfer/internal/model"
	"github.com/powerinfer-go/powerinfer/internal/planner"
	"github.com/powerinfer-go/powerinfer/internal/quant"
	"github.com/powerinfer-go/powerinfer/internal/sample"
	"github.com/powerinfer-go/powerinfer/internal/synth"
	"github.com/powerinfer-go/powerinfer/internal/synth/synthtest"
)

// sparseModels are small models, one for each way to compute a feed-forward layer.
var sparseModels = []struct {
	mode model.SparseMode
	spec synth.Spec
}{
	{model.Off, synth.Spec{Arch: "llama", Type: quant.Q4_0}},
	{model.Exact, synth.Spec{Arch: "llama", Type: quant.Q4_0}},
	{model.Exact, synth.Spec{Arch: "falcon", Type: quant.F16}},
	{model.Predict, synth.Spec{Arch: "llama", Type: quant.Q4_0, Magic: "PWRI"}},
	{model.Predict, synth.Spec{Arch: "bamboo", Type: quant.F16, Magic: "PWRI"}},
	{model.Predict, synth.Spec{Arch: "opt", Type: quant.Q4_0, Magic: "PWRI"}},
}

func openSynthetic(t *testing.T, s synth.Spec, o engine.Options) *engine.Engine {
	t.Helper()
	f := synthtest.Sparse(t, s, 2)
	e, err := engine.Open(t.Context(), f, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}

// TestThreads: a prompt gives the same text with every number of threads.
func TestThreads(t *testing.T) {
	for _, m := range sparseModels {
		t.Run(fmt.Sprintf("%s %s %s", m.mode, m.spec.Arch, m.spec.Type), func(t *testing.T) {
			var want []int32
			for threads := 1; threads <= 4; threads++ {
				e := openSynthetic(t, m.spec, engine.Options{Devices: planner.CPU(planner.Processor{Threads: threads}), Limits: engine.Limits{Context: 128}, Neurons: engine.Neurons{Sparse: m.mode}})
				prompt := e.Tokenizer().Encode("the quick brown fox jumps over a lazy dog", true, true)
				got, _ := greedy(t, e, prompt, 40)
				if want == nil {
					want = got
				}
				if !slices.Equal(got, want) {
					t.Errorf("%d threads give %v, one gives %v", threads, got, want)
				}
			}
		})
	}
}

// TestNoAllocationByNeuron: a generated token allocates nothing in any mode and with any set of neurons.
func TestNoAllocationByNeuron(t *testing.T) {
	for _, m := range sparseModels {
		t.Run(fmt.Sprintf("%s %s %s", m.mode, m.spec.Arch, m.spec.Type), func(t *testing.T) {
			e := openSynthetic(t, m.spec, engine.Options{Devices: planner.CPU(planner.Processor{Threads: 2}), Limits: engine.Limits{Context: 512}, Neurons: engine.Neurons{Sparse: m.mode}})
			s := e.NewSequence()
			token, always, ignore := []int32{0}, func(int) bool { return true }, func(int, []float32) {}
			step := func() {
				token[0] = (token[0] + 37) % 512
				if err := e.Evaluate(s, token, always, ignore); err != nil {
					t.Fatal(err)
				}
			}
			for range 200 { // past the growth of scratch, also to the largest of varying sets
				step()
			}
			if n := testing.AllocsPerRun(100, step); n > 0 {
				t.Errorf("%g allocations a token", n)
			}
		})
	}
}

// said is the output of a request: its tokens and the exact probabilities.
type said struct {
	ids   []int32
	probs []uint32
}

// ask generates n tokens greedily.
func ask(t *testing.T, e *engine.Engine, prompt []int32, n int) (s said) {
	t.Helper()
	return askReusing(t, e, prompt, n, engine.ReuseSame)
}

// askReusing is ask with a choice of reuse.
func askReusing(t *testing.T, e *engine.Engine, prompt []int32, n int, reuse engine.Reuse) (s said) {
	t.Helper()
	o := sample.DefaultOptions()
	o.Temperature = 0
	sampler, err := sample.New(o, e.Config().Vocab)
	if err != nil {
		t.Error(err)
		return s
	}
	_, err = e.Generate(context.Background(), engine.Request{Prompt: prompt, Max: n, Sampler: sampler, IgnoreEOG: true, Logprobs: true, Reuse: reuse}, func(tok engine.Token) bool {
		s.ids, s.probs = append(s.ids, tok.ID), append(s.probs, math.Float32bits(tok.Logprob))
		return true
	})
	if err != nil {
		t.Error(err)
	}
	return s
}

// TestCompany: a request gives the same bytes alone and among others, and however its prompt is cut.
func TestCompany(t *testing.T) {
	for _, m := range sparseModels {
		t.Run(fmt.Sprintf("%s %s %s", m.mode, m.spec.Arch, m.spec.Type), func(t *testing.T) {
			text := "the quick brown fox jumps over a lazy dog and another one and then the dog looks at the fox and the fox at the dog "
			lone := openSynthetic(t, m.spec, engine.Options{Devices: planner.CPU(planner.Processor{Threads: 2}), Limits: engine.Limits{Context: 512}, Neurons: engine.Neurons{Sparse: m.mode}})
			ids := lone.Tokenizer().Encode(text+text+text, true, true)
			var prompts [][]int32
			var want []said
			for _, n := range []int{1, 9, 40, len(ids)} {
				prompts = append(prompts, ids[:min(n, len(ids))])
			}
			for _, p := range prompts {
				want = append(want, ask(t, lone, p, 12))
			}
			for _, ubatch := range []int{0, 7} {
				e := openSynthetic(t, m.spec, engine.Options{Devices: planner.CPU(planner.Processor{Threads: 1}), Limits: engine.Limits{Context: 1024, UBatch: ubatch, Sequences: 3}, Neurons: engine.Neurons{Sparse: m.mode}})
				var group sync.WaitGroup
				for range 3 {
					for i, p := range prompts {
						group.Go(func() {
							if got := ask(t, e, p, 12); !slices.Equal(got.ids, want[i].ids) || !slices.Equal(got.probs, want[i].probs) {
								t.Errorf("-ub %d: a prompt of %d tokens is continued with %v among others, with %v alone, at %x, not %x", ubatch, len(p), got.ids, want[i].ids, got.probs, want[i].probs)
							}
						})
					}
				}
				group.Wait()
			}
		})
	}
}
