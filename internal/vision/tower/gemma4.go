package tower

import (
	"fmt"
	"math"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/nn"
	"github.com/powerinfer-go/powerinfer/internal/picture"
)

// gemma4 is Gemma 4's: a vision transformer with positions of columns and of rows, learned ones and rotations, and
// the average of each block of patches, which is standardised and goes through a linear layer.
//
// Source: transformers' Gemma4VisionModel and Gemma4MultimodalEmbedder.
type gemma4 struct {
	vit
	sizing
	side         int // side of a block, in patches
	places       gemma4Places
	shift, scale *compute.Vector // [width] for the averages; nil: they stay unchanged
	norm         nn.Norm         // norm of out's input
	out          nn.Linear       // [textWidth, width]
	mutual       bool            // see View
}

// Bounds on the rows of a picture, as in llama.cpp. The published processor scales every picture to about 280 rows;
// here a picture within the bounds keeps its size.
const (
	gemma4Least = 70
	gemma4Most  = 1120
)

func newGemma4(k *nn.Keys, b *nn.Binder, limits Limits) Program {
	t := readKeys(k)
	if t.act.Kind == compute.GELUQuick { // files do not say it
		t.act.Kind = compute.GELU
	}
	for i, mean := range t.mean { // the tower reads numbers from -1 to 1
		t.mean[i], t.std[i] = mean+t.std[i]/2, t.std[i]/2
	}
	m := &gemma4{side: k.Count(".projector.scale_factor", 3, maxPatch), mutual: t.textWidth != 1536 && t.textWidth != 2560}
	m.sizing = readSizing(k, &t, t.patch*m.side, gemma4Least, gemma4Most, limits)
	if m.mutual {
		m.inStep(limits)
	}
	m.vit = newViT(t, b, vitSpec{rms: true, gated: true})
	for i := range m.blocks {
		m.adjust(b.Under("v.").Layer(i), m.blocks[i].attn, m.blocks[i].ffn)
	}
	m.places = bindGemma4Places(b, t.width)
	if b.Has("v.std_scale") {
		m.shift, m.scale = b.Negative("v.std_bias", t.width), b.Vector("v.std_scale", t.width)
	}
	m.norm = b.UnitNorm(t.width, t.eps)
	m.out = b.Linear("mm.input_projection", t.textWidth, t.width, nn.NoBias)
	b.Clip("mm.input_projection", &m.out)
	return m
}

// adjust gives a layer what other towers do not have: the first half of each head is rotated by a patch's column, the
// second by its row; values are normed, and scores are not scaled; linear layers have ranges if the file has some.
func (m *gemma4) adjust(b *nn.Binder, a *nn.Attention, f *nn.FFN) {
	half := m.heads.Key / 2
	turn := func(first int, axis uint8) *compute.Rope {
		rope, err := nn.RopeSpec{Style: compute.Halves, First: first, Dims: half, Base: 100}.Rope(nil)
		if err != nil {
			b.Fail("%w", err)
			return nil
		}
		rope.Axes = make([]uint8, len(rope.Freqs))
		for i := range rope.Axes {
			rope.Axes[i] = axis
		}
		return rope
	}
	a.Rope, a.Then = turn(0, 1), turn(half, 0)
	a.VNorm = b.UnitNorm(m.heads.Value, m.eps)
	a.Scores.Scale = 1
	for name, l := range map[string]*nn.Linear{
		"attn_q": &a.Q, "attn_k": &a.K, "attn_v": &a.V, "attn_out": &a.Out,
		"ffn_gate": &f.Gate, "ffn_up": &f.Up, "ffn_down": &f.Down,
	} {
		b.Clip(name, l)
	}
}

func (m *gemma4) Sizes() Sizes {
	s := m.sizes(&m.keys, m.textWidth)
	s.Mutual = m.mutual
	return s
}

func (m *gemma4) Show(of *picture.Image) ([]Part, error) {
	width, height := m.sizing.of(of)
	positions, err := m.places.at(width/m.patch, height/m.patch)
	if err != nil {
		return nil, err
	}
	v := m.view(of.Resize(width, height, picture.Bicubic), m.side, positions)
	v.Mutual = m.mutual
	return gemma4Parts(v), nil
}

func gemma4Parts(v *View) []Part { return []Part{{Text: "<|image>"}, {View: v}, {Text: "<image|>"}} }

