package family

import (
	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/nn"
)

// olmo2 is OLMo 2 and 3: norms after attention and SwiGLU instead of before them, and norms of queries and keys, over
// all heads together. OLMo 3 has a sliding window in three of four layers, which do not scale RoPE for long contexts.
//
// Source: OLMo Team 2024, 2 OLMo 2 Furious.
type olmo2 struct {
	sizes
	eps    float32 // epsilon of the norms
	act    compute.Activation
	scores nn.Scores

	rope, windowRope *compute.Rope // for layers that see all positions, and for sliding-window layers
	window           int           // positions that a token sees in layers with windows; 0: all
	windowed         []bool        // [layers]

	ends
	blocks []nn.PostNorm
}

func newOLMo2(k *nn.Keys, b *nn.Binder) Program {
	m := &olmo2{sizes: readSizes(k), eps: k.RMSEpsilon(1e-5), act: k.Activation(compute.SiLU), scores: k.Scores(nn.Scores{})}
	m.window, m.windowed = k.Windows(nn.WindowSpec{FullEvery: 4}, len(m.layers), m.context)
	rope := k.Rope(nn.RopeSpec{Style: compute.Halves, Dims: m.key(), Trained: m.context})
	m.rope, m.windowRope = b.Rope(rope), b.RopeWith(k.WindowRope(rope, 0).Unscaled(), nil)

	m.embed = b.Embedding(m.embd)
	m.output = b.Output(&m.embed, b.RMSNorm("output_norm", m.embd, m.eps), k.LogitCap(0))
	m.blocks = bindBlocks(b, len(m.layers), m.block)
	return m
}

// block binds a block like layer i's.
func (m *olmo2) block(b *nn.Binder, i int) nn.PostNorm {
	l := m.layers[i]
	a := b.Attention(l.HeadShape)
	b.QKV(a, m.embd, nn.MayHaveBias)
	a.QNorm, a.KNorm = b.WideNorm("attn_q_norm", l.Heads*l.Key, m.eps), b.WideNorm("attn_k_norm", l.KVHeads*l.Key, m.eps)
	a.Rope, a.Scores = m.rope, b.Scores(m.scores, l.HeadShape)
	if m.windowed[i] {
		a.Rope, a.Scores.Window = m.windowRope, m.window
	}
	a.Out = b.Linear("attn_output", m.embd, l.Heads*l.Value, nn.MayHaveBias)

	return nn.PostNorm{
		Attn:     a,
		AttnPost: b.RMSNorm("post_attention_norm", m.embd, m.eps),
		FFN:      b.FFN(nn.FFNSpec{Width: m.embd, Neurons: l.ff, Gated: true, Act: m.act}),
		FFNPost:  b.RMSNorm("post_ffw_norm", m.embd, m.eps),
	}
}

func (m *olmo2) Forward(p *nn.Pass) compute.Tensor { return through(p, m.embed.Forward(p), m.blocks) }

func (m *olmo2) BindMTP(b *nn.Binder, _ int) Block { return new(m.block(b, len(m.layers)-1)) }
