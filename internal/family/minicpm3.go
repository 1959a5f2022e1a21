package family

import (
	"math"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/nn"
)

// miniCPM3 is MiniCPM 3: pre-norm blocks, latent attention, and SwiGLU, with factors of embeddings, of what each part
// adds to the residual, and of logits, which files need not say.
//
// Source: Hu et al. 2024, MiniCPM.
type miniCPM3 struct {
	sizes
	eps       float32 // epsilon of the norms
	act       compute.Activation
	latent    nn.LatentShape
	queryRope *compute.Rope // rotates the last elements of queries
	keyRope   *compute.Rope // rotates all of the part of keys that heads share
	scores    nn.Scores
	part      float32 // factor of what each part of a block adds to the residual

	ends
	blocks []miniCPM3Block
}

type miniCPM3Block struct {
	part     float32
	attnNorm nn.Norm
	attn     *nn.LatentAttention
	ffnNorm  nn.Norm
	ffn      *nn.FFN
}

func newMiniCPM3(k *nn.Keys, b *nn.Binder) Program {
	m := &miniCPM3{sizes: readSizes(k), eps: k.RMSEpsilon(1e-5), act: k.Activation(compute.SiLU), scores: k.Scores(nn.Scores{})}
	shape, rope := readLatent(k, &m.sizes, compute.Halves)
	factors := b.RopeFactors(rope)
	m.latent, m.queryRope, m.keyRope = shape, b.RopeWith(rope, factors), b.RopeWith(rope.Whole(), factors)
	m.part = k.Factor(".residual_scale", 1.4/math.Sqrt(float64(len(m.layers))))

	m.embed = b.Embedding(m.embd)
	m.embed.Scale = k.Factor(".embedding_scale", 12)
	m.output = b.Output(&m.embed, b.RMSNorm("output_norm", m.embd, m.eps), k.LogitCap(0))
	m.output.Scale = 1 / k.Factor(".logit_scale", float64(m.embd)/256)
	m.blocks = bindBlocks(b, len(m.layers), m.block)
	return m
}

// block binds a block like layer i's.
func (m *miniCPM3) block(b *nn.Binder, i int) miniCPM3Block {
	l := m.at(i)
	a := b.LatentAttention(m.latent, m.embd, m.eps)
	a.Rope, a.SharedRope, a.Scores = m.queryRope, m.keyRope, b.Scores(m.scores, nn.HeadShape{Heads: m.latent.Heads, Key: m.latent.Key})
	a.Out = b.Linear("attn_output", m.embd, m.latent.Heads*m.latent.Value, nn.NoBias)

	ffnNorm := b.RMSNorm("ffn_norm", m.embd, m.eps)
	return miniCPM3Block{
		part:     m.part,
		attnNorm: b.RMSNorm("attn_norm", m.embd, m.eps),
		attn:     a,
		ffnNorm:  ffnNorm,
		ffn:      b.FFN(nn.FFNSpec{Width: m.embd, Neurons: l.ff, Gated: true, Act: m.act, InputNorm: ffnNorm}),
	}
}

func (m *miniCPM3) Forward(p *nn.Pass) compute.Tensor {
	return through(p, m.embed.Forward(p), m.blocks)
}

func (l *miniCPM3Block) Forward(p *nn.Pass, x compute.Tensor) compute.Tensor {
	x, y := l.attn.Forward(p, x, p.Norm(x, l.attnNorm))
	p.Scale(y, l.part)
	p.Add(x, y)
	y = l.ffn.Forward(p, x, p.Norm(x, l.ffnNorm))
	p.Scale(y, l.part)
	p.Add(x, y)
	return x
}

func (l *miniCPM3Block) Store(p *nn.Pass, x compute.Tensor) { l.attn.Attend(p, p.Norm(x, l.attnNorm)) }

func (m *miniCPM3) BindMTP(b *nn.Binder, l int) Block { return new(m.block(b, l)) }
