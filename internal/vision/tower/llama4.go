package tower

import (
	"math"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/nn"
	"github.com/powerinfer-go/powerinfer/internal/picture"
)

// llama4 is Llama 4's: a vision transformer with learned positions and rotations, and blocks of patches that become
// rows. A picture is cut into tiles, which a small one of the whole follows.
//
// Source: transformers' Llama4VisionModel, and its image processor and processor for tiles and the tokens between them.
type llama4 struct {
	tiled
	largest int        // tiles of a picture
	merge   multilayer // reads a block's patches, one after another
	out     nn.Linear  // [textWidth, mm.model.mlp.2's rows] of their activation
}

// llama4Tiles is the largest number of tiles of a picture, which files do not say.
const llama4Tiles = 16

func newLlama4(k *nn.Keys, b *nn.Binder, limits Limits) Program {
	t := readKeys(k)
	t.geluErf()
	m := &llama4{tiled: bindTiled(k, b, t, false, vitSpec{bias: nn.Optional, rope: gridRope(compute.Interleaved, t.heads.Key, 10000, false)})}
	m.largest = m.most(llama4Tiles, limits)
	hidden, given := b.Rows("mm.model.mlp.1.weight"), b.Rows("mm.model.mlp.2.weight")
	m.merge = bindMultilayer(b, "mm.model.mlp.1", "mm.model.mlp.2", t.width*m.side*m.side, hidden, given, compute.GELUErf, nn.NoBias)
	m.out = b.Linear("mm.model.fc", t.textWidth, given, nn.NoBias)
	return m
}

func (m *llama4) Show(of *picture.Image) ([]Part, error) {
	columns, rows := m.canvas(of)
	w, h := m.inside(of, columns, rows)
	all := tiles(of.Resize(w, h, picture.Bilinear).Crop(0, 0, columns*m.image, rows*m.image), m.image)
	parts := []Part{{Text: "<|image_start|>"}}
	if len(all) > 1 {
		for i, tile := range all {
			after := "<|tile_x_separator|>"
			if (i+1)%columns == 0 {
				after = "<|tile_y_separator|>"
			}
			parts = append(parts, Part{View: m.placed(tile)}, Part{Text: after})
		}
		all = []*picture.Image{of.Resize(m.image, m.image, picture.Bilinear)}
	}
	return append(parts, Part{Text: "<|image|>"}, Part{View: m.placed(all[0])}, Part{Text: "<|image_end|>"}), nil
}

// placed returns the view of a tile. Heads are rotated by columns, then by rows, which are counted from 1; the class
// token is not rotated.
func (m *llama4) placed(tile *picture.Image) *View {
	v := m.tile(tile)
	v.Axes[0], v.Axes[1] = v.Axes[1], v.Axes[0]
	for _, axis := range v.Axes {
		for i := range axis[:len(axis)-1] {
			axis[i]++
		}
	}
	return v
}

// canvas returns the grid of tiles for a picture: the one to which it has to grow least, or else shrink least, and the
// smallest of equal ones.
func (m *llama4) canvas(of *picture.Image) (columns, rows int) {
	var best float64
	for n := 1; n <= m.largest; n++ {
		for r := 1; r <= n; r++ {
			if n%r != 0 {
				continue
			}
			scale := min(float64(n/r*m.image)/float64(of.Width), float64(r*m.image)/float64(of.Height))
			if better := scale > best && best < 1 || scale >= 1 && scale < best; better {
				best, columns, rows = scale, n/r, r
			}
		}
	}
	return columns, rows
}

// inside returns the size to which a picture comes on its canvas. It keeps its aspect, and grows to a tile at most.
func (m *llama4) inside(of *picture.Image, columns, rows int) (width, height int) {
	w, h := float64(of.Width), float64(of.Height)
	wide, high := min(max(of.Width, m.image), columns*m.image), min(max(of.Height, m.image), rows*m.image)
	across, down := float64(wide)/w, float64(high)/h
	if across < down {
		return wide, max(1, min(int(math.Floor(h*across)), high))
	}
	return max(1, min(int(math.Floor(w*down)), wide)), high
}

func (m *llama4) Forward(p *nn.Pass, _ *View) compute.Tensor {
	x := m.merge.forward(p, m.blocksOf(p), m.side*m.side)
	p.Activate(x, compute.Tensor{}, compute.Activation{Kind: compute.GELUErf})
	return p.Linear(x, &m.out)
}
