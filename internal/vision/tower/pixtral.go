package tower

import (
	"math"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/nn"
	"github.com/powerinfer-go/powerinfer/internal/picture"
)

// pixtral is the tower of Pixtral and of Mistral's models since Small 3.1: a vision transformer with rotations. Each
// block of patches becomes a row, and a further row separates lines.
//
// Source: Agrawal et al. 2024, Pixtral 12B.
type pixtral struct {
	vit
	sizing
	side   int       // side of a block, in patches
	norm   nn.Norm   // norm of the patches before they are merged, or none
	merger nn.Linear // [width, side²·width] for a block, or none
	out    multilayer
	line   []float32 // [textWidth] the row after each line but the last
}

func newPixtral(k *nn.Keys, b *nn.Binder, limits Limits) Program {
	t := readKeys(k)
	t.geluErf()
	m := &pixtral{side: k.Count(".spatial_merge_size", 1, maxPatch)}
	unit := t.patch * m.side
	longest := (t.image + unit - 1) / unit // rows
	m.sizing = sizing{unit: unit, least: 1, most: longest * longest * unit * unit}
	m.limit(k, &t, limits)
	m.vit = newViT(t, b, vitSpec{rms: true, gated: true, rope: gridRope(compute.Interleaved, t.heads.Key, 10000, true)})
	n := m.side * m.side
	if n > 1 {
		m.norm = b.RMSNorm("mm.input_norm", t.width, t.eps)
		m.merger = b.Merger("mm.patch_merger", t.width, t.width, n, nn.NoBias)
	}
	m.out = bindMultilayer(b, "mm.1", "mm.2", t.width, t.textWidth, t.textWidth, compute.GELUErf, nn.MayHaveBias)
	m.line = b.Floats("v.token_embd.img_break", t.textWidth)
	return m
}

func (m *pixtral) Sizes() Sizes {
	s := m.sizes(&m.keys, m.textWidth)
	s.Rows = 2 * s.Rows // with those between lines
	return s
}

// size returns the size to which a picture comes: no side is longer than the longest, and sides are rounded up. Only a
// user's bounds on rows change it further.
func (m *pixtral) size(of *picture.Image) (width, height int) {
	w, h := of.Width, of.Height
	if ratio := float64(max(w, h)) / float64(m.image); ratio > 1 {
		w, h = max(1, int(math.Floor(float64(w)/ratio))), max(1, int(math.Floor(float64(h)/ratio)))
	}
	w, h = (w+m.unit-1)/m.unit*m.unit, (h+m.unit-1)/m.unit*m.unit
	if w*h < m.least || w*h > m.most {
		return m.sizing.of(of)
	}
	return w, h
}

func (m *pixtral) Show(of *picture.Image) ([]Part, error) {
	width, height := m.size(of)
	v := m.view(of.Resize(width, height, picture.Bicubic), m.side, nil)
	across := width / m.unit
	v.Break = m.line
	for i := range v.Rows {
		if i > 0 && i%across == 0 {
			v.Order = append(v.Order, -1)
		}
		v.Order = append(v.Order, int32(i))
	}
	v.Rows = len(v.Order)
	return []Part{{View: v}, {Text: "[IMG_END]"}}, nil
}

func (m *pixtral) Forward(p *nn.Pass, _ *View) compute.Tensor {
	x, n := m.encode(p, m.embed(p, false)), m.side*m.side
	if n > 1 {
		p.Normalize(x, m.norm)
		y := merged(p, x.Split(n*m.width), m.width, n)
		p.LinearTo(y, x.Split(n*m.width), &m.merger)
		x = y
	}
	return m.out.forward(p, x, n)
}
