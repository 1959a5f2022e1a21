package placement

import (
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/compute"
)

// TestEveryRow: a plan takes the faster way to compute neurons on a GPU, and says from how many tokens of a step on it
// reads every row. RAM, experts, and GPUs that were not measured with every row never do.
func TestEveryRow(t *testing.T) {
	const neurons, size = 100, 300
	speeds := Speeds{Attention: Rate{Read: 1e9}, Predictor: Rate{Read: 1e9}, Dense: Rate{Read: 1e9}, Sparse: Rate{Read: 25e7}, EveryRow: Rate{Read: 1e9}, Each: 1e-12}
	slow := speeds
	slow.EveryRow = Rate{}
	for name, c := range map[string]struct {
		share  float64 // of the neurons that a token needs
		rows   int64
		speeds *Speeds
		want   int
		bytes  float64 // that take as long at 1 GB/s, of a neuron
	}{
		"few are needed":      {0.01, 200, &speeds, 21, 4 * 3}, // 20, but for what further tokens take: 1200·(1-0.99²⁰) > 200 + 100·(1-0.99²⁰)
		"a tenth is needed":   {0.10, 200, &speeds, 2, 4 * 30}, // 1200·0.19 > 200 + 100·0.19
		"a fifth is needed":   {0.20, 200, &speeds, 1, 200 + 0.2*100},
		"nobody measured it":  {0.20, 200, &slow, 0, 4 * 60},
		"no way to read rows": {0.20, 0, &speeds, 0, 4 * 60},
		"half is needed":      {0.50, 200, &speeds, 1, 200 + 0.5*100},
		"all rows are slower": {0.30, 200, &slow, 0, min(4*90, size)}, // units that are needed this often are read in order
		"ups are not gates":   {0.30, 150, &speeds, 1, 150 + 0.3*150.0},
	} {
		y := Layer{Units: Units{Size: size, Rows: c.rows}}
		for range neurons {
			y.Units.Sometimes = append(y.Units.Sometimes, c.share*size)
		}
		m := Model{Layers: []Layer{y}}
		on := Machine{Stream: 1e9, Rows: 1e9, Speeds: &speeds, GPUs: []GPU{{Read: 1e9, Budget: 1 << 40, Speeds: c.speeds}}}
		all := compute.Place{Split: compute.Split{Bound: neurons}, Attention: true}
		p, err := Price(&m, &on, []compute.Place{all, {Split: compute.Split{Tier: compute.RAM}}})
		if err != nil {
			t.Fatal(err)
		}
		got := p.Layers[0]
		if seconds := c.bytes * neurons / 1e9; got.EveryRow != c.want || got.HotTime < 0.999*seconds || got.HotTime > 1.001*seconds {
			t.Errorf("%s: every row is read from %d tokens on, want %d; a token takes %g s, want %g", name, got.EveryRow, c.want, got.HotTime, seconds)
		}
		if c.want < 2 {
			continue
		}
		for n, every := range map[int]bool{c.want - 1: false, c.want: true} {
			one, _ := p.Together(&m, &on, n)
			on.GPUs[0].Speeds = &slow
			other, _ := p.Together(&m, &on, n)
			on.GPUs[0].Speeds = c.speeds
			if one < other != every {
				t.Errorf("%s: a step of %d tokens takes %g s, and %g by what is needed alone", name, n, one, other)
			}
		}
	}
}
