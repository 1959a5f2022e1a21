package measure

import (
	"context"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/placement"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// Neurons are rates of neurons on a GPU: see placement.Speeds.
type Neurons struct {
	Sparse   placement.Rate `json:"sparse"`
	EveryRow placement.Rate `json:"every_row"`
}

// neuronTypes returns the types that neurons are measured in besides layerType.
func neuronTypes() []quant.Type { return []quant.Type{quant.Q4_K, quant.Q8_0, quant.F16} }

// SpeedsOf returns Speeds for neurons of an element type: of types that were not measured, those of the one with the
// nearest number of bytes. nil: nothing was measured.
func (c *GPU) SpeedsOf(name string) *placement.Speeds {
	t, ok := quant.Named(name, quant.Types())
	if c.Speeds == nil || !ok || t == layerType {
		return c.Speeds
	}
	const elements = 256
	far := func(u quant.Type) int {
		return max(t.RowBytes(elements)-u.RowBytes(elements), u.RowBytes(elements)-t.RowBytes(elements))
	}
	nearest, s := layerType, *c.Speeds
	for _, u := range neuronTypes() {
		if n, ok := c.Neurons[u.String()]; ok && (u == t || far(u) < far(nearest)) {
			nearest, s.Sparse, s.EveryRow = u, n.Sparse, n.EveryRow
		}
	}
	return &s
}

// neuronSpeeds measures how fast a device computes neurons of an element type other than layerType.
func neuronSpeeds(ctx context.Context, open func() (compute.Device, error), on layerTrial, t quant.Type, step func()) (Neurons, error) {
	a, b, err := on.both(ctx, open, t, step)
	if err != nil {
		return Neurons{}, err
	}
	return on.fitNeurons(a, b), nil
}

// fitNeurons returns the rates of neurons from the times of both shapes.
func (on *layerTrial) fitNeurons(a, b partTimes) Neurons {
	n := Neurons{Sparse: fit(b.sparse[0], b.sparse[1])}
	if on.everyRow {
		n.EveryRow = fit(a.every, b.every)
	}
	return n
}
