package family

import (
	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/nn"
)

// phi2 is Phi 1, 1.5 and 2: attention and the feed-forward layer read one LayerNorm of the residual, side by side, and
// are added to it together. A part of each head is rotated, as files say. There are biases everywhere, also of the
// head.
//
// Source: Li et al. 2023, Textbooks Are All You Need II: phi-1.5 technical report.
type phi2 struct {
	sizes
	eps    float32 // epsilon of the norms
	act    compute.Activation
	rope   *compute.Rope
	scores nn.Scores

	ends
	blocks []nn.Parallel
}

func newPhi2(k *nn.Keys, b *nn.Binder) Program {
	m := &phi2{sizes: readSizes(k), eps: k.LayerNormEpsilon(1e-5), act: k.Activation(compute.GELU), scores: k.Scores(nn.Scores{})}
	m.rope = b.Rope(k.Rope(nn.RopeSpec{Style: compute.Halves, Dims: m.key(), Trained: m.context}))

	m.embed = b.Embedding(m.embd)
	m.output = b.Output(&m.embed, b.LayerNorm("output_norm", m.embd, m.eps, nn.HasBias), k.LogitCap(0))
	m.output.Head.B = b.Bias("output", b.Rows("token_embd.weight"), nn.Required)
	m.blocks = bindBlocks(b, len(m.layers), m.block)
	return m
}

// block binds a block like layer i's.
func (m *phi2) block(b *nn.Binder, i int) nn.Parallel {
	l := m.at(i)
	a := b.Attention(l.HeadShape)
	b.QKV(a, m.embd, nn.HasBias)
	a.Rope, a.Scores = m.rope, b.Scores(m.scores, l.HeadShape)
	a.Out = b.Linear("attn_output", m.embd, l.Heads*l.Value, nn.HasBias)
	return nn.Parallel{
		Norm: b.LayerNorm("attn_norm", m.embd, m.eps, nn.HasBias),
		Attn: a,
		FFN:  b.FFN(nn.FFNSpec{Width: m.embd, Neurons: l.ff, Act: m.act, UpBias: nn.Required, DownBias: nn.Required, Parallel: true}),
	}
}

func (m *phi2) Forward(p *nn.Pass) compute.Tensor { return through(p, m.embed.Forward(p), m.blocks) }
