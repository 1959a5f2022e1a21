package tower

import (
	"fmt"
	"math"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/nn"
	"github.com/powerinfer-go/powerinfer/internal/picture"
)

// lfm2 is the tower of LFM2-VL: SigLIP 2, which takes pictures of any aspect. Each block of patches becomes a row.
// A large picture is cut into tiles, followed by a small picture of the whole.
//
// Sources: Tschannen et al. 2025, SigLIP 2, section 2.4 (NaFlex); Liquid AI 2025, LFM2 Technical Report.
type lfm2 struct {
	vit
	sizing
	side      int // side of a block, in patches
	mostTiles int // tiles of a picture, at most; below lfm2FewTiles none is cut
	positions positionGrid
	norm      nn.Norm    // norm of a block's patches, one after another, or none
	out       multilayer // reads the norm
}

// How LFM2-VL's image processor cuts pictures.
const (
	lfm2Tile      = 512 // pixels each way
	lfm2FewTiles  = 2
	lfm2MostTiles = 10
	lfm2Large     = 2 // pictures are cut if they are larger than this many times the largest that is not
)

func newLFM2(k *nn.Keys, b *nn.Binder, limits Limits) Program {
	t := readKeys(k)
	m := &lfm2{side: k.Count(".projector.scale_factor", 2, maxPatch)}
	m.sizing = readSizing(k, &t, t.patch*m.side, 64, 256, limits)
	m.thin = true
	if lfm2Tile%m.unit != 0 {
		k.Fail("tiles of %d pixels are not blocks of %d patches of %d", lfm2Tile, m.side, t.patch)
	}
	m.mostTiles = lfm2MostTiles
	if limits.Most > 0 { // it limits the tiles and the picture of the whole together, which is no larger than usual
		m.most = min(m.most, readSizing(k, &t, m.unit, 64, 256, Limits{Least: limits.Least}).most)
		m.mostTiles = min(m.mostTiles, (limits.Most*m.unit*m.unit-m.most)/(lfm2Tile*lfm2Tile))
	}
	m.vit = newViT(t, b, vitSpec{bias: nn.Required})
	m.positions = bindPositions(b, t.width, picture.Interpolation{Filter: picture.Bilinear, Antialias: true})
	wide := t.width * m.side * m.side
	if b.Has("mm.input_norm.weight") {
		m.norm = b.LayerNorm("mm.input_norm", wide, 1e-5, nn.MayHaveBias)
	}
	m.out = bindMultilayer(b, "mm.1", "mm.2", wide, b.Rows("mm.1.weight"), t.textWidth, compute.GELUErf, nn.HasBias)
	return m
}

func (m *lfm2) Sizes() Sizes {
	s := m.sizes(&m.keys, m.textWidth)
	s.Patches, s.Rows = max(s.Patches, (lfm2Tile/m.patch)*(lfm2Tile/m.patch)), max(s.Rows, (lfm2Tile/m.unit)*(lfm2Tile/m.unit))
	return s
}

func (m *lfm2) Show(of *picture.Image) ([]Part, error) {
	width, height := m.sizing.of(of)
	whole := m.shown(of.Resize(width, height, picture.Bilinear))
	if !m.large(of) {
		return []Part{{Text: "<|image_start|>"}, {View: whole}, {Text: "<|image_end|>"}}, nil
	}
	columns, rows := closestGrid(of, lfm2FewTiles, m.mostTiles, lfm2Tile)
	parts := []Part{{Text: "<|image_start|>"}}
	for i, tile := range tiles(of.Resize(columns*lfm2Tile, rows*lfm2Tile, picture.Bilinear), lfm2Tile) {
		parts = append(parts, Part{Text: fmt.Sprintf("<|img_row_%d_col_%d|>", i/columns+1, i%columns+1)}, Part{View: m.shown(tile)})
	}
	return append(parts, Part{Text: "<|img_thumbnail|>"}, Part{View: whole}, Part{Text: "<|image_end|>"}), nil
}

// shown returns the view of a picture, or of a tile.
func (m *lfm2) shown(of *picture.Image) *View {
	return m.view(of, m.side, m.positions.at(of.Width/m.patch, of.Height/m.patch))
}

// large reports whether a picture is cut.
func (m *lfm2) large(of *picture.Image) bool {
	if m.mostTiles < lfm2FewTiles {
		return false
	}
	unit := float64(m.unit)
	side := func(n int) float64 { return max(float64(m.patch), math.RoundToEven(float64(n)/unit)*unit) }
	return side(of.Width)*side(of.Height) > lfm2Large*float64(m.most)
}

func (m *lfm2) Forward(p *nn.Pass, _ *View) compute.Tensor {
	n := m.side * m.side
	x := m.encode(p, m.embed(p, true)).Split(n * m.width)
	p.Normalize(x, m.norm)
	return m.out.forward(p, x, n)
}
