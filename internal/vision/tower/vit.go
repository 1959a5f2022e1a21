package tower

import (
	"math"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/nn"
	"github.com/powerinfer-go/powerinfer/internal/picture"
)

// keys are hyperparameters that the files of all towers have.
type keys struct {
	width, layers int
	heads         nn.HeadShape
	image, patch  int // sides in pixels
	textWidth     int // numbers of a row that the text model reads
	eps           float32
	act           compute.Activation
	mean, std     [3]float32 // for red, green and blue
}

// read reads the hyperparameters that the files of all towers have.
func readKeys(k *nn.Keys) keys {
	t := keys{
		width: k.RequiredCount(".embedding_length", nn.MaxWidth), layers: k.Optional(".block_count", nn.MaxLayers),
		image: k.RequiredCount(".image_size", maxImage), patch: k.RequiredCount(".patch_size", maxPatch),
		textWidth: k.RequiredCount(".projection_dim", nn.MaxWidth),
		eps:       k.LayerNormEpsilon(1e-6), act: compute.Activation{Kind: compute.GELUQuick},
		mean: k.Colour(".image_mean"), std: k.Colour(".image_std"),
	}
	heads := k.Count(".attention.head_count", 1, nn.MaxWidth) // some towers have no layers
	if t.width%heads != 0 {
		k.Fail("%d heads do not share a width of %d evenly", heads, t.width)
		heads = 1
	}
	t.heads = nn.HeadShape{Heads: heads, KVHeads: heads, Key: t.width / heads, Value: t.width / heads}
	switch {
	case k.Flag("clip.use_gelu", false):
		t.act.Kind = compute.GELU
	case k.Flag("clip.use_silu", false):
		t.act.Kind = compute.SiLU
	}
	for _, s := range t.std {
		if s == 0 {
			k.Fail("key %q: a colour without deviation", "clip.vision.image_std")
		}
	}
	return t
}

// geluErf selects the GELU with erf, for towers that use it: files have one name for both forms.
func (t *keys) geluErf() {
	if t.act.Kind == compute.GELU {
		t.act.Kind = compute.GELUErf
	}
}

// Bounds on what a tower sees, in pixels: on the side of a square that all pictures or tiles become, or of a block of
// patches; on a patch's side; and on all of a picture.
const (
	maxImage  = 1 << 12
	maxPatch  = 1 << 8
	maxPixels = 1 << 25
)

// pixels returns the numbers of a patch.
func (t *keys) pixels() int { return 3 * t.patch * t.patch }

// cut returns the patches of a picture, row after row: pixels, and the patch's learned position, if there are positions
// [n, width].
func (t *keys) cut(m *picture.Image, positions []float32) (patches [][]float32) {
	more := 0
	if positions != nil {
		more = t.width
	}
	for y := 0; y+t.patch <= m.Height; y += t.patch {
		for x := 0; x+t.patch <= m.Width; x += t.patch {
			one := make([]float32, t.pixels()+more)
			m.Patch(one[:t.pixels()], x, y, t.patch, t.mean, t.std)
			copy(one[t.pixels():], positions[len(patches)*more:])
			patches = append(patches, one)
		}
	}
	return patches
}

// vit is a vision transformer: pre-norm blocks of attention in which all patches see each other, and of feed-forward
// layers.
//
// Source: Dosovitskiy et al. 2021, An Image is Worth 16x16 Words.
type vit struct {
	keys
	patches nn.Linear // [width, 3·patch·patch]
	before  nn.Norm   // norm of the first block's input, or none
	blocks  []vitBlock
	after   nn.Norm // norm of the last block's output, or none
}

type vitBlock struct {
	attnNorm  nn.Norm
	attn      *nn.Attention
	attnPost  nn.Norm         // norm of attention's output, or none
	attnScale *compute.Vector // [width] factor of attention's output, or nil
	ffnNorm   nn.Norm
	ffn       *nn.FFN
	ffnPost   nn.Norm         // norm of the feed-forward layer's output, or none
	ffnScale  *compute.Vector // [width] factor of the feed-forward layer's output, or nil
	scale     *compute.Vector // [width] factor of the block's output, or nil
}

