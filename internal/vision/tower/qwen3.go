package tower

import (
	"fmt"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/nn"
	"github.com/powerinfer-go/powerinfer/internal/picture"
)

// qwen3 is the tower of Qwen3-VL and Qwen3.5: a vision transformer with learned positions and rotations. Each
// block of patches becomes a row. The text model adds rows of earlier layers in its first layers.
//
// Sources: Bai et al. 2025, Qwen3-VL Technical Report; Meng et al. 2024, DeepStack.
type qwen3 struct {
	vit
	sizing
	side      int // side of a block, in patches
	positions positionGrid
	out       multilayer  // reads a block's patches, one after another
	deep      []deepStack // [layers]
}

// deepStack makes rows of the patches after a layer.
type deepStack struct {
	norm nn.Norm // norm of a block's patches, one after another; not bound in layers without rows
	out  multilayer
}

func newQwen3(k *nn.Keys, b *nn.Binder, limits Limits) Program {
	t := readKeys(k)
	m := &qwen3{side: k.Count(".spatial_merge_size", 2, maxPatch)}
	m.sizing = readSizing(k, &t, t.patch*m.side, 8, 4096, limits)
	m.vit = newViT(t, b, vitSpec{bias: nn.Required, times: 2, rope: gridRope(compute.Halves, t.heads.Key, 10000, false)})
	m.positions = bindPositions(b, t.width, picture.Interpolation{Filter: picture.Bilinear, AlignCorners: true})
	wide := t.width * m.side * m.side
	m.out = bindMultilayer(b, "mm.0", "mm.2", wide, wide, t.textWidth, compute.GELUErf, nn.HasBias)
	for i := range t.layers {
		var d deepStack
		if of := b.Under(fmt.Sprintf("v.deepstack.%d.", i)); of.Has("fc1.weight") {
			d.norm = of.LayerNorm("norm", wide, t.eps, nn.HasBias)
			d.out = bindMultilayer(of, "fc1", "fc2", wide, wide, t.textWidth, compute.GELUErf, nn.HasBias)
		}
		m.deep = append(m.deep, d)
	}
	return m
}

func (m *qwen3) Sizes() Sizes {
	width := m.textWidth
	for _, d := range m.deep {
		if d.norm.Bound() {
			width += m.textWidth
		}
	}
	s := m.sizes(&m.keys, width)
	s.Axes = true
	return s
}

func (m *qwen3) Show(of *picture.Image) ([]Part, error) {
	width, height := m.sizing.of(of)
	v := m.view(of.Resize(width, height, picture.Bicubic), m.side, m.positions.at(width/m.patch, height/m.patch))
	v.Across, v.Down = width/m.unit, height/m.unit
	return []Part{{Text: "<|vision_start|>"}, {View: v}, {Text: "<|vision_end|>"}}, nil
}

// Forward returns rows, each followed by the rows that layers of the text model add.
func (m *qwen3) Forward(p *nn.Pass, v *View) compute.Tensor {
	n := m.side * m.side
	x := m.embed(p, true)
	all := merged(p, compute.Tensor{Rows: v.Rows}, m.Sizes().Width, n)
	at := m.textWidth
	x = m.encodeWith(p, x, func(i int, x compute.Tensor) {
		if d := &m.deep[i]; d.norm.Bound() {
			row := d.out.forward(p, p.Norm(x.Split(n*m.width), d.norm), n)
			p.Verbs().CopyColumns(all, row, compute.Ranges{First: at}, compute.Ranges{}, m.textWidth, 1)
			at += m.textWidth
		}
	})
	p.Verbs().CopyColumns(all, m.out.forward(p, x.Split(n*m.width), n), compute.Ranges{}, compute.Ranges{}, m.textWidth, 1)
	return all
}
