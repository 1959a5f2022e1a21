package tower

import (
	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/nn"
	"github.com/powerinfer-go/powerinfer/internal/picture"
)

// internVL is InternVL's: InternViT, and blocks of patches that become rows. A picture is cut into tiles, which a
// small one of the whole follows.
//
// Source: Chen et al. 2024, How Far Are We to GPT-4V? (InternVL 1.5), section 3.
type internVL struct {
	tiled
	fewest, largest int        // tiles of a picture
	norm            nn.Norm    // norm of a block's patches, one after another
	out             multilayer // reads the norm
}

// mostTiles bounds the tiles of a picture.
const mostTiles = 1 << 8

func newInternVL(k *nn.Keys, b *nn.Binder, limits Limits) Program {
	t := readKeys(k)
	t.geluErf()
	m := &internVL{fewest: k.Count(".preproc_min_tiles", 1, mostTiles), largest: k.Count(".preproc_max_tiles", 12, mostTiles)}
	if m.fewest > m.largest {
		k.Fail("a picture would have at least %d tiles and at most %d", m.fewest, m.largest)
	}
	// The larger of two transformers has RMSNorms without biases.
	m.tiled = bindTiled(k, b, t, true, vitSpec{bias: nn.Optional, rms: !b.Has("v.blk.0.ln1.bias"), unbiased: true})
	m.largest = m.most(m.largest, limits)
	m.fewest = min(m.fewest, m.largest)
	wide := t.width * m.side * m.side
	m.norm = b.LayerNorm("mm.model.mlp.0", wide, 1e-5, nn.HasBias)
	m.out = bindMultilayer(b, "mm.model.mlp.1", "mm.model.mlp.3", wide, t.textWidth, t.textWidth, compute.GELUErf, nn.HasBias)
	return m
}

func (m *internVL) Show(of *picture.Image) ([]Part, error) {
	columns, rows := closestGrid(of, m.fewest, m.largest, m.image)
	parts := []Part{{Text: "<img>"}}
	for _, tile := range tiles(of.Resize(columns*m.image, rows*m.image, picture.Bicubic), m.image) {
		parts = append(parts, Part{View: m.tile(tile)})
	}
	if columns*rows > 1 {
		parts = append(parts, Part{View: m.tile(of.Resize(m.image, m.image, picture.Bicubic))})
	}
	return append(parts, Part{Text: "</img>"}), nil
}

func (m *internVL) Forward(p *nn.Pass, _ *View) compute.Tensor {
	x := m.blocksOf(p)
	p.Normalize(x, m.norm)
	return m.out.forward(p, x, m.side*m.side)
}
