package neuron

import "math"

// Magnitudes counts how large activations are, layer by layer, in steps of a 32nd of an octave: 2 % apart.
type Magnitudes struct {
	Layers [][]uint64 // [layers][steps] values of a magnitude in the step; the first holds all smaller ones, the last all larger ones
}

// The steps reach from 2^-magnitudeLow to 2^magnitudeHigh.
const (
	magnitudeLow  = 24
	magnitudeHigh = 16
	perOctave     = 32
	magnitudes    = (magnitudeLow+magnitudeHigh)*perOctave + 1
)

// NewMagnitudes returns counts of zero.
func NewMagnitudes(layers int) *Magnitudes {
	m := &Magnitudes{Layers: make([][]uint64, layers)}
	for l := range m.Layers {
		m.Layers[l] = make([]uint64, magnitudes)
	}
	return m
}

// Add counts values of a layer.
func (m *Magnitudes) Add(layer int, values []float32) {
	counts := m.Layers[layer]
	for _, v := range values {
		counts[step(v)]++
	}
}

// step returns the step of a magnitude: its exponent, and the first five bits of its fraction for the step within an
// octave; its width is small compared with the differences between layers and shares.
func step(v float32) int {
	b := int(math.Float32bits(v)&(1<<31-1)) >> (23 - 5) // exponent and five bits of the fraction
	return min(max(0, b-(127-magnitudeLow)*perOctave+1), magnitudes-1)
}

// Threshold returns the magnitude below which this share of the layer's values is; 0 if that is unknown, because
// nothing was counted or as many are below the first step.
func (m *Magnitudes) Threshold(layer int, share float64) float32 {
	counts := m.Layers[layer]
	var all, below uint64
	for _, n := range counts {
		all += n
	}
	for i, n := range counts {
		if below += n; float64(below) > share*float64(all) {
			return lowest(i)
		}
	}
	return 0
}

// lowest returns the smallest magnitude that is counted in step i.
func lowest(i int) float32 {
	if i == 0 {
		return 0
	}
	return math.Float32frombits(uint32(i-1+(127-magnitudeLow)*perOctave) << (23 - 5))
}

// Below returns the share of a layer's values with a magnitude below the threshold, to the resolution of steps.
func (m *Magnitudes) Below(layer int, threshold float32) float64 {
	var all, below uint64
	for i, n := range m.Layers[layer] {
		all += n
		if lowest(i) < threshold {
			below += n
		}
	}
	return float64(below) / math.Max(1, float64(all))
}
