package engine_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/engine"
	"github.com/powerinfer-go/powerinfer/internal/model"
	"github.com/powerinfer-go/powerinfer/internal/quant"
	"github.com/powerinfer-go/powerinfer/internal/synth"
	"github.com/powerinfer-go/powerinfer/internal/synth/synthtest"
	"github.com/powerinfer-go/powerinfer/internal/testenv"
)

// TestCompanyOnGPU: on a GPU, too, requests give the same bytes alone and among others. Prompts with F16 weights are
// multiplied in F16 from compute.ShortPrompt tokens on, single tokens in order, and 44 sequences are more than any
// product counts as few. The longest prompt is cut wherever the others leave room for it. Some of the neurons are on
// the CPU.
func TestCompanyOnGPU(t *testing.T) {
	testenv.Thorough(t)
	type part struct {
		mode model.SparseMode
		hot  int // neurons on the GPU
		spec synth.Spec
	}
	for _, m := range testenv.Some(t, 2, []part{
		{model.Off, 128, synth.Spec{Arch: "llama", Type: quant.F16}},
		{model.Predict, 64, synth.Spec{Arch: "llama", Type: quant.F16, Magic: "PWRI"}},
		{model.Exact, 128, synth.Spec{Arch: "llama", Type: quant.F16}},
		{model.Exact, 64, synth.Spec{Arch: "llama", Type: quant.F16}},
	}) {
		t.Run(fmt.Sprintf("%s %s %d", m.mode, m.spec.Type, m.hot), func(t *testing.T) {
			const others, tokens = 40, 4
			m.spec.Layers, m.spec.Embd, m.spec.FF, m.spec.Heads, m.spec.Sparsity, m.spec.PowerLaw, m.spec.Seed = 1, 64, 128, 2, 0.9, 1, 5
			f := synthtest.File(t, m.spec)
			e := openGPU(t, f, engine.Options{Limits: engine.Limits{Context: 64 * (others + 10), UBatch: 64, Sequences: 48}, Neurons: engine.Neurons{Sparse: m.mode}}, gigabyte(share(1, m.hot)))
			ids := e.Tokenizer().Encode("the quick brown fox jumps over a lazy dog and another one and then the dog looks at the fox", true, true)
			long := slices.Repeat(ids[1:], 6)[:90]
			prompts := [][]int32{ids[:1], ids[:7], ids, long}
			var want []said
			for _, p := range prompts {
				want = append(want, ask(t, e.Engine, p, tokens))
			}
			var group sync.WaitGroup
			for i := range others {
				group.Go(func() { ask(t, e.Engine, ids[1+i%7:][:1+i%9], tokens) })
			}
			for i, p := range prompts {
				group.Go(func() {
					if got := askReusing(t, e.Engine, p, tokens, engine.ReuseNone); !slices.Equal(got.ids, want[i].ids) || !slices.Equal(got.probs, want[i].probs) {
						t.Errorf("a prompt of %d tokens is continued with %v among others, with %v alone, at %x, not %x", len(p), got.ids, want[i].ids, got.probs, want[i].probs)
					}
				})
			}
			group.Wait()
		})
	}
}
