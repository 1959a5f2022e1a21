package family

import (
	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/nn"
)

// falcon is Falcon: attention and the feed-forward layer run in parallel and are added to the residual together. Both
// read one norm of it (7B, which has one KV head), or each its own (40B). Norms are LayerNorms; matrices have no
// biases.
//
// Source: Almazrouei et al. 2023, The Falcon Series of Open Language Models.
type falcon struct {
	sizes
	eps    float32 // epsilon of the norms
	act    compute.Activation
	rope   *compute.Rope
	scores nn.Scores

	ends
	blocks []falconBlock
}

type falconBlock struct {
	attnNorm nn.Norm
	ffnNorm  nn.Norm // not bound: the feed-forward layer reads attnNorm's output
	attn     *nn.Attention
	ffn      *nn.FFN
}

func newFalcon(k *nn.Keys, b *nn.Binder) Program {
	m := &falcon{sizes: readSizes(k), eps: k.LayerNormEpsilon(1e-5), act: k.ActivationOr(compute.Activation{Kind: compute.GELU}, "relu"), scores: k.Scores(nn.Scores{})}
	m.rope = b.Rope(k.Rope(nn.RopeSpec{Style: compute.Halves, Dims: m.key(), Trained: m.context}))

	m.embed = b.Embedding(m.embd)
	m.output = b.Output(&m.embed, b.LayerNorm("output_norm", m.embd, m.eps, nn.HasBias), k.LogitCap(0))
	m.blocks = bindBlocks(b, len(m.layers), m.block)
	return m
}

// block binds a block like layer i's.
func (m *falcon) block(b *nn.Binder, i int) falconBlock {
	l := m.at(i)
	a := b.Attention(l.HeadShape)
	b.QKV(a, m.embd, nn.MayHaveBias)
	a.Rope, a.Scores = m.rope, b.Scores(m.scores, l.HeadShape)
	a.Out = b.Linear("attn_output", m.embd, l.Heads*l.Value, nn.NoBias)

	block := falconBlock{
		attnNorm: b.LayerNorm("attn_norm", m.embd, m.eps, nn.HasBias),
		attn:     a,
		ffn:      b.FFN(nn.FFNSpec{Width: m.embd, Neurons: l.ff, Act: m.act, Parallel: true}),
	}
	if b.Has("attn_norm_2.weight") { // it is attention's, and the other is the feed-forward layer's
		block.ffnNorm = block.attnNorm
		block.attnNorm = b.LayerNorm("attn_norm_2", m.embd, m.eps, nn.MayHaveBias)
	}
	return block
}

func (m *falcon) Forward(p *nn.Pass) compute.Tensor { return through(p, m.embed.Forward(p), m.blocks) }

func (l *falconBlock) Forward(p *nn.Pass, x compute.Tensor) compute.Tensor {
	in := p.Norm(x, l.attnNorm)
	x, heads := l.attn.AttendWanted(p, x, in)
	switch {
	case l.ffnNorm.Bound():
		in = p.Norm(x, l.ffnNorm)
	case x.Rows < in.Rows: // the last layer keeps only the rows with wanted logits
		in = p.Norm(x, l.attnNorm)
	}
	y := l.ffn.Forward(p, x, in)
	p.Add(x, p.Linear(heads, &l.attn.Out))
	p.Add(x, y)
	return x
}
