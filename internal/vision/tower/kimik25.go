package tower

import (
	"math"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/nn"
	"github.com/powerinfer-go/powerinfer/internal/picture"
)

// kimiK25 is the tower of Kimi K2.5, MoonViT: a vision transformer with learned positions and rotations. Each
// block of patches becomes a row.
//
// Source: Kimi Team 2025, Kimi-VL Technical Report.
type kimiK25 struct {
	vit
	sizing
	side      int // side of a block, in patches
	more      int // additional patches of pictures beyond most, for padding
	positions positionGrid
	norm      nn.Norm    // norm of a patch before it is merged
	out       multilayer // reads a block's patches, one after another
}

// mostKimiSide bounds a picture's sides, in patches.
const mostKimiSide = 512

func newKimiK25(k *nn.Keys, b *nn.Binder, limits Limits) Program {
	t := readKeys(k)
	m := &kimiK25{side: k.Count(".projector.scale_factor", 2, maxPatch)}
	m.sizing = readSizing(k, &t, t.patch*m.side, 2, 4096, limits)
	if limits.Least == 0 {
		m.least = 1
	}
	if limits.Most == 0 {
		m.more = 3*(mostKimiSide+m.most/(t.patch*t.patch)/mostKimiSide) + 9
	}
	m.vit = newViT(t, b, vitSpec{bias: nn.Required, rope: gridRope(compute.Interleaved, t.heads.Key, 10000, false)})
	m.positions = bindPositions(b, t.width, picture.Interpolation{Filter: picture.Bicubic})
	m.norm = b.LayerNorm("mm.input_norm", t.width, t.eps, nn.HasBias)
	wide := t.width * m.side * m.side
	m.out = bindMultilayer(b, "mm.1", "mm.2", wide, wide, t.textWidth, compute.GELUErf, nn.HasBias)
	return m
}

func (m *kimiK25) Sizes() Sizes {
	s := m.sizes(&m.keys, m.textWidth)
	return Sizes{Width: s.Width, Patches: s.Patches + m.more, Rows: s.Rows + m.more/(m.side*m.side)}
}

// Show keeps a picture's aspect ratio: padding to whole blocks is black, at the right and below.
func (m *kimiK25) Show(of *picture.Image) ([]Part, error) {
	w, h := m.inside(of)
	width, height := m.whole(w), m.whole(h)
	padded := of.Resize(w, h, picture.Bicubic).Crop(0, 0, width, height)
	v := m.view(padded, m.side, m.positions.at(width/m.patch, height/m.patch))
	v.Axes[0], v.Axes[1] = v.Axes[1], v.Axes[0] // columns turn the first half of a head
	return []Part{{Text: "<|media_begin|>image<|media_content|>"}, {View: v}, {Text: "<|media_end|>"}}, nil
}

// whole returns a side as whole blocks.
func (m *kimiK25) whole(side int) int { return (side + m.unit - 1) / m.unit * m.unit }

// inside returns the size of a picture before padding. Only a user's bounds on rows may change the aspect ratio.
func (m *kimiK25) inside(of *picture.Image) (width, height int) {
	patch := float64(m.patch)
	w, h := float64(of.Width), float64(of.Height)
	across, down := max(1, math.Floor(w/patch)), max(1, math.Floor(h/patch))
	scale := min(1, math.Sqrt(float64(m.most)/(patch*patch*across*down)), mostKimiSide*patch/w, mostKimiSide*patch/h)
	width, height = max(1, int(w*scale)), max(1, int(h*scale))
	if n := m.whole(width) * m.whole(height); n < m.least || n > m.most+m.more*m.patch*m.patch {
		return m.sizing.of(of)
	}
	return width, height
}

func (m *kimiK25) Forward(p *nn.Pass, _ *View) compute.Tensor {
	n := m.side * m.side
	x := m.encode(p, m.embed(p, true))
	p.Normalize(x, m.norm)
	return m.out.forward(p, x.Split(n*m.width), n)
}
