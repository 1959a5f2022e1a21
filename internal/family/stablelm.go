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
	blocks []nn.Block
}

func newStableLM(k *nn.Keys, b *nn.Binder) Program {
	m := &stableLM{sizes: readSizes(k), eps: k.LayerNormEpsilon(1e-5), act: k.Activation(compute.SiLU), scores: k.Scores(nn.Scores{})}
	m.rope = b.Rope(k.Rope(nn.RopeSpec{Style: compute.Halves, Dims: m.key(), Trained: m.context}))

	m.embed = b.Embedding(m.embd)
	m.output = b.Output(&m.embed, b.LayerNorm("output_norm", m.embd, m.eps, nn.HasBias), k.LogitCap(0))
	m.blocks = bindBlocks(b, len(m.layers), m.block)
	return m
}

// block binds a block like layer i's.
func (m *stableLM) block(b *nn.Binder, i int) nn.Block {
	l := m.at(i)
	a := b.Attention(l.HeadShape)
	b.QKV(a, m.embd, nn.MayHaveBias)
	if b.Has("attn_q_norm.weight") {
		b.EachHeadNorms(a, m.eps)
	}
	a.Rope, a.Scores = m.rope, b.Scores(m.scores, l.HeadShape)
	a.Out = b.Linear("attn_output", m.embd, l.Heads*l.Value, nn.NoBias)

	norm := b.LayerNorm("attn_norm", m.embd, m.eps, nn.HasBias)
	ffn := nn.FFNSpec{Width: m.embd, Neurons: l.ff, Gated: true, Act: m.act}
	if !b.Has("ffn_norm.weight") {
		ffn.Parallel = true
		return &nn.Parallel{Norm: norm, Attn: a, FFN: b.FFN(ffn)}
	}
	ffn.InputNorm = b.LayerNorm("ffn_norm", m.embd, m.eps, nn.HasBias)
	return &nn.PreNorm{AttnNorm: norm, Attn: a, FFNNorm: ffn.InputNorm, FFN: b.FFN(ffn)}
}

func (m *stableLM) Forward(p *nn.Pass) compute.Tensor {
	x := m.embed.Forward(p)
	for i := range m.blocks {
		p.Layer(i, x)
		x = m.blocks[i].Forward(p, x)
	}
	return x
}
