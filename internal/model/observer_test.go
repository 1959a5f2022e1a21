package model_test

import (
	"slices"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/compute/cpu"
	"github.com/powerinfer-go/powerinfer/internal/compute/ref"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/model"
	"github.com/powerinfer-go/powerinfer/internal/quant"
	"github.com/powerinfer-go/powerinfer/internal/synth"
	"github.com/powerinfer-go/powerinfer/internal/synth/synthtest"
)

// expertObserver adds up what it is shown, by layer.
type expertObserver struct {
	chosen [][]int32
	active [][]uint32
}

func (o *expertObserver) FeedForward(int, model.FFNStep) {
	panic("a layer with experts is shown as one without")
}

func (o *expertObserver) Experts(layer int, s model.ExpertStep) {
	o.chosen[layer] = append(o.chosen[layer], s.Chosen...)
	if o.active[layer] == nil {
		o.active[layer] = make([]uint32, len(s.Active))
	}
	for i, n := range s.Active {
		o.active[layer][i] += n
	}
}

// watched evaluates tokens in steps, and returns what an observer saw.
func watched(t *testing.T, f *gguf.File, dev compute.Device, tokens []int32) *expertObserver {
	t.Helper()
	t.Cleanup(func() { dev.Close() })
	o := &expertObserver{make([][]int32, 2), make([][]uint32, 2)}
	m, err := model.Load(t.Context(), f, dev, model.Options{Observer: o, Batch: 32, Outputs: 32, Cache: compute.CacheSpec{Pages: 8}})
	if err != nil {
		t.Fatal(err)
	}
	evaluate(t, m, tokens, 16, 1)
	return o
}

// TestExpertObserver: choices and active neurons are those that the scalar device sees, and follow the law that the
// model was made by.
func TestExpertObserver(t *testing.T) {
	for _, c := range []struct{ arch, activation string }{{"qwen3moe", "relu"}, {"smallthinker", "relu"}, {"deepseek2", "silu"}} {
		s := synth.Spec{
			Arch: c.arch, Layers: 2, Embd: 128, FF: 64, Heads: 4, Experts: 8, Used: 2, Mixing: synth.Mixing{ExpertLaw: 1}, Type: quant.F32, Activation: c.activation, Sparsity: 0.8, PowerLaw: 0.5, Seed: 3,
		}
		if c.activation == "silu" {
			s.Sparsity = 0
		}
		f := synthtest.File(t, s)
		var tokens []int32
		for i := range 64 {
			tokens = append(tokens, int32(i*37%400+20))
		}
		dev, err := cpu.New(cpu.Options{Threads: 2})
		if err != nil {
			t.Fatal(err)
		}
		o, want := watched(t, f, dev, tokens), watched(t, f, ref.New(), tokens)
		for l := range o.chosen {
			if len(o.chosen[l]) != 2*len(tokens) || !slices.Equal(o.chosen[l], want.chosen[l]) || !slices.Equal(o.active[l], want.active[l]) {
				t.Errorf("%s, layer %d: %d choices %v; the scalar device's %v", c.arch, l, len(o.chosen[l]), o.chosen[l], want.chosen[l])
			}
			if (len(o.active[l]) == 0) != (c.activation == "silu") {
				t.Errorf("%s, layer %d: %d neurons counted", c.arch, l, len(o.active[l]))
			}
			active := 0
			for _, n := range o.active[l] {
				active += int(n)
			}
			if share := float64(active) / float64(len(o.chosen[l])*s.FF); c.activation != "silu" && (share < 0.1 || share > 0.3) {
				t.Errorf("%s, layer %d: %.0f %% of neurons were active, made for 20 %%", c.arch, l, 100*share)
			}
			ranks, share, err := synth.ExpertRanks(s, l)
			if err != nil {
				t.Fatal(err)
			}
			uses := make([]float64, 8)
			for _, e := range o.chosen[l] {
				uses[ranks[e]] += 1 / float64(len(tokens))
			}
			// 64 tokens: a share's deviation is at most 0.063, and choosing just two of eight bends the law.
			for r := range uses {
				if uses[r] < share[r]-0.25 || uses[r] > share[r]+0.25 {
					t.Errorf("%s, layer %d: rank %d is used by %.2f of tokens, made for %.2f: %.2f of %.2f", c.arch, l, r, uses[r], share[r], uses, share)
				}
			}
		}
	}
}
