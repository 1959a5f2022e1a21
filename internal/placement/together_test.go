package placement

import (
	"math"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/compute"
)

// TestTogether: tokens of a step share the weights that they read. Keys and values are each one's own, neurons are those
// that any of them needs, and each token beyond the first takes its products.
func TestTogether(t *testing.T) {
	const start, read, each, handOff = 1e-5, 1e9, 2e-10, 4e-5
	rate := Rate{Start: start, Read: read}
	speeds := &Speeds{Attention: rate, Predictor: rate, Dense: rate, Sparse: rate, Each: each}
	on := Machine{Stream: read, Rows: read, Speeds: speeds, HandOff: handOff, GPUs: []GPU{{Read: read, Budget: 1 << 40, Speeds: speeds}}}
	m := Model{
		Layers: []Layer{{Attention: 1000, KV: 10, Units: Units{Size: 100, Sometimes: []float64{50, 25}}}},
		Head:   400,
	}
	inRAM := compute.Place{Split: compute.Split{Tier: compute.RAM}}
	for _, c := range []struct {
		n      int
		places []compute.Place
		want   float64
	}{
		{1, []compute.Place{inRAM, inRAM}, 3*start + (1010+75+400)/read},
		{2, []compute.Place{inRAM, inRAM}, 3*start + (1020+75+43.75+400)/read + (1000+75+400)*each},
		{3, []compute.Place{inRAM, inRAM}, 3*start + (1030+87.5+57.8125+400)/read + 2*(1000+75+400)*each},
		// The GPU's neuron takes longer than the other, which the processor computes meanwhile.
		{2, []compute.Place{{Split: compute.Split{Bound: 1}, Attention: true}, inRAM}, 3*start + (1020+75+400)/read + (1000+50+400)*each + 2*handOff},
	} {
		plan, err := Price(&m, &on, c.places)
		if err != nil {
			t.Fatal(err)
		}
		got, err := plan.Together(&m, &on, c.n)
		if err != nil || math.Abs(got-c.want) > 1e-12 {
			t.Errorf("a step of %d tokens at %+v takes %g s, want %g (%v)", c.n, c.places, got, c.want, err)
		}
	}
	speeds.Each = 0
	plan, err := Price(&m, &on, []compute.Place{inRAM, inRAM})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := plan.Together(&m, &on, 2); got != 0 || err != nil {
		t.Errorf("a step of 2 tokens takes %g s though nobody measured what one more adds (%v)", got, err)
	}
}
