package family

import (
	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/nn"
)

// falconH1 is Falcon-H1: in each block grouped-query attention and a selective state space read the same norm of the
// residual, and both are added to it; SwiGLU follows.
//
// Source: Falcon-LLM Team 2025, Falcon-H1: A Family of Hybrid-Head Language Models.
type falconH1 struct {
	sizes
	eps    float32 // epsilon of the norms
	act    compute.Activation
	rope   *compute.Rope
	scores nn.Scores
	states nn.StateSpec

	ends
	blocks []falconH1Block
}

type falconH1Block struct {
	number  int
	norm    nn.Norm
	attn    *nn.Attention
	mamba   *nn.Mamba2
	ffnNorm nn.Norm
	ffn     *nn.FFN
}

func newFalconH1(k *nn.Keys, b *nn.Binder) Program {
	m := &falconH1{sizes: readSizes(k), eps: k.RMSEpsilon(1e-5), act: k.Activation(compute.SiLU), scores: k.Scores(nn.Scores{}), states: k.States()}
	m.rope = b.Rope(k.Rope(nn.RopeSpec{Style: compute.Halves, Dims: m.key(), Trained: m.context}))

	m.embed = b.Embedding(m.embd)
	m.output = b.Output(&m.embed, b.RMSNorm("output_norm", m.embd, m.eps), k.LogitCap(0))
	m.blocks = bindBlocks(b, len(m.layers), m.block)
	return m
}

// block binds block i.
func (m *falconH1) block(b *nn.Binder, i int) falconH1Block {
	l := m.layers[i]
	a := b.Attention(l.HeadShape)
	b.QKV(a, m.embd, nn.MayHaveBias)
	a.Rope, a.Scores = m.rope, b.Scores(m.scores, l.HeadShape)
	a.Out = b.Linear("attn_output", m.embd, l.Heads*l.Value, nn.MayHaveBias)

	ffnNorm := nn.Norm{Weight: b.Vector("ffn_norm", m.embd), Epsilon: m.eps} // files leave ".weight" out
	return falconH1Block{
		number:  i,
		norm:    b.RMSNorm("attn_norm", m.embd, m.eps),
		attn:    a,
		mamba:   b.Mamba2(m.states, m.embd, m.eps, nn.Optional),
		ffnNorm: ffnNorm,
		ffn:     b.FFN(nn.FFNSpec{Width: m.embd, Neurons: l.ff, Gated: true, Act: m.act, InputNorm: ffnNorm}),
	}
}

func (m *falconH1) Forward(p *nn.Pass) compute.Tensor {
	return through(p, m.embed.Forward(p), m.blocks)
}

func (l *falconH1Block) Forward(p *nn.Pass, x compute.Tensor) compute.Tensor {
	in := p.Norm(x, l.norm)
	heads := l.attn.Attend(p, in)
	y := l.mamba.Forward(p, in)
	p.Add(y, p.Linear(heads, &l.attn.Out))
	p.Add(x, y)
	x = p.Wanted(l.number, x)
	p.Add(x, l.ffn.Forward(p, x, p.Norm(x, l.ffnNorm)))
	return x
}
