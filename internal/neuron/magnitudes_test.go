package neuron

import (
	"math"
	"slices"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/testenv"
)

// TestMagnitudes: a threshold is the quantile of the sorted magnitudes, to within a step of a 32nd of an octave.
func TestMagnitudes(t *testing.T) {
	rng := testenv.Rand(t)
	values := make([]float32, 5000)
	m := NewMagnitudes(2)
	for i := range values {
		values[i] = float32(rng.NormFloat64() * math.Exp(3*rng.NormFloat64()))
	}
	m.Add(1, values)
	for i, v := range values {
		values[i] = float32(math.Abs(float64(v)))
	}
	slices.Sort(values)
	for _, share := range []float64{0.01, 0.1, 0.5, 0.9, 0.99} {
		got, want := m.Threshold(1, share), values[int(share*float64(len(values)))]
		if got > want || float64(got) < float64(want)/(1+1.0/perOctave) {
			t.Errorf("%g of magnitudes are below %g, not %g", share, want, got)
		}
		below, _ := slices.BinarySearch(values, got)
		if b := m.Below(1, got); math.Abs(b-float64(below)/float64(len(values))) > 1e-9 {
			t.Errorf("%g of magnitudes are below %g, not %g", float64(below)/float64(len(values)), got, b)
		}
	}
	if v := m.Threshold(0, 0.5); v != 0 {
		t.Errorf("nothing was counted, and the threshold is %g", v)
	}
	m.Add(0, []float32{0, float32(math.Inf(1)), float32(math.NaN()), 1e-30, 1e30, -1})
	if v := m.Threshold(0, 0.4); v != 1 {
		t.Errorf("the third of six magnitudes is 1, not %g", v)
	}
}
