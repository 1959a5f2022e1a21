package tower

import (
	"math"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/nn"
	"github.com/powerinfer-go/powerinfer/internal/picture"
)

// closestGrid returns the grid of least to most square tiles that changes a picture's aspect least. Among equally good
// ones it takes the larger if the picture covers more than half of it.
//
// Source: Chen et al. 2024, arXiv:2404.16821 (InternVL 1.5), section 3.3.
func closestGrid(of *picture.Image, least, most, tile int) (columns, rows int) {
	aspect, area := float64(of.Width)/float64(of.Height), float64(of.Width)*float64(of.Height)
	nearest := math.Inf(1)
	columns, rows = 1, 1
	for n := least; n <= most; n++ {
		for c := 1; c <= n; c++ {
			if n%c != 0 {
				continue
			}
			off := math.Abs(aspect - float64(c)/float64(n/c))
			if off < nearest || off == nearest && area > 0.5*float64(tile*tile*n) {
				nearest, columns, rows = off, c, n/c
			}
		}
	}
	return columns, rows
}

// tiles cuts a picture into square tiles, row after row.
func tiles(of *picture.Image, side int) (all []*picture.Image) {
	for y := 0; y < of.Height; y += side {
		for x := 0; x < of.Width; x += side {
			all = append(all, of.Crop(x, y, side, side))
		}
	}
	return all
}

// tiled is a vision transformer for square tiles. It has a class token, which is not a patch but takes part in
// attention. Each block of patches becomes a row.
type tiled struct {
	vit
	side      int       // side of a block, in patches
	positions []float32 // [n, width] of the patches, row after row
	class     []float32 // [width] with its position
}

// bindTiled binds the tower's class token, and its positions. The class token has the first position or the last.
func bindTiled(k *nn.Keys, b *nn.Binder, t keys, first bool, s vitSpec) tiled {
	m := tiled{side: k.Count(".projector.scale_factor", 2, maxPatch)}
	if t.image%(t.patch*m.side) != 0 {
		k.Fail("tiles of %d pixels are not blocks of %d patches of %d", t.image, m.side, t.patch)
	}
	m.vit = newViT(t, b, s)
	const name = "v.position_embd.weight"
	n := t.image / t.patch * (t.image / t.patch)
	all := b.Table(name, t.width)
	m.class = b.Floats("v.class_embd", t.width)
	var bias []float32 // bias of the patches, but not of the class token
	if s.unbiased && b.Has("v.patch_embd.bias") {
		bias = b.Floats("v.patch_embd.bias", t.width)
	}
	if k.Err != nil || b.Err != nil {
		return m
	}
	if len(all) != (n+1)*t.width {
		b.Fail("tensor %q has not a row for each of %d patches and one for the class: the file is damaged, or its keys are those of another model; convert it again", name, n)
		return m
	}
	own := all[n*t.width:]
	m.positions = all[:n*t.width]
	if first {
		own, m.positions = all[:t.width], all[t.width:]
	}
	add(m.class, own)
	for i := 0; bias != nil && i < n; i++ {
		add(m.positions[i*t.width:], bias)
	}
	return m
}

// add does x += y.
func add(x, y []float32) {
	for i, v := range y {
		x[i] += v
	}
}

func (m *tiled) Sizes() Sizes {
	n := m.image / m.patch
	return Sizes{Width: m.textWidth, Patches: n*n + 1, Rows: n * n / (m.side * m.side)}
}

// tile returns the view of a tile. The class follows the patches; its axes are 0.
func (m *tiled) tile(of *picture.Image) *View {
	v := m.view(of, m.side, m.positions)
	v.Patches = append(v.Patches, append(make([]float32, m.pixels()), m.class...))
	for i := range v.Axes {
		v.Axes[i] = append(v.Axes[i], 0)
	}
	return v
}

// blocksOf returns the blocks' patches one after another, without the class. [rows, side·side·width]
func (m *tiled) blocksOf(p *nn.Pass) compute.Tensor {
	x := m.encode(p, m.embed(p, true))
	return x.First(x.Rows - 1).Split(m.side * m.side * m.width)
}

// most returns the most tiles that a picture is cut into; the user's bound on rows may lower it. A small picture of the
// whole follows the tiles.
func (m *tiled) most(usual int, limits Limits) int {
	usual = max(1, min(usual, maxPixels/(m.image*m.image)))
	if limits.Most == 0 {
		return usual
	}
	return max(1, min(usual, limits.Most/m.Sizes().Rows-1))
}
