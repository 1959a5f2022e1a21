package family

import (
	"math"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/nn"
)

// gemma4 is the text part of Gemma 4: norms before and after attention and the feed-forward layer, norms of every head
// of queries, keys and values, and sliding windows in five of six layers, with heads of another size and another
// rotation. Keys may also be the values. The small models also have an embedding of each token for each layer, and
// their last layers read the keys and values of earlier ones. The 26B-A4B has experts in parallel to the feed-forward
// layer. Embeddings are scaled by the square root of their width.
type gemma4 struct {
	gemma4Shape
	experts nn.ExpertSpec  // Count is 0 in models without experts
	ownKV   int            // layers, the first ones, that have keys and values of their own
	inputs  nn.LayerInputs // in the small models
	ends
	blocks []gemma4Block
}

// gemma4Shape is what Gemma 4 and its draft models have in common.
type gemma4Shape struct {
	sizes
	eps    float32 // epsilon of the norms
	act    compute.Activation
	scores nn.Scores

	rope, windowRope *compute.Rope // for layers that see all positions, and for sliding-window layers
	window           int           // positions that a token sees in layers with windows; 0: all
	windowed         []bool        // [layers]
}

type gemma4Block struct {
	layer        int
	attnNorm     nn.Norm
	attn         *nn.Attention
	attnPost     nn.Norm // norm of attention's output
	ffnNorm      nn.Norm
	ffn          *nn.FFN
	mixture      *gemma4Mixture // or nil
	ffnPost      nn.Norm        // norm of the feed-forward layer's output
	ownEmbedding nn.LayerInput  // or none
	scale        float32        // factor of the residual after the block
}

// gemma4Mixture is a block's experts. They, their router and the feed-forward layer read the residual through norms of
// their own, and what experts and feed-forward layer give is normed before it is added up.
type gemma4Mixture struct {
	routerNorm           nn.Norm // its weights are divided by the square root of the width
	norm                 nn.Norm // before the experts
	experts              *nn.Experts
	ffnPost, expertsPost nn.Norm // norms of the feed-forward layer's output and of the experts'
}

func newGemma4(k *nn.Keys, b *nn.Binder) Program {
	m := &gemma4{gemma4Shape: readGemma4(k, b)}
	n := len(m.layers)
	m.experts = k.Experts(nn.ExpertSpec{
		Width: m.embd, Neurons: m.ff(), Gated: true, Act: m.act, Routing: compute.Routing{Score: compute.Softmax, Normalised: true, MinSum: nn.LeastSum},
	})
	m.ownKV = k.OwnKV(n, 0)
	m.embed = b.Embedding(m.embd)
	m.embed.Scale = float32(math.Sqrt(float64(m.embd)))
	m.output = b.Output(&m.embed, b.RMSNorm("output_norm", m.embd, m.eps), k.LogitCap(30))
	if width := k.Optional(".embedding_length_per_layer_input", nn.MaxWidth/n); width > 0 {
		m.inputs = b.LayerInputs(b.Rows("token_embd.weight"), n, width, m.embd, m.eps)
	}
	m.blocks = bindBlocks(b, len(m.layers), m.block)
	return m
}

// readGemma4 reads what Gemma 4 and its draft models have in common, and binds their rotations.
func readGemma4(k *nn.Keys, b *nn.Binder) gemma4Shape {
	m := gemma4Shape{sizes: readSizes(k), eps: k.RMSEpsilon(1e-6), act: k.Activation(compute.GELU), scores: k.Scores(nn.Scores{Scale: 1})}
	m.window, m.windowed = k.Windows(nn.WindowSpec{Window: 512, FullEvery: 6}, len(m.layers), m.context)
	narrow := 0 // elements of a head of layers with windows
	for i := range m.layers {
		if l := &m.layers[i]; m.windowed[i] {
			l.Key, l.Value = k.Count(".attention.key_length_swa", l.Key, nn.MaxWidth), k.Count(".attention.value_length_swa", l.Value, nn.MaxWidth)
			narrow = l.Key
		}
	}
	rope := k.Rope(nn.RopeSpec{Style: compute.Halves, Dims: m.key(), Base: 1e6, Trained: m.context})
	m.rope = b.Rope(rope)
	if narrow > 0 {
		rope = k.WindowRope(rope, 1e4).Unscaled()
		rope.Dims = k.Count(".rope.dimension_count_swa", narrow, nn.MaxWidth)
		k.RopeFits(rope, ".rope.dimension_count_swa", narrow)
		m.windowRope = b.RopeWith(rope, nil)
	}
	return m
}

