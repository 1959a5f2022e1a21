package family

import (
	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/nn"
)

// phi3 is Phi-3, 3.5 and 4: pre-norm blocks, grouped-query attention with a sliding window, and SwiGLU. Files hold
// queries, keys and values as one tensor, and gates and ups as another. Long contexts divide frequencies by factors of
// their own.
//
// Source: Microsoft 2024, Phi-3 Technical Report.
type phi3 struct {
	sizes
	eps    float32 // epsilon of the norms
	act    compute.Activation
	rope   *compute.Rope
	scores nn.Scores

	window     int    // positions that a token sees in layers with windows; 0: all
	windowed   []bool // [layers] in most files all
	windowRope *compute.Rope

	ends
	blocks []nn.PreNorm
}

func newPhi3(k *nn.Keys, b *nn.Binder) Program {
	m := &phi3{sizes: readSizes(k), eps: k.RMSEpsilon(1e-5), act: k.Activation(compute.SiLU), scores: k.Scores(nn.Scores{})}
	rope := k.Rope(nn.RopeSpec{Style: compute.Halves, Dims: m.key(), Trained: m.context})
	factors := b.RopeFactors(rope)
	m.rope, m.windowRope = b.RopeWith(rope, factors), b.RopeWith(k.WindowRope(rope, 0), factors)
	m.window, m.windowed = k.Windows(nn.WindowSpec{}, len(m.layers), m.context)

	m.embed = b.Embedding(m.embd)
	m.output = b.Output(&m.embed, b.RMSNorm("output_norm", m.embd, m.eps), k.LogitCap(0))
	m.blocks = bindBlocks(b, len(m.layers), m.block)
	return m
}

// block binds a block like layer i's.
func (m *phi3) block(b *nn.Binder, i int) nn.PreNorm {
	l := m.layers[i]
	a := b.Attention(l.HeadShape)
	b.QKV(a, m.embd, nn.MayHaveBias)
	a.Rope, a.Scores = m.rope, b.Scores(m.scores, l.HeadShape)
	if m.windowed[i] {
		a.Rope, a.Scores.Window = m.windowRope, m.window
	}
	a.Out = b.Linear("attn_output", m.embd, l.Heads*l.Value, nn.NoBias)

	ffnNorm := b.RMSNorm("ffn_norm", m.embd, m.eps)
	return nn.PreNorm{
		AttnNorm: b.RMSNorm("attn_norm", m.embd, m.eps),
		Attn:     a,
		FFNNorm:  ffnNorm,
		FFN:      b.FFN(nn.FFNSpec{Width: m.embd, Neurons: l.ff, Gated: true, Act: m.act, InputNorm: ffnNorm}),
	}
}

func (m *phi3) Forward(p *nn.Pass) compute.Tensor { return through(p, m.embed.Forward(p), m.blocks) }

func (m *phi3) BindMTP(b *nn.Binder, _ int) Block { return new(m.block(b, len(m.layers)-1)) }
