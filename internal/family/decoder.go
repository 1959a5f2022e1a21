package family

import (
	"cmp"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/nn"
)

// decoder is the plain decoder: pre-norm blocks, grouped-query attention, and a gated feed-forward layer. Several families
// are this program and differ in what decoderSpec says.
type decoder struct {
	decoderSpec
	sizes
	eps    float32 // of norms
	act    compute.Activation
	rope   *compute.Rope
	scores nn.Scores

	ends
	blocks []decoderBlock
}

// decoderSpec is what differs.
type decoderSpec struct {
	style    compute.RopeStyle
	act      compute.Nonlinearity // SiLU, unless it says another
	original string               // see nn.Keys.ActivationOr
	qkvBias  nn.Presence          // files may have one in any family
	outBias  nn.Presence
	ffnNorm  string // the name of the feed-forward layer's norm; empty: ffn_norm

	attention func(a *nn.Attention, i int) // if it is set, adds what the family's attention has besides, in layer i
}

type decoderBlock struct {
	attnNorm nn.Norm
	attn     *nn.Attention
	ffnNorm  nn.Norm
	ffn      *nn.FFN
}

// newDecoder binds a plain decoder.
func newDecoder(k *nn.Keys, b *nn.Binder, spec decoderSpec) *decoder {
	m := &decoder{decoderSpec: spec, sizes: readSizes(k), eps: k.RMSEpsilon(1e-5), scores: k.Scores(nn.Scores{})}
	m.act = k.ActivationOr(compute.Activation{Kind: spec.act}, spec.original)
	rope := k.Rope(nn.RopeSpec{Style: spec.style, Dims: m.key(), Trained: m.context})
	m.rope = b.Rope(rope, b.RopeFactors(rope))

	m.embed = b.Embedding(m.embd)
	m.output = b.Output(&m.embed, b.RMSNorm("output_norm", m.embd, m.eps))
	m.output.SoftCap = k.LogitCap(0)
	for i := range m.layers {
		m.blocks = append(m.blocks, m.block(b.Layer(i), i))
	}
	return m
}

// block binds a block like that of layer i.
func (m *decoder) block(b *nn.Binder, i int) decoderBlock {
	l := m.layers[i]
	a := b.Attention(l.HeadShape)
	b.QKV(a, m.embd, max(nn.Optional, m.qkvBias))
	a.Rope, a.How = m.rope, b.Scores(m.scores, l.HeadShape)
	a.Out = b.Linear("attn_output", m.embd, l.Heads*l.Value, m.outBias)
	if m.attention != nil {
		m.attention(a, i)
	}

	ffnNorm := b.RMSNorm(cmp.Or(m.ffnNorm, "ffn_norm"), m.embd, m.eps)
	return decoderBlock{
		attnNorm: b.RMSNorm("attn_norm", m.embd, m.eps),
		attn:     a,
		ffnNorm:  ffnNorm,
		ffn:      b.FFN(nn.FFNSpec{Width: m.embd, Neurons: l.ff, Gated: true, Act: m.act, Norm: ffnNorm}),
	}
}

func (m *decoder) Forward(p *nn.Pass) compute.Tensor {
	x := m.embed.Forward(p)
	for i := range m.blocks {
		p.Layer(i)
		x = m.blocks[i].Forward(p, x)
	}
	return x
}

func (l *decoderBlock) Forward(p *nn.Pass, x compute.Tensor) compute.Tensor {
	x, y := l.attn.Forward(p, x, p.Norm(x, l.attnNorm))
	p.Add(x, y)
	p.Add(x, l.ffn.Forward(p, x, p.Norm(x, l.ffnNorm)))
	return x
}

func (l *decoderBlock) Store(p *nn.Pass, x compute.Tensor) { l.attn.Read(p, p.Norm(x, l.attnNorm)) }

func (m *decoder) BindMTP(b *nn.Binder) Block {
	l := m.block(b, len(m.layers)-1)
	return &l
}
