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
	blocks []nn.Block
}

// gptNeoXBlock is a block with parts side by side that read norms of their own.
type gptNeoXBlock struct {
	attnNorm nn.Norm
	attn     *nn.Attention
	ffnNorm  nn.Norm
	ffn      *nn.FFN
}

func newGPTNeoX(k *nn.Keys, b *nn.Binder) Program {
	m := &gptNeoX{sizes: readSizes(k), eps: k.LayerNormEpsilon(1e-5), act: k.Activation(compute.GELU), scores: k.Scores(nn.Scores{})}
	m.parallel = k.Flag(".use_parallel_residual", true)
	m.rope = b.Rope(k.Rope(nn.RopeSpec{Style: compute.Halves, Dims: m.key(), Trained: m.context}))

	m.embed = b.Embedding(m.embd)
	m.output = b.Output(&m.embed, b.LayerNorm("output_norm", m.embd, m.eps, nn.HasBias), k.LogitCap(0))
	m.blocks = bindBlocks(b, len(m.layers), m.block)
	return m
}

// block binds a block like layer i's.
func (m *gptNeoX) block(b *nn.Binder, i int) nn.Block {
	l := m.at(i)
	a := b.Attention(l.HeadShape)
	b.QKV(a, m.embd, nn.HasBias)
	a.Rope, a.Scores = m.rope, b.Scores(m.scores, l.HeadShape)
	a.Out = b.Linear("attn_output", m.embd, l.Heads*l.Value, nn.HasBias)

	ffnNorm := b.LayerNorm("ffn_norm", m.embd, m.eps, nn.HasBias)
	ffn := nn.FFNSpec{Width: m.embd, Neurons: l.ff, Act: m.act, UpBias: nn.Required, DownBias: nn.Required, InputNorm: ffnNorm, Parallel: m.parallel}
	attnNorm := b.LayerNorm("attn_norm", m.embd, m.eps, nn.HasBias)
	if !m.parallel {
		return &nn.PreNorm{AttnNorm: attnNorm, Attn: a, FFNNorm: ffnNorm, FFN: b.FFN(ffn)}
	}
	return &gptNeoXBlock{attnNorm: attnNorm, attn: a, ffnNorm: ffnNorm, ffn: b.FFN(ffn)}
}

func (m *gptNeoX) Forward(p *nn.Pass) compute.Tensor {
	x := m.embed.Forward(p)
	for i := range m.blocks {
		p.Layer(i, x)
		x = m.blocks[i].Forward(p, x)
	}
	return x
}

func (l *gptNeoXBlock) Forward(p *nn.Pass, x compute.Tensor) compute.Tensor {
	x, heads := l.attn.AttendWanted(p, x, p.Norm(x, l.attnNorm))
	y := l.ffn.Forward(p, x, p.Norm(x, l.ffnNorm))
	p.Add(x, p.Linear(heads, &l.attn.Out))
	p.Add(x, y)
	return x
}
