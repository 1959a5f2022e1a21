package family

import (
	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/nn"
)

// stableLM is StableLM 3B, 2 1.6B and Zephyr: LayerNorms before attention, which rotates a part of each head, as files
// say, and before SwiGLU. In StableLM 2 12B both read one norm of the residual, in parallel, and each head of queries
// and keys has a norm; this holds for layers without a norm before SwiGLU.
//
// Source: Bellagente et al. 2024, Stable LM 2 1.6B Technical Report.
type stableLM struct {
	sizes
	eps    float32 // epsilon of the norms
	act    compute.Activation
	rope   *compute.Rope
	scores nn.Scores

	ends
	blocks []stableLMBlock
}

type stableLMBlock struct {
	attnNorm nn.Norm
	attn     *nn.Attention
	ffnNorm  nn.Norm // not bound where both parts read attnNorm, side by side
	ffn      *nn.FFN
}

func newStableLM(k *nn.Keys, b *nn.Binder) Program {
	m := &stableLM{sizes: readSizes(k), eps: k.LayerNormEpsilon(1e-5), act: k.Activation(compute.SiLU), scores: k.Scores(nn.Scores{})}
	rope := k.Rope(nn.RopeSpec{Style: compute.Halves, Dims: m.key(), Trained: m.context})
	m.rope = b.Rope(rope, b.RopeFactors(rope))

	m.embed = b.Embedding(m.embd)
	m.output = b.Output(&m.embed, b.LayerNorm("output_norm", m.embd, m.eps, nn.HasBias))
	m.output.SoftCap = k.LogitCap(0)
	for i, l := range m.layers {
		m.blocks = append(m.blocks, m.block(b.Layer(i), l))
	}
	return m
}

// block binds a block of l's sizes.
func (m *stableLM) block(b *nn.Binder, l layer) stableLMBlock {
	a := b.Attention(l.HeadShape)
	b.QKV(a, m.embd, nn.MayHaveBias)
	if b.Has("attn_q_norm.weight") {
		b.EachHeadNorms(a, m.eps)
	}
	a.Rope, a.Scores = m.rope, b.Scores(m.scores, l.HeadShape)
	a.Out = b.Linear("attn_output", m.embd, l.Heads*l.Value, nn.NoBias)

	block := stableLMBlock{attnNorm: b.LayerNorm("attn_norm", m.embd, m.eps, nn.HasBias), attn: a}
	parallel := !b.Has("ffn_norm.weight")
	if !parallel {
		block.ffnNorm = b.LayerNorm("ffn_norm", m.embd, m.eps, nn.HasBias)
	}
	block.ffn = b.FFN(nn.FFNSpec{Width: m.embd, Neurons: l.ff, Gated: true, Act: m.act, InputNorm: block.ffnNorm, Parallel: parallel})
	return block
}

func (m *stableLM) Forward(p *nn.Pass) compute.Tensor {
	x := m.embed.Forward(p)
	for i := range m.blocks {
		p.Layer(i, x)
		if l := &m.blocks[i]; l.ffnNorm.Bound() {
			x = l.sequential(p, x)
		} else {
			x = l.parallel(p, x)
		}
	}
	return x
}

func (l *stableLMBlock) sequential(p *nn.Pass, x compute.Tensor) compute.Tensor {
	x, y := l.attn.Forward(p, x, p.Norm(x, l.attnNorm))
	p.Add(x, y)
	p.Add(x, l.ffn.Forward(p, x, p.Norm(x, l.ffnNorm)))
	return x
}

func (l *stableLMBlock) parallel(p *nn.Pass, x compute.Tensor) compute.Tensor {
	in := p.Norm(x, l.attnNorm)
	x, heads := l.attn.AttendWanted(p, x, in)
	if x.Rows < in.Rows { // the last layer keeps only the rows with wanted logits
		in = p.Norm(x, l.attnNorm)
	}
	y := l.ffn.Forward(p, x, in)
	p.Add(x, p.Linear(heads, &l.attn.Out))
	p.Add(x, y)
	return x
}