func (m *gemma4) Forward(p *nn.Pass, _ *View) compute.Tensor {
	x := averaged(p, m.encode(p, m.embed(p, true)), m.side*m.side)
	p.Scale(x, float32(math.Sqrt(float64(m.width))))
	p.ShiftBy(x, m.shift)
	p.MultiplyBy(x, m.scale)
	p.Normalize(x, m.norm)
	return p.Linear(x, &m.out)
}

// gemma4Places are learned positions of columns and of rows. A patch's position is the sum of its two.
type gemma4Places struct {
	table    []float32 // [2][n][width]
	n, width int
}

func bindGemma4Places(b *nn.Binder, width int) gemma4Places {
	const name = "v.position_embd.weight"
	g := gemma4Places{width: width}
	if !b.Has(name) {
		b.Fail("tensor %q is missing: the file is incomplete; download or convert it again", name)
		return g
	}
	g.table = b.Table(name, width)
	if g.n = b.Rows(name) / 2; g.n == 0 || b.Rows(name)%2 != 0 {
		b.Fail("tensor %q does not have as many positions of columns as of rows: the file is damaged; download or convert it again", name)
	}
	return g
}

// at returns the positions of a picture with wide·high patches. [high·wide, width]
func (g *gemma4Places) at(wide, high int) ([]float32, error) {
	if max(wide, high) > g.n {
		return nil, fmt.Errorf("a picture of %d times %d patches is too long for the tower, which has positions for %d: cut it into several", wide, high, g.n)
	}
	at := make([]float32, 0, high*wide*g.width)
	for y := range high {
		row := g.table[(g.n+y)*g.width:][:g.width]
		for x := range wide {
			for i, v := range g.table[x*g.width:][:g.width] {
				at = append(at, v+row[i])
			}
		}
	}
	return at, nil
}

// gemma4Unified is the tower of a Gemma 4 that reads patches itself. It has no layers. A patch has the size of the
// other tower's blocks and becomes a row.
//
// Source: transformers' Gemma4UnifiedVisionEmbedder.
type gemma4Unified struct {
	keys
	sizing
	pixelNorm nn.Norm // norm of a patch
	patches   nn.Linear
	patchNorm nn.Norm // norm of its product
	places    gemma4Places
	placeNorm nn.Norm // norm of the product plus the position
	norm      nn.Norm // norm of out's input
	out       nn.Linear
}

func newGemma4Unified(k *nn.Keys, b *nn.Binder, limits Limits) Program {
	t := readKeys(k)
	side := k.Count(".projector.scale_factor", 3, maxPatch)
	if t.patch *= side; t.patch > maxPatch {
		k.Fail("patches of %d pixels are too large", t.patch)
		t.patch = 1
	}
	const eps = 1e-5 // files do not say it
	m := &gemma4Unified{keys: t, sizing: readSizing(k, &t, t.patch, gemma4Least, gemma4Most, limits)}
	m.inStep(limits)
	v := b.Under("v.")
	m.pixelNorm = v.LayerNorm("patch_norm.1", t.pixels(), eps, nn.HasBias)
	m.patches = v.Filter("patch_embd", t.width, t.pixels(), 1, nn.HasBias)
	m.patchNorm = v.LayerNorm("patch_norm.2", t.width, eps, nn.HasBias)
	m.places = bindGemma4Places(b, t.width)
	m.placeNorm = v.LayerNorm("patch_norm.3", t.width, eps, nn.HasBias)
	m.norm = b.UnitNorm(t.width, t.eps)
	m.out = b.Linear("mm.input_projection", t.textWidth, t.width, nn.NoBias)
	return m
}

func (m *gemma4Unified) Sizes() Sizes {
	s := m.sizes(&m.keys, m.textWidth)
	s.Mutual = true
	return s
}

func (m *gemma4Unified) Show(of *picture.Image) ([]Part, error) {
	width, height := m.sizing.of(of)
	positions, err := m.places.at(width/m.patch, height/m.patch)
	if err != nil {
		return nil, err
	}
	v := m.view(of.Resize(width, height, picture.Bicubic), 1, positions)
	v.Mutual = true
	return gemma4Parts(v), nil
}

func (m *gemma4Unified) Forward(p *nn.Pass, _ *View) compute.Tensor {
	pixels := p.Tokens(m.pixels())
	p.Insert(pixels, 0)
	p.Normalize(pixels, m.pixelNorm)
	x := p.Linear(pixels, &m.patches)
	p.Normalize(x, m.patchNorm)
	p.InsertMore(x, m.pixels())
	p.Normalize(x, m.placeNorm)
	p.Normalize(x, m.norm)
	return p.Linear(x, &m.out)
}
