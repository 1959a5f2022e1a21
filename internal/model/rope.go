package model

import (
	"github.com/powerinfer-go/powerinfer/internal/arch"
	"github.com/powerinfer-go/powerinfer/internal/nn"
)

// readRope reads the rotation of layers that see all positions.
func readRope(m *nn.Keys, c *Config) nn.RopeSpec {
	if c.HeadDim == 0 || c.Family.StateSpace && c.Family.Rotation == arch.NotRotated { // keys of files are of no use
		return nn.RopeSpec{Base: 10000, Context: c.Context, Trained: c.Context, Scaling: "none", Factor: 1, AttnFactor: 1}
	}
	r := m.Rope(nn.RopeSpec{Style: c.Family.Rotation.Style(), Dims: c.HeadDim, Base: c.Family.UsualBase, Trained: c.Context})
	if c.Family.YarnScores { // whose files hold a tenth of it
		r.InScores, r.LogMul = true, 10*r.LogMul
	}
	for _, b := range c.Blocks {
		if c.Family.WindowHeads && b.Rotation == Locally || b.Heads == 0 {
			continue
		}
		m.RopeFits(r, ".rope.dimension_count", b.Key)
	}
	return r
}
