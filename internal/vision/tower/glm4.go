package tower

import (
	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/nn"
	"github.com/powerinfer-go/powerinfer/internal/picture"
)

// glm4V is the tower of GLM-4.1V and later: a vision transformer with rotations and usually learned positions, and
// a convolution that merges blocks of patches.
//
// Source: GLM-V Team 2025, GLM-4.1V-Thinking and GLM-4.5V.
type glm4V struct {
	vit
	sizing
	side      int           // side of a block, in patches
	embedNorm nn.Norm       // norm of the patches' embeddings
	positions *positionGrid // nil: there are none
	merger    nn.Linear     // [textWidth, side²·width]
	inner     nn.Linear     // [textWidth, textWidth]
	innerNorm nn.Norm       // norm of inner's output, before GELU
	gate, up  nn.Linear     // [hidden, textWidth]
	down      nn.Linear     // [textWidth, hidden]
}

func newGLM4V(k *nn.Keys, b *nn.Binder, limits Limits) Program {
	t := readKeys(k)
	m := &glm4V{side: k.Count(".spatial_merge_size", 2, maxPatch)}
	m.sizing = readSizing(k, &t, t.patch*m.side, 8, 4096, limits)
	m.vit = newViT(t, b, vitSpec{rms: true, gated: true, bias: nn.Optional, times: 2, rope: gridRope(compute.Halves, t.heads.Key, 10000, false)})
	m.embedNorm = b.RMSNorm("v.norm_embd", t.width, t.eps)
	if b.Has("v.position_embd.weight") {
		grid := bindPositions(b, t.width, picture.Interpolation{Filter: picture.Bicubic})
		m.positions = &grid
	}
	m.merger = b.Merger("mm.patch_merger", t.textWidth, t.width, m.side*m.side, nn.HasBias)
	m.inner = b.Linear("mm.model.fc", t.textWidth, t.textWidth, nn.NoBias)
	m.innerNorm = b.LayerNorm("mm.post_norm", t.textWidth, 1e-5, nn.MayHaveBias)
	hidden := b.Rows("mm.up.weight")
	m.gate, m.up = b.Linear("mm.gate", hidden, t.textWidth, nn.MayHaveBias), b.Linear("mm.up", hidden, t.textWidth, nn.MayHaveBias)
	m.down = b.Linear("mm.down", t.textWidth, hidden, nn.MayHaveBias)
	return m
}

func (m *glm4V) Sizes() Sizes {
	s := m.sizes(&m.keys, m.textWidth)
	s.Axes = true
	return s
}

// size returns the size to which a picture comes: one with a side of less than a unit has first that side grow to it.
func (m *glm4V) size(of *picture.Image) (width, height int) {
	if least := min(of.Width, of.Height); least < m.unit {
		grow := float64(m.unit) / float64(least)
		of = &picture.Image{Width: int(float64(of.Width) * grow), Height: int(float64(of.Height) * grow)}
	}
	return m.sizing.of(of)
}

func (m *glm4V) Show(of *picture.Image) ([]Part, error) {
	width, height := m.size(of)
	var positions []float32
	if m.positions != nil {
		positions = m.positions.at(width/m.patch, height/m.patch)
	}
	v := m.view(of.Resize(width, height, picture.Bicubic), m.side, positions)
	v.Across, v.Down = width/m.unit, height/m.unit
	return []Part{{Text: "<|begin_of_image|>"}, {View: v}, {Text: "<|end_of_image|>"}}, nil
}

func (m *glm4V) Forward(p *nn.Pass, _ *View) compute.Tensor {
	x, n := m.embed(p, false), m.side*m.side
	p.Normalize(x, m.embedNorm)
	if m.positions != nil {
		p.InsertMore(x, m.pixels())
	}
	x = m.encode(p, x).Split(n * m.width)
	y := merged(p, x, m.textWidth, n)
	p.LinearTo(y, x, &m.merger)
	z := merged(p, x, m.textWidth, n)
	p.LinearTo(z, y, &m.inner)
	p.Normalize(z, m.innerNorm)
	p.Activate(z, compute.Tensor{}, compute.Activation{Kind: compute.GELUErf})
	gate, up := p.Linear2(z, &m.gate, &m.up)
	p.Activate(gate, up, m.act)
	p.LinearTo(y, gate, &m.down)
	return y
}
