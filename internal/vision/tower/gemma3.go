package tower

import (
	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/nn"
	"github.com/powerinfer-go/powerinfer/internal/picture"
)

// gemma3 is Gemma 3's: SigLIP, the average of each block of patches, and a linear layer.
//
// Sources: Zhai et al. 2023, Sigmoid Loss for Language Image Pre-Training; Gemma Team 2025, Gemma 3 Technical Report.
type gemma3 struct {
	vit
	positions []float32 // [n, width] of the patches, row after row
	side      int       // side of a block, in patches
	norm      nn.Norm   // norm of the averages
	out       nn.Linear // [textWidth, width]
}

func newGemma3(k *nn.Keys, b *nn.Binder, _ Limits) Program {
	t := readKeys(k)
	m := &gemma3{side: k.Count(".projector.scale_factor", 4, maxPatch)}
	if t.image%(t.patch*m.side) != 0 {
		k.Fail("pictures of %d pixels are not blocks of %d patches of %d", t.image, m.side, t.patch)
	}
	m.vit = newViT(t, b, vitSpec{bias: nn.Required})
	m.positions = b.Table("v.position_embd.weight", t.width)
	m.norm = b.RMSNorm("mm.soft_emb_norm", t.width, t.eps)
	m.out = b.Transposed("mm.input_projection", t.textWidth, t.width)
	if n := t.image / t.patch; k.Err == nil && b.Err == nil && len(m.positions) != n*n*t.width {
		b.Fail("tensor %q has not a row for each of %d patches", "v.position_embd.weight", n*n)
	}
	return m
}

func (m *gemma3) Sizes() Sizes {
	n := m.image / m.patch
	return Sizes{Width: m.textWidth, Patches: n * n, Rows: n * n / (m.side * m.side), Mutual: true}
}

// Show stretches every picture to the same square.
func (m *gemma3) Show(of *picture.Image) ([]Part, error) {
	v := m.view(of.Resize(m.image, m.image, picture.Bilinear), m.side, m.positions)
	v.Mutual = true
	return []Part{{Text: "\n\n<start_of_image>"}, {View: v}, {Text: "<end_of_image>\n\n"}}, nil
}

func (m *gemma3) Forward(p *nn.Pass, _ *View) compute.Tensor {
	x := averaged(p, m.encode(p, m.embed(p, true)), m.side*m.side)
	p.Normalize(x, m.norm)
	return p.Linear(x, &m.out)
}
