package model

import (
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/neuron"
)

// TestAutoByCounts: if the file counted that most of its experts' neurons are active, all are computed, unless the user
// says otherwise.
func TestAutoByCounts(t *testing.T) {
	const ff, uses = 10, 100
	layer := func(active uint32) neuron.ExpertLayer {
		y := neuron.ExpertLayer{Uses: [][]uint32{{uses, uses}}, Active: make([][]uint32, 2)}
		for e := range y.Active {
			for range ff {
				y.Active[e] = append(y.Active[e], active)
			}
		}
		return y
	}
	for _, c := range []struct {
		name   string
		act    compute.Nonlinearity
		layers []neuron.ExpertLayer
		want   SparseMode
	}{
		{"a tenth", compute.ReLU, []neuron.ExpertLayer{layer(10), layer(10)}, Exact},
		{"four tenths", compute.ReLU, []neuron.ExpertLayer{layer(40), layer(40)}, Exact},
		{"six tenths", compute.ReLU, []neuron.ExpertLayer{layer(60), layer(60)}, Off},
		{"layers that differ", compute.ReLU, []neuron.ExpertLayer{layer(80), layer(10)}, Exact},
		{"a layer without experts", compute.ReLU, []neuron.ExpertLayer{{}, layer(60)}, Off},
		{"none active", compute.ReLU, []neuron.ExpertLayer{layer(0)}, Exact},
		{"uses alone", compute.ReLU, []neuron.ExpertLayer{{Uses: [][]uint32{{uses, uses}}}}, Exact},
		{"none zero", compute.SiLU, []neuron.ExpertLayer{layer(10)}, Off},
	} {
		config := Config{Act: compute.Activation{Kind: c.act}, ExpertUse: &neuron.Experts{Layers: c.layers}}
		for asked, want := range map[SparseMode]SparseMode{Auto: c.want, Off: Off} {
			if got, err := config.Resolve(asked); err != nil || got != want {
				t.Errorf("%s, asked for %s: %s, want %s (%v)", c.name, asked, got, want, err)
			}
		}
		if c.act == compute.ReLU {
			if got, err := config.Resolve(Exact); err != nil || got != Exact {
				t.Errorf("%s, asked for exact: %s (%v)", c.name, got, err)
			}
		}
	}
}
