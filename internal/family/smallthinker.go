package family

import (
	"slices"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/nn"
)

// smallThinker is SmallThinker: pre-norm blocks, grouped-query attention, and experts with ReLU, so that many neurons
// are zero. They are chosen before attention, from the block's input. In models with sliding windows the first of four
// layers sees all positions and does not rotate heads.
//
// Source: Song et al. 2025, SmallThinker: A Family of Efficient Large Language Models Natively Trained for Local
// Deployment.
type smallThinker struct {
	sizes
	eps     float32 // epsilon of the norms
	act     compute.Activation
	scores  nn.Scores
	experts nn.ExpertSpec

	rope, windowRope *compute.Rope // for layers that see all positions, and for sliding-window layers; nil: heads are not rotated
	window           int           // positions that a token sees in layers with windows; 0: all
	windowed         []bool        // [layers]

	ends
	blocks []smallThinkerBlock
}

type smallThinkerBlock struct {
	attnNorm nn.Norm
	attn     *nn.Attention
	ffnNorm  nn.Norm
	ffn      *nn.FFN     // in blocks without experts, or nil
	experts  *nn.Experts // or nil
}

func newSmallThinker(k *nn.Keys, b *nn.Binder) Program {
	m := &smallThinker{sizes: readSizes(k), eps: k.RMSEpsilon(1e-5), act: k.Activation(compute.ReLU), scores: k.Scores(nn.Scores{})}
	m.window, m.windowed = k.Windows(nn.WindowSpec{FullEvery: 4, FullFirst: true}, len(m.layers), m.context)
	rope := k.Rope(nn.RopeSpec{Style: compute.Halves, Dims: m.key(), Trained: m.context})
	factors := b.RopeFactors(rope)
	m.windowRope = b.RopeWith(k.WindowRope(rope, 0), factors)
	if !slices.Contains(m.windowed, true) {
		m.rope = b.RopeWith(rope, factors)
	}
	m.experts = k.Experts(nn.ExpertSpec{
		Width: m.embd, Neurons: m.ff(), Gated: true, Act: m.act, Routing: compute.Routing{Score: compute.Sigmoid, Normalised: true, MinSum: nn.LeastSum},
	})

	m.embed = b.Embedding(m.embd)
	m.output = b.Output(&m.embed, b.RMSNorm("output_norm", m.embd, m.eps), k.LogitCap(0))
	m.blocks = bindBlocks(b, len(m.layers), m.block)
	return m
}

// AllRows implements family.AllRows: the router reads rows that the last layer's attention would leave out.
func (m *smallThinker) AllRows() bool { return true }

// block binds a block like layer i's.
func (m *smallThinker) block(b *nn.Binder, i int) smallThinkerBlock {
	l := m.layers[i]
	a := b.Attention(l.HeadShape)
	b.QKV(a, m.embd, nn.MayHaveBias)
	a.Rope, a.Scores = m.rope, b.Scores(m.scores, l.HeadShape)
	if m.windowed[i] {
		a.Rope, a.Scores.Window = m.windowRope, m.window
	}
	a.Out = b.Linear("attn_output", m.embd, l.Heads*l.Value, nn.MayHaveBias)

	block := smallThinkerBlock{attnNorm: b.RMSNorm("attn_norm", m.embd, m.eps), attn: a, ffnNorm: b.RMSNorm("ffn_norm", m.embd, m.eps)}
	ffn := nn.FFNSpec{Width: m.embd, Neurons: l.ff, Gated: true, Act: m.act, InputNorm: block.ffnNorm}
	if b.HasExperts() {
		ffn.Neurons = m.experts.Shared
		block.experts = b.Experts(m.experts, b.SharedExperts(ffn)).Reads(nn.Norm{})
	} else {
		block.ffn = b.FFN(ffn)
	}
	return block
}

func (m *smallThinker) Forward(p *nn.Pass) compute.Tensor {
	return through(p, m.embed.Forward(p), m.blocks)
}

func (l *smallThinkerBlock) Forward(p *nn.Pass, x compute.Tensor) compute.Tensor {
	var rated compute.Tensor // the router's logits
	if l.experts != nil {
		rated = l.experts.Rate(p, x)
		l.experts.Expect(p, x)
	}
	x, y := l.attn.Forward(p, x, p.Norm(x, l.attnNorm))
	p.Add(x, y)
	in := p.Norm(x, l.ffnNorm)
	if l.experts != nil {
		p.Add(x, l.experts.Mix(p, rated, x, in))
	} else {
		p.Add(x, l.ffn.Forward(p, x, in))
	}
	return x
}

func (l *smallThinkerBlock) Store(p *nn.Pass, x compute.Tensor) {
	l.attn.Attend(p, p.Norm(x, l.attnNorm))
}

func (m *smallThinker) BindMTP(b *nn.Binder, _ int) Block { return new(m.block(b, len(m.layers)-1)) }
