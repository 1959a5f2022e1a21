package family

import (
	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/nn"
)

// minimax01 is MiniMax-Text-01 and MiniMax-M1: most layers have lightning attention, the others attention with partly
// rotated heads; experts with SwiGLU follow. The output of each part is added to the part's input, the norm of the
// residual, times a factor.
//
// Source: MiniMax 2025, MiniMax-01: Scaling Foundation Models with Lightning Attention.
type minimax01 struct {
	sizes
	eps     float32 // epsilon of the norms
	factor  float32 // factor of a part's input when its output is added
	rope    *compute.Rope
	scores  nn.Scores
	experts nn.ExpertSpec

	ends
	blocks []minimax01Block
}

type minimax01Block struct {
	number    int
	factor    float32
	norm      nn.Norm
	lightning *nn.Lightning // or nil: there is attention
	attn      *nn.Attention
	ffnNorm   nn.Norm
	experts   nn.FeedForward
}

// lightningInterval is how far apart layers with attention are in files that do not say it.
const lightningInterval = 8

func newMiniMax01(k *nn.Keys, b *nn.Binder) Program {
	m := &minimax01{sizes: readSizes(k), eps: k.RMSEpsilon(1e-5), factor: k.Factor(".residual_scale", 1), scores: k.Scores(nn.Scores{})}
	m.rope = b.Rope(k.Rope(nn.RopeSpec{Style: compute.Halves, Dims: m.key(), Trained: m.context}))
	m.experts = k.Experts(nn.ExpertSpec{
		Width: m.embd, Neurons: m.ff(), Gated: true, Plain: true, Act: k.Activation(compute.SiLU), Routing: compute.Routing{MinSum: nn.LeastSum}, ChoiceBias: nn.Absent,
	})
	m.experts.Routing.Normalised = true

	m.embed = b.Embedding(m.embd)
	m.output = b.Output(&m.embed, b.RMSNorm("output_norm", m.embd, m.eps), 0)
	for i, recurrent := range k.RecurrentBut(lightningInterval, len(m.layers)) {
		m.blocks = append(m.blocks, m.block(b.Layer(i), i, recurrent))
	}
	return m
}

func (m *minimax01) block(b *nn.Binder, i int, recurrent bool) minimax01Block {
	l := m.layers[i]
	block := minimax01Block{number: i, factor: m.factor, norm: b.RMSNorm("attn_norm", m.embd, m.eps), ffnNorm: b.RMSNorm("ffn_norm", m.embd, m.eps)}
	if recurrent {
		block.lightning = b.Lightning(l.Heads, l.Key, m.embd, len(m.layers), m.eps)
	} else {
		a := b.Attention(l.HeadShape)
		b.QKV(a, m.embd, nn.NoBias)
		a.Rope, a.Scores = m.rope, b.Scores(m.scores, l.HeadShape)
		a.Out = b.Linear("attn_output", m.embd, l.Heads*l.Value, nn.NoBias)
		block.attn = a
	}
	block.experts = b.FFNOrExperts(nn.FFNSpec{Width: m.embd, Neurons: l.ff, Gated: true, Act: m.experts.Act, InputNorm: block.ffnNorm}, m.experts)
	return block
}

func (m *minimax01) Forward(p *nn.Pass) compute.Tensor {
	return through(p, m.embed.Forward(p), m.blocks)
}

func (l *minimax01Block) Forward(p *nn.Pass, x compute.Tensor) compute.Tensor {
	p.Normalize(x, l.norm)
	var y compute.Tensor
	if l.lightning != nil {
		y = l.lightning.Forward(p, x)
		x, y = p.Wanted(l.number, x), p.Wanted(l.number, y)
	} else {
		x, y = l.attn.Forward(p, x, x)
	}
	p.Scale(x, l.factor)
	p.Add(x, y)

	p.Normalize(x, l.ffnNorm)
	y = l.experts.Forward(p, x, x)
	p.Scale(x, l.factor)
	p.Add(x, y)
	return x
}
