package family

import (
	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/nn"
)

// deepseek2 is DeepSeek V2 and V3, Kimi K2, GLM 4.7 Flash and models of their form: pre-norm blocks, latent attention,
// and experts, which are SwiGLUs, with shared ones that all tokens use. Layers without a router in the file, the
// first ones, have one feed-forward layer instead.
//
// Sources: DeepSeek-AI 2024, DeepSeek-V2 and DeepSeek-V3 Technical Report.
type deepseek2 struct {
	sizes
	eps     float32 // of norms
	act     compute.Activation
	latent  nn.LatentShape
	rope    *compute.Rope // of queries, whose last elements it rotates
	shared  *compute.Rope // of the part of keys that heads share, which it rotates whole
	grown   compute.Temperature
	scores  nn.Scores
	experts nn.ExpertSpec

	ends
	blocks []deepseek2Block
}

type deepseek2Block struct {
	attnNorm nn.Norm
	attn     *nn.LatentAttention
	ffnNorm  nn.Norm
	ffn      nn.FeedForward // experts, or dense
}

func newDeepSeek2(k *nn.Keys, b *nn.Binder) Program {
	return bindDeepSeek2(k, b, compute.Temperature{}, false)
}

// bindDeepSeek2 binds a model whose queries grow with their position as grown says. inBoth is of nn.RopeSpec.
func bindDeepSeek2(k *nn.Keys, b *nn.Binder, grown compute.Temperature, inBoth bool) *deepseek2 {
	m := &deepseek2{sizes: readSizes(k), eps: k.RMSEpsilon(1e-5), act: k.Activation(compute.SiLU), grown: grown, scores: k.Scores(nn.Scores{})}
	shape, rope := readLatent(k, &m.sizes, compute.Interleaved, true)
	rope.InScores, rope.InBoth, rope.LogMul = true, inBoth, 10*rope.LogMul // files hold a tenth of it
	m.scores.Grown = rope.ScoreScale()
	factors := b.RopeFactors(rope)
	m.latent, m.rope, m.shared = shape, b.Rope(rope, factors), b.Rope(rope.Whole(), factors)
	m.experts = k.Experts(nn.ExpertSpec{
		Width: m.embd, Neurons: m.ff(), Gated: true, Act: m.act, Routing: compute.Routing{MinSum: nn.LeastSum}, Choice: nn.Optional,
	})

	m.embed = b.Embedding(m.embd)
	m.output = b.Output(&m.embed, b.RMSNorm("output_norm", m.embd, m.eps))
	m.output.SoftCap = k.LogitCap(0)
	for i, l := range m.layers {
		m.blocks = append(m.blocks, m.block(b.Layer(i), l))
	}
	return m
}

// block binds a block of l's sizes.
func (m *deepseek2) block(b *nn.Binder, l layer) deepseek2Block {
	a := b.LatentAttention(m.latent, m.embd, m.eps)
	a.Rope, a.SharedRope, a.Temperature, a.How = m.rope, m.shared, m.grown, b.Scores(m.scores, nn.HeadShape{Heads: m.latent.Heads, Key: m.latent.Key})
	a.Out = b.Linear("attn_output", m.embd, m.latent.Heads*m.latent.Value, nn.Absent)

	ffnNorm := b.RMSNorm("ffn_norm", m.embd, m.eps)
	return deepseek2Block{
		attnNorm: b.RMSNorm("attn_norm", m.embd, m.eps),
		attn:     a,
		ffnNorm:  ffnNorm,
		ffn:      b.FFNOrExperts(nn.FFNSpec{Width: m.embd, Neurons: l.ff, Gated: true, Act: m.act, Norm: ffnNorm}, m.experts),
	}
}

func (m *deepseek2) Forward(p *nn.Pass) compute.Tensor {
	x := m.embed.Forward(p)
	for i := range m.blocks {
		p.Layer(i)
		x = m.blocks[i].Forward(p, x)
	}
	return x
}

func (l *deepseek2Block) Forward(p *nn.Pass, x compute.Tensor) compute.Tensor {
	x, y := l.attn.Forward(p, x, p.Norm(x, l.attnNorm))
	p.Add(x, y)
	p.Add(x, l.ffn.Forward(p, x, p.Norm(x, l.ffnNorm)))
	return x
}

func (l *deepseek2Block) Store(p *nn.Pass, x compute.Tensor) { l.attn.Read(p, p.Norm(x, l.attnNorm)) }

func (m *deepseek2) BindMTP(b *nn.Binder) Block {
	l := m.block(b, m.layers[len(m.layers)-1])
	return &l
}