// vitSpec says how a tower differs from the others that share these blocks.
type vitSpec struct {
	rms      bool          // norms are RMSNorms
	gated    bool          // feed-forward layers are
	rope     *compute.Rope // nil: heads are not rotated
	bias     nn.Presence   // biases of the products
	times    int           // filters of a patch, for pictures that follow one another; 0: one
	unbiased bool          // the patches' bias is not added by their product
	every    int           // only every every-th layer sees the whole picture, the others View.Bounds; 0: all see it
}

// newViT binds the blocks, and the filter of the patches. b is for all tensors of the file.
func newViT(t keys, b *nn.Binder, s vitSpec) vit {
	v := b.Under("v.")
	bias := nn.Optional
	if s.unbiased {
		bias = nn.Absent
	}
	m := vit{keys: t, patches: v.Filter("patch_embd", t.width, t.pixels(), max(1, s.times), bias)}
	if v.Has("pre_ln.weight") {
		m.before = s.norm(v, "pre_ln", &t)
	}
	for i := range t.layers {
		block := m.block(v.Layer(i), s)
		if s.every > 0 && (i+1)%s.every != 0 {
			block.attn.Scores.Later, block.attn.Scores.Bounded = false, true
		}
		m.blocks = append(m.blocks, block)
	}
	if v.Has("post_ln.weight") {
		m.after = s.norm(v, "post_ln", &t)
	}
	return m
}

func (s *vitSpec) norm(b *nn.Binder, name string, t *keys) nn.Norm {
	if s.rms {
		return b.RMSNorm(name, t.width, t.eps)
	}
	return b.LayerNorm(name, t.width, t.eps, nn.HasBias)
}

// block binds a block.
func (m *vit) block(b *nn.Binder, s vitSpec) vitBlock {
	a := b.Attention(m.heads)
	b.QKV(a, m.width, s.bias)
	for _, n := range []struct {
		name string
		norm *nn.HeadNorm
	}{{"attn_q_norm", &a.QNorm}, {"attn_k_norm", &a.KNorm}} {
		switch weight := n.name + ".weight"; {
		case !b.Has(weight):
		case b.Cols(weight) == m.width:
			*n.norm = b.WideNorm(n.name, m.width, m.eps)
		default:
			*n.norm = b.HeadNorm(n.name, m.heads.Key, m.eps)
		}
	}
	a.Rope = s.rope
	a.Scores = compute.Attention{Scale: float32(1 / math.Sqrt(float64(m.heads.Key))), Later: true}
	a.Out = b.Linear("attn_out", m.width, m.width, s.bias)
	l := vitBlock{
		attnNorm: s.norm(b, "ln1", &m.keys), attn: a,
		ffnNorm: s.norm(b, "ln2", &m.keys),
		ffn:     b.FFN(m.ffnSpec(b, s)),
	}
	if b.Has("attn_post_norm.weight") {
		l.attnPost, l.ffnPost = s.norm(b, "attn_post_norm", &m.keys), s.norm(b, "ffn_post_norm", &m.keys)
	}
	if b.Has("ls1.weight") {
		l.attnScale, l.ffnScale = b.Vector("ls1.weight", m.width), b.Vector("ls2.weight", m.width)
	}
	if b.Has("out_scale.weight") {
		l.scale = b.Spread("out_scale.weight", m.width)
	}
	return l
}

// ffnSpec describes a block's feed-forward layer. Old files have the names of its matrices exchanged. Its width is the
// matrices': llama.cpp's files of GLM-4.1V and Qwen2-VL state another width.
func (m *vit) ffnSpec(b *nn.Binder, s vitSpec) nn.FFNSpec {
	const up, down = "ffn_up.weight", "ffn_down.weight"
	ffn := nn.FFNSpec{
		Width: m.width, Neurons: b.Rows(up), Gated: s.gated, Act: m.act, UpBias: s.bias, DownBias: s.bias, Precise: true,
		Swapped: b.Rows(down) != m.width && b.Rows(up) == m.width,
	}
	if s.gated {
		ffn.GateBias = s.bias
	}
	if ffn.Swapped {
		ffn.Neurons = b.Rows(down)
	}
	return ffn
}

