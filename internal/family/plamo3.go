package family

import (
	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/nn"
)

// plamo3 is PLaMo 3: norms before and after attention and SwiGLU, a norm of every head of queries and keys, and a window
// in all but every eighth layer. Files hold queries, keys and values as one tensor, and gates and ups as another.
//
// Source: Preferred Networks 2025, the model card and configuration of PLaMo 3 NICT.
type plamo3 struct {
	sizes
	eps    float32 // epsilon of the norms
	act    compute.Activation
	scores nn.Scores

	rope, windowRope *compute.Rope // for layers that see all positions, and for sliding-window layers
	window           int           // positions that a token sees in layers with windows; 0: all
	windowed         []bool        // [layers]

	ends
	blocks []nn.Sandwich
}

func newPLaMo3(k *nn.Keys, b *nn.Binder) Program {
	m := &plamo3{sizes: readSizes(k), eps: k.RMSEpsilon(1e-6), act: k.Activation(compute.SiLU), scores: k.Scores(nn.Scores{})}
	m.window, m.windowed = k.Windows(nn.WindowSpec{FullEvery: 8}, len(m.layers), m.context)
	rope := k.Rope(nn.RopeSpec{Style: compute.Halves, Dims: m.key(), Trained: m.context})
	factors := b.RopeFactors(rope)
	m.rope, m.windowRope = b.RopeWith(rope, factors), b.RopeWith(k.WindowRope(rope.Unscaled(), 10000), factors)

	m.embed = b.Embedding(m.embd)
	m.output = b.Output(&m.embed, b.RMSNorm("output_norm", m.embd, m.eps), k.LogitCap(0))
	m.blocks = bindBlocks(b, len(m.layers), m.block)
	return m
}

// block binds a block like layer i's.
func (m *plamo3) block(b *nn.Binder, i int) nn.Sandwich {
	l := m.layers[i]
	a := b.Attention(l.HeadShape)
	b.QKV(a, m.embd, nn.NoBias)
	a.QNorm, a.KNorm = b.HeadNorm("attn_q_norm", l.Key, m.eps), b.HeadNorm("attn_k_norm", l.Key, m.eps)
	a.Rope, a.Scores = m.rope, b.Scores(m.scores, l.HeadShape)
	if m.windowed[i] {
		a.Rope, a.Scores.Window = m.windowRope, m.window
	}
	a.Out = b.Linear("attn_output", m.embd, l.Heads*l.Value, nn.NoBias)

	ffnNorm := b.RMSNorm("ffn_norm", m.embd, m.eps)
	return nn.Sandwich{
		PreNorm: nn.PreNorm{
			AttnNorm: b.RMSNorm("attn_norm", m.embd, m.eps),
			Attn:     a,
			FFNNorm:  ffnNorm,
			FFN:      b.FFN(nn.FFNSpec{Width: m.embd, Neurons: l.ff, Gated: true, Act: m.act, InputNorm: ffnNorm}),
		},
		AttnPost: nn.Norm{Weight: b.Vector("post_attention_norm", m.embd), Epsilon: m.eps},
		FFNPost:  nn.Norm{Weight: b.Vector("post_ffw_norm", m.embd), Epsilon: m.eps},
	}
}

func (m *plamo3) Forward(p *nn.Pass) compute.Tensor { return through(p, m.embed.Forward(p), m.blocks) }