// block binds block i.
func (m *gemma4) block(b *nn.Binder, i int) gemma4Block {
	l := m.layers[i]
	var a *nn.Attention
	if i < m.ownKV {
		a = b.Attention(l.HeadShape)
		b.QKVOrQK(a, m.embd, nn.MayHaveBias)
		a.KNorm, a.VNorm = b.HeadNorm("attn_k_norm", l.Key, m.eps), b.UnitNorm(l.Value, m.eps)
	} else {
		a = b.QueriesOf(nn.LastOfKind(m.windowed, m.ownKV, i), l.HeadShape, m.embd, nn.MayHaveBias)
	}
	block := m.gemma4Shape.block(b, i, a)
	if ffn := (nn.FFNSpec{Width: m.embd, Neurons: l.ff, Gated: true, Act: m.act, InputNorm: block.ffnNorm}); b.HasExperts() {
		block.ffn, block.mixture = b.FFNBesideExperts(ffn), m.mixture(b)
	} else {
		block.ffn = b.FFN(ffn)
	}
	if m.inputs.Width > 0 {
		block.ownEmbedding = b.LayerInput(m.inputs.Width, m.embd, m.eps)
	}
	return block
}

// block binds everything in a block but the feed-forward layer. The queries, keys and values of attention a must be
// bound.
func (m *gemma4Shape) block(b *nn.Binder, i int, a *nn.Attention) gemma4Block {
	l := m.layers[i]
	a.QNorm = b.HeadNorm("attn_q_norm", l.Key, m.eps)
	a.Rope, a.Scores = m.rope, b.Scores(m.scores, l.HeadShape)
	if m.windowed[i] {
		a.Rope, a.Scores.Window = m.windowRope, m.window
	}
	a.Onward = !m.windowed[i]
	a.Out = b.Linear("attn_output", m.embd, l.Heads*l.Value, nn.MayHaveBias)

	block := gemma4Block{
		layer:    i,
		attnNorm: b.RMSNorm("attn_norm", m.embd, m.eps),
		attn:     a,
		attnPost: b.RMSNorm("post_attention_norm", m.embd, m.eps),
		ffnNorm:  b.RMSNorm("ffn_norm", m.embd, m.eps),
		ffnPost:  b.RMSNorm("post_ffw_norm", m.embd, m.eps),
		scale:    1,
	}
	if name := "layer_output_scale.weight"; b.Has(name) {
		if scale := b.Floats(name, 1); scale != nil {
			block.scale = scale[0]
		}
	}
	return block
}

// mixture binds a block's experts.
func (m *gemma4) mixture(b *nn.Binder) *gemma4Mixture {
	routerNorm := b.ScaledNorm("ffn_gate_inp.scale", m.embd, m.eps, float32(1/math.Sqrt(float64(m.embd))))
	return &gemma4Mixture{
		routerNorm:  routerNorm,
		norm:        b.RMSNorm("pre_ffw_norm_2", m.embd, m.eps),
		experts:     b.Experts(m.experts, nil).Reads(routerNorm),
		ffnPost:     b.RMSNorm("post_ffw_norm_1", m.embd, m.eps),
		expertsPost: b.RMSNorm("post_ffw_norm_2", m.embd, m.eps),
	}
}

// AllRows is of family.AllRows: layers' own embeddings are of all rows.
func (m *gemma4) AllRows() bool { return m.inputs.Width > 0 }

func (m *gemma4) Forward(p *nn.Pass) compute.Tensor {
	x := m.embed.Forward(p)
	var inputs compute.Tensor
	if m.inputs.Width > 0 {
		inputs = m.inputs.Forward(p, x)
	}
	for i := range m.blocks {
		p.Layer(i, x)
		x = m.blocks[i].forward(p, x, inputs)
	}
	return x
}

func (l *gemma4Block) forward(p *nn.Pass, x, inputs compute.Tensor) compute.Tensor {
	x, y := l.attn.Forward(p, x, p.Norm(x, l.attnNorm))
	p.Normalize(y, l.attnPost)
	p.Add(x, y)
	y = l.ffn.Forward(p, x, p.Norm(x, l.ffnNorm))
	if l.mixture != nil {
		p.Normalize(y, l.mixture.ffnPost)
		p.Add(y, l.mixture.forward(p, x))
	}
	p.Normalize(y, l.ffnPost)
	p.Add(x, y)
	if l.ownEmbedding.Bound() {
		p.Add(x, l.ownEmbedding.Forward(p, x, inputs, l.layer))
	}
	p.Scale(x, l.scale)
	return x
}

// forward returns the normed output of the experts for the residual x. [n, n_embd]
func (l *gemma4Mixture) forward(p *nn.Pass, x compute.Tensor) compute.Tensor {
	y := l.experts.Mix(p, l.experts.Rate(p, p.Norm(x, l.routerNorm)), x, p.Norm(x, l.norm))
	p.Normalize(y, l.expertsPost)
	return y
}
