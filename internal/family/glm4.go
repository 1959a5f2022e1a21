package family

import (
	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/nn"
)

// glm4 is GLM 4 of 2025: norms before and after attention and SwiGLU. A part of each head is rotated, as files say.
type glm4 struct {
	sizes
	eps    float32 // epsilon of the norms
	act    compute.Activation
	scores nn.Scores
	rope   *compute.Rope

	ends
	blocks []nn.Sandwich
}

func newGLM4(k *nn.Keys, b *nn.Binder) Program {
	m := &glm4{sizes: readSizes(k), eps: k.RMSEpsilon(1e-5), act: k.Activation(compute.SiLU), scores: k.Scores(nn.Scores{})}
	style := compute.Interleaved
	if k.Divided(".rope.dimension_sections") { // as in files of the models that see pictures
		style = compute.Halves
	}
	m.rope = b.Rope(k.Rope(nn.RopeSpec{Style: style, Dims: m.key(), Trained: m.context}))

	m.embed = b.Embedding(m.embd)
	m.output = b.Output(&m.embed, b.RMSNorm("output_norm", m.embd, m.eps), k.LogitCap(0))
	m.blocks = bindBlocks(b, len(m.layers), m.block)
	return m
}

// block binds a block like layer i's.
func (m *glm4) block(b *nn.Binder, i int) nn.Sandwich {
	l := m.at(i)
	a := b.Attention(l.HeadShape)
	b.QKV(a, m.embd, nn.MayHaveBias)
	a.Rope, a.Scores = m.rope, b.Scores(m.scores, l.HeadShape)
	a.Out = b.Linear("attn_output", m.embd, l.Heads*l.Value, nn.MayHaveBias)

	ffnNorm := b.RMSNorm("ffn_norm", m.embd, m.eps)
	return nn.Sandwich{
		PreNorm: nn.PreNorm{
			AttnNorm: b.RMSNorm("attn_norm", m.embd, m.eps),
			Attn:     a,
			FFNNorm:  ffnNorm,
			FFN:      b.FFN(nn.FFNSpec{Width: m.embd, Neurons: l.ff, Gated: true, Act: m.act, InputNorm: ffnNorm}),
		},
		AttnPost: b.RMSNorm("post_attention_norm", m.embd, m.eps),
		FFNPost:  b.RMSNorm("post_ffw_norm", m.embd, m.eps),
	}
}

func (m *glm4) Forward(p *nn.Pass) compute.Tensor { return through(p, m.embed.Forward(p), m.blocks) }

func (m *glm4) BindMTP(b *nn.Binder, l int) Block { return new(m.block(b, l)) }
