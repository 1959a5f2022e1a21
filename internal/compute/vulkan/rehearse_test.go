package vulkan

import (
	"maps"
	"slices"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/compute/hybrid"
	"github.com/powerinfer-go/powerinfer/internal/model"
	"github.com/powerinfer-go/powerinfer/internal/quant"
	"github.com/powerinfer-go/powerinfer/internal/synth"
	"github.com/powerinfer-go/powerinfer/internal/synth/synthtest"
)

// TestUsualSteps: a rehearsed model makes no recording for its first usual steps, nor for later ones because their
// logits were read.
func TestUsualSteps(t *testing.T) {
	d := lent(t)
	const layers, most = 1, 8
	f := synthtest.File(t, synth.Spec{Arch: "llama", Type: quant.Q4_0, Layers: layers, Embd: 64, FF: 128, Heads: 2, Seed: 11})
	places := budget{head: true}.places(layers)
	places[0].Bound = 64 // the others are the host's
	m, err := model.Load(t.Context(), f, hybrid.New(kept{d}, onCPU(t).(hybrid.Host), []bool{true}), model.Options{Batch: most, Outputs: most, Cache: compute.CacheSpec{Pages: most}, Places: places})
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Rehearse(); err != nil {
		t.Fatal(err)
	}
	for _, step := range m.UsualSteps() {
		if err := step(); err != nil {
			t.Fatal(err)
		}
	}
	recorded := maps.Clone(d.segments)
	run := func(n, decode, sequences int) {
		p := compute.Params{Decode: decode, Tokens: make([]int32, n), Pos: make([]int32, n), Seq: make([]int32, n)}
		for i := range n {
			if sequences == 1 {
				p.Pos[i] = int32(i)
			} else {
				p.Seq[i] = int32(i)
			}
		}
		for i := range int32(sequences) {
			p.Pages, p.Out = append(p.Pages, []int32{i}), append(p.Out, int32(n-sequences)+i)
		}
		for range 2 {
			if err := m.Forward(&p); err != nil {
				t.Fatal(err)
			}
			for i := range sequences {
				readable(m.Logits(i))
			}
		}
		for seg, s := range d.segments {
			if recorded[seg] != s {
				t.Errorf("a step of %d rows, of which %d are single tokens, of %d sequences recorded %+v", n, decode, sequences, seg)
			}
		}
	}
	for _, n := range slices.Backward([]int{1, 2, 3, 5, most}) {
		run(n, n, n)
		run(n, n, 1)
		run(n, 0, 1)
	}
}