// embed returns the patches' embeddings. Where learned is set, the view has learned positions after each patch's
// pixels, which are added. [n, width]
func (m *vit) embed(p *nn.Pass, learned bool) compute.Tensor {
	pixels := p.Tokens(m.pixels())
	p.Insert(pixels, 0)
	x := p.Linear(pixels, &m.patches)
	if learned {
		p.InsertMore(x, m.pixels())
	}
	return x
}

// encode returns the blocks' output for the patches' embeddings x. [n, width]
func (m *vit) encode(p *nn.Pass, x compute.Tensor) compute.Tensor { return m.encodeWith(p, x, nil) }

// encodeWith is encode. each, which may be nil, sees what each block gives.
func (m *vit) encodeWith(p *nn.Pass, x compute.Tensor, each func(i int, x compute.Tensor)) compute.Tensor {
	p.Normalize(x, m.before)
	for i := range m.blocks {
		p.Layer(i, x)
		x = m.blocks[i].forward(p, x)
		if each != nil {
			each(i, x)
		}
	}
	p.Normalize(x, m.after)
	return x
}

func (l *vitBlock) forward(p *nn.Pass, x compute.Tensor) compute.Tensor {
	x, y := l.attn.Forward(p, x, p.Norm(x, l.attnNorm))
	p.Normalize(y, l.attnPost)
	p.MultiplyBy(y, l.attnScale)
	p.Add(x, y)
	y = l.ffn.Forward(p, x, p.Norm(x, l.ffnNorm))
	p.Normalize(y, l.ffnPost)
	p.MultiplyBy(y, l.ffnScale)
	p.Add(x, y)
	p.MultiplyBy(x, l.scale)
	return x
}

// multilayer is two linear layers with an activation between.
type multilayer struct {
	in, out nn.Linear
	act     compute.Activation
}

// bindMultilayer binds the layers first and second, in → hidden → out. bias says whether they have biases.
func bindMultilayer(b *nn.Binder, first, second string, in, hidden, out int, act compute.Nonlinearity, bias nn.Presence) multilayer {
	return multilayer{b.Linear(first, hidden, in, bias), b.Linear(second, out, hidden, bias), compute.Activation{Kind: act}}
}

// forward returns the layers' output for x. There are n times fewer rows than patches. [rows, out]
func (m *multilayer) forward(p *nn.Pass, x compute.Tensor, n int) compute.Tensor {
	y := merged(p, x, m.in.W.Rows, n)
	p.LinearTo(y, x, &m.in)
	p.Activate(y, compute.Tensor{}, m.act)
	z := merged(p, x, m.out.W.Rows, n)
	p.LinearTo(z, y, &m.out)
	return z
}

// merged returns an activation of cols columns for the rows of x; there are n times fewer rows than patches. If cols
// allows, it uses memory for n times more rows that are n times narrower. Its content is undefined.
func merged(p *nn.Pass, x compute.Tensor, cols, n int) compute.Tensor {
	if cols%n != 0 {
		return p.New(x, cols)
	}
	x.Rows *= n
	return p.New(x, cols/n).Split(cols)
}

// averaged returns the averages of each n consecutive rows. [rows/n, cols]
func averaged(p *nn.Pass, x compute.Tensor, n int) compute.Tensor {
	cols := x.Cols
	groups := x.Split(n * cols)
	sum := p.Slice(groups, 0, cols)
	for i := 1; i < n; i++ {
		p.Add(sum, p.Slice(groups, i*cols, cols))
	}
	p.Scale(sum, 1/float32(n))
	return sum
}

// inBlocks returns the numbers, row after row, of the patches of a picture of wide times high patches, in the order of
// blocks of side times side patches: blocks row after row, and the patches of a block row after row.
func inBlocks(wide, high, side int) (order []int) {
	for y := 0; y < high; y += side {
		for x := 0; x < wide; x += side {
			for dy := range side {
				for dx := range side {
					order = append(order, (y+dy)*wide+x+dx)
				}
			}
		}
	}
	return order
}

// ordered returns the patches in an order.
func ordered[T any](patches []T, order []int) []T {
	out := make([]T, len(order))
	for i, n := range order {
		out[i] = patches[n]
	}
	return out
}
