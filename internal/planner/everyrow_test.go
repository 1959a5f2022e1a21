package planner

import (
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/compute/vulkan"
	"github.com/powerinfer-go/powerinfer/internal/measure"
	"github.com/powerinfer-go/powerinfer/internal/modelcost"
	"github.com/powerinfer-go/powerinfer/internal/placement"
)

// TestEveryRow: a plan tells its GPU from how many tokens on to read every row, by what was measured of the model's
// type, and expects the speed of that.
func TestEveryRow(t *testing.T) {
	const gpu = 1e12
	all := -1
	even := placement.Rate{Read: gpu}
	speeds := &placement.Speeds{Attention: even, Predictor: even, Dense: even, Sparse: even, EveryRow: placement.Rate{Read: gpu / 10}, Each: 1e-15}
	figures := measure.Machine{
		Cores: 4, RAM: []measure.RAM{{Threads: 4, Stream: 4e10}}, Speeds: speeds,
		GPUs: []measure.GPU{{ID: measure.ID{Name: "a GPU"}, Read: gpu, Speeds: speeds, Neurons: map[string]measure.Neurons{
			"F16": {Sparse: placement.Rate{Read: gpu / 10}, EveryRow: even},
		}}},
	}
	for typ, want := range map[string]struct{ from, seconds float64 }{
		"f16":  {1, (2 + 0.3) / 3}, // 30 % of the neurons are active
		"q4_0": {0, (0.3/0.6 + 2*0.3) / 3},
	} {
		b, err := modelcost.Described("llama-7b,layers=2,type="+typ, modelcost.Options{Context: 1024})
		if err != nil {
			t.Fatal(err)
		}
		p := With(On(figures, []vulkan.Info{{Name: "a GPU", Kind: vulkan.Discrete, Free: 80 << 30}}), b, Options{GPUs: GPUs{Layers: &all}})
		plan, err := p.Plan()
		if err != nil {
			t.Fatal(err)
		}
		at, bytes := plan.Priced[0], float64(b.Model.Layers[0].Units.Size)*float64(b.FF)
		if plan.Places[0].EveryRow != int(want.from) || at.HotTime < 0.9*want.seconds*bytes/gpu || at.HotTime > 1.02*want.seconds*bytes/gpu {
			t.Errorf("%s: every row is read from %d tokens on, want %.0f; neurons take %g s, want %g", typ, plan.Places[0].EveryRow, want.from, at.HotTime, want.seconds*bytes/gpu)
		}
	}
}
