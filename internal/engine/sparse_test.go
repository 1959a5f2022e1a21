package engine_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/engine"
	"github.com/powerinfer-go/powerinfer/internal/model"
	"github.com/powerinfer-go/powerinfer/internal/quant"
	"github.com/powerinfer-go/powerinfer/internal/synth"
	"github.com/powerinfer-go/powerinfer/internal/synth/synthtest"
)

// sparseModels are small models of all ways to compute a feed-forward layer.
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
	e, err := engine.Open(f, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}

// TestThreads: a prompt and what follows it are the same text for every number of threads.
func TestThreads(t *testing.T) {
	for _, m := range sparseModels {
		t.Run(fmt.Sprintf("%s %s %s", m.mode, m.spec.Arch, m.spec.Type), func(t *testing.T) {
			var want []int32
			for threads := 1; threads <= 4; threads++ {
				e := openSynthetic(t, m.spec, engine.Options{Threads: threads, Context: 128, Sparse: m.mode})
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

// TestNoAllocationByNeuron: a generated token allocates nothing in any mode, whatever its set of neurons.
func TestNoAllocationByNeuron(t *testing.T) {
	for _, m := range sparseModels {
		t.Run(fmt.Sprintf("%s %s %s", m.mode, m.spec.Arch, m.spec.Type), func(t *testing.T) {
			e := openSynthetic(t, m.spec, engine.Options{Threads: 2, Context: 512, Sparse: m.mode})
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
