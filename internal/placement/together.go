package placement

import (
	"math"
	"slices"

	"github.com/powerinfer-go/powerinfer/internal/compute"
)

// Together returns the time of a step of n tokens, each of another text, with m's parts at p's places on the machine, in
// seconds; 0: unknown.
func (p *Plan) Together(m *Model, on *Machine, n int) (float64, error) {
	if n > 1 && !on.together(p) {
		return 0, nil
	}
	all, err := priceStep(m, on, p.Places(), n)
	if err != nil || n > 1 && all.FromDisk() {
		return 0, err
	}
	return all.Seconds, nil
}

// together reports whether it is known what a further token of a step takes on each processor that p uses.
func (m *Machine) together(p *Plan) bool {
	if m.speeds().Each == 0 {
		return false
	}
	for _, y := range p.Layers {
		if y.Tier != compute.RAM && m.GPUs[y.Tier].speeds().Each == 0 {
			return false
		}
	}
	return true
}

// FromDisk reports whether a token reads from the disk.
func (p *Plan) FromDisk() bool {
	return slices.ContainsFunc(p.Layers, func(y Priced) bool { return y.Disk > 0 })
}

// AnyOf returns the probability that at least one of n tokens uses a unit, if each does with probability share.
func AnyOf(share float64, n int) float64 { return 1 - math.Pow(1-min(share, 1), float64(n)) }
