package family

import (
	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/nn"
)

// gptNeoX is GPT-NeoX and Pythia: attention and the feed-forward layer each read a LayerNorm of their own of the
// residual, side by side, unless the file says that one follows the other. A part of each head is rotated, as files
// say. There are biases everywhere but of the head.
//
// Source: Black et al. 2022, GPT-NeoX-20B: An Open-Source Autoregressive Language Model.
type gptNeoX struct {
	sizes
	eps      float32 // epsilon of the norms
	act      compute.Activation
	rope     *compute.Rope
	scores   nn.Scores
	parallel bool // the parts of blocks are computed side by side

	ends
	blocks []gptNeoXBlock
}

type gptNeoXBlock struct {
	attnNorm nn.Norm
	attn     *nn.Attention
	ffnNorm  nn.Norm
	ffn      *nn.FFN
}

func newGPTNeoX(k *nn.Keys, b *nn.Binder) Program {
	m := &gptNeoX{sizes: readSizes(k), eps: k.LayerNormEpsilon(1e-5), act: k.Activation(compute.GELU), scores: k.Scores(nn.Scores{})}
	m.parallel = k.Flag(".use_parallel_residual", true)
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
func (m *gptNeoX) block(b *nn.Binder, l layer) gptNeoXBlock {
	a := b.Attention(l.HeadShape)
	b.QKV(a, m.embd, nn.HasBias)
	a.Rope, a.Scores = m.rope, b.Scores(m.scores, l.HeadShape)
	a.Out = b.Linear("attn_output", m.embd, l.Heads*l.Value, nn.HasBias)

	ffnNorm := b.LayerNorm("ffn_norm", m.embd, m.eps, nn.HasBias)
	ffn := nn.FFNSpec{Width: m.embd, Neurons: l.ff, Act: m.act, UpBias: nn.Required, DownBias: nn.Required, InputNorm: ffnNorm, Parallel: m.parallel}
	return gptNeoXBlock{attnNorm: b.LayerNorm("attn_norm", m.embd, m.eps, nn.HasBias), attn: a, ffnNorm: ffnNorm, ffn: b.FFN(ffn)}
}

func (m *gptNeoX) Forward(p *nn.Pass) compute.Tensor {
	x := m.embed.Forward(p)
	for i := range m.blocks {
		p.Layer(i, x)
		if m.parallel {
			x = m.blocks[i].parallel(p, x)
		} else {
			x = m.blocks[i].sequential(p, x)
		}
	}
	return x
}

func (l *gptNeoXBlock) parallel(p *nn.Pass, x compute.Tensor) compute.Tensor {
	x, heads := l.attn.AttendWanted(p, x, p.Norm(x, l.attnNorm))
	y := l.ffn.Forward(p, x, p.Norm(x, l.ffnNorm))
	p.Add(x, p.Linear(heads, &l.attn.Out))
	p.Add(x, y)
	return x
}

func (l *gptNeoXBlock) sequential(p *nn.Pass, x compute.Tensor) compute.Tensor {
	x, y := l.attn.Forward(p, x, p.Norm(x, l.attnNorm))
	p.Add(x, y)
	p.Add(x, l.ffn.Forward(p, x, p.Norm(x, l.ffnNorm)))
	return x
}
