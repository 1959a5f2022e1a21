package placement

import "github.com/powerinfer-go/powerinfer/internal/compute"

// mode says which parts of a layer are on the GPU. Prices decide how many units, if only some are.
type mode struct {
	attention, predictor bool
	units                amount
}

type amount int

const (
	none amount = iota
	some
	all
)

// modes are the ones that can be fastest. A predictor is on the GPU only if attention or neurons are, too.
var modes = [...]mode{
	{false, false, none}, // all in RAM
	{false, false, some},
	{false, false, all},
	{false, true, some},
	{false, true, all},
	{true, false, none},
	{true, true, none},
	{true, true, some},
	{true, true, all}, // all on the GPU
}

// inRAM and onGPU are the modes of a layer that uses one processor.
const (
	inRAM = 0
	onGPU = len(modes) - 1
)

// possible reports whether the layer can be in the mode: it has units to split, and its pins hold.
func (m mode) possible(c *curve) bool {
	switch {
	case !c.y.Pins.allow(m, c.gpu, c.y):
		return false
	case m.units == some:
		return c.most > 0
	case c.n == 0: // the head
		return m == modes[inRAM] || m == modes[onGPU]
	}
	return true
}

// place returns the layer's place in mode m, with k units on the GPU if only some are.
func (m mode) place(c *curve, gpu compute.Tier, k int) compute.Place {
	switch m.units {
	case none:
		k = 0
	case all:
		k = c.n
	}
	if m == modes[inRAM] {
		gpu = compute.RAM
	}
	return compute.Place{Split: compute.Split{Tier: gpu, Bound: k}, Attention: m.attention, Predictor: m.predictor && c.y.Predictor > 0}
}
