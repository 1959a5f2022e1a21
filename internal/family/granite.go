package family

import (
	"math"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/nn"
)

// granite is Granite 3 and the dense Granite 4, and MiniCPM 1, 2 and 4: pre-norm blocks, grouped-query attention, and
// SwiGLU, or experts that are SwiGLUs, with factors of embeddings, of what each part adds to the residual, and of
// logits.
//
// Sources: IBM 2024, Granite 3.0 Language Models; Hu et al. 2024, MiniCPM.
type granite struct {
	sizes
	eps     float32 // epsilon of the norms
	act     compute.Activation
	rope    *compute.Rope
	scores  nn.Scores
	part    float32 // factor of what each part of a block adds to the residual
	experts nn.ExpertSpec

	ends
	blocks []graniteBlock
}

type graniteBlock struct {
	part     float32
	attnNorm nn.Norm
	attn     *nn.Attention
	ffnNorm  nn.Norm
	ffn      nn.FeedForward // dense, or experts
}

// newGranite binds a model with factors in the file; factors that the file leaves out are 1.
func newGranite(k *nn.Keys, b *nn.Binder) Program { return bindGranite(k, b, 1, 1, 1) }

// newMiniCPM binds a model with files that may leave out all factors.
func newMiniCPM(k *nn.Keys, b *nn.Binder) Program {
	return bindGranite(k, b, 12, 1.4/math.Sqrt(float64(k.Layers())), float64(k.RequiredCount(".embedding_length", nn.MaxWidth))/256)
}

// bindGranite binds a model with the factors that files mean which do not say them. Logits are divided by theirs.
func bindGranite(k *nn.Keys, b *nn.Binder, embedding, part, logits float64) Program {
	m := &granite{sizes: readSizes(k), eps: k.RMSEpsilon(1e-5), act: k.Activation(compute.SiLU), scores: k.Scores(nn.Scores{})}
	m.experts = k.Experts(nn.ExpertSpec{
		Width: m.embd, Neurons: m.ff(), Gated: true, Act: m.act, Routing: compute.Routing{Normalised: true, MinSum: nn.LeastSum},
	})
	m.part = k.Factor(".residual_scale", part)
	m.rope = b.Rope(k.Rope(nn.RopeSpec{Style: compute.Interleaved, Dims: m.key(), Trained: m.context}))

	m.embed = b.Embedding(m.embd)
	m.embed.Scale = k.Factor(".embedding_scale", embedding)
	m.output = b.Output(&m.embed, b.RMSNorm("output_norm", m.embd, m.eps), k.LogitCap(0))
	m.output.Scale = 1 / k.Factor(".logit_scale", logits)
	m.blocks = bindBlocks(b, len(m.layers), m.block)
	return m
}

// block binds a block like layer i's.
func (m *granite) block(b *nn.Binder, i int) graniteBlock {
	l := m.at(i)
	a := b.Attention(l.HeadShape)
	b.QKV(a, m.embd, nn.MayHaveBias)
	a.Rope, a.Scores = m.rope, b.Scores(m.scores, l.HeadShape)
	a.Out = b.Linear("attn_output", m.embd, l.Heads*l.Value, nn.MayHaveBias)

	ffnNorm := b.RMSNorm("ffn_norm", m.embd, m.eps)
	return graniteBlock{
		part:     m.part,
		attnNorm: b.RMSNorm("attn_norm", m.embd, m.eps),
		attn:     a,
		ffnNorm:  ffnNorm,
		ffn:      b.FFNOrExperts(nn.FFNSpec{Width: m.embd, Neurons: l.ff, Gated: true, Act: m.act, InputNorm: ffnNorm}, m.experts),
	}
}

func (m *granite) Forward(p *nn.Pass) compute.Tensor { return through(p, m.embed.Forward(p), m.blocks) }

func (l *graniteBlock) Forward(p *nn.Pass, x compute.Tensor) compute.Tensor {
	x, y := l.attn.Forward(p, x, p.Norm(x, l.attnNorm))
	p.Scale(y, l.part)
	p.Add(x, y)
	y = l.ffn.Forward(p, x, p.Norm(x, l.ffnNorm))
	p.Scale(y, l.part)
	p.Add(x, y)
	return x
}

func (l *graniteBlock) Store(p *nn.Pass, x compute.Tensor) { l.attn.Attend(p, p.Norm(x, l.attnNorm)) }

func (m *granite) BindMTP(b *nn.Binder, l int) Block { return new(m.block(b, l)) }
