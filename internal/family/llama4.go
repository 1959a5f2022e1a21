package family

import (
	"cmp"
	"slices"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/nn"
)

// llama4 is the text part of Llama 4: pre-norm blocks, grouped-query attention, and, in all blocks or every second, one
// expert of many next to a shared one. The chosen expert's sigmoid score multiplies its input. Three of four layers
// have chunked attention; they rotate heads and, except in the model with 128 experts, norm them without weights. The
// fourth sees all positions and does not rotate heads, and its queries grow with their position.
//
// Source: Meta 2025, The Llama 4 herd.
type llama4 struct {
	sizes
	eps     float32 // epsilon of the norms
	act     compute.Activation
	scores  nn.Scores
	experts nn.ExpertSpec

	rope, windowRope *compute.Rope // for layers that see all positions, and for layers with chunked attention; nil: heads are not rotated
	window           int           // positions of a part; 0: all
	windowed         []bool        // [layers]

	ends
	blocks []nn.PreNorm
}

// llama4Part is the number of positions of a part, of files that do not say it.
const llama4Part = 8192

func newLlama4(k *nn.Keys, b *nn.Binder) Program {
	m := &llama4{sizes: readSizes(k), eps: k.RMSEpsilon(1e-5), act: k.Activation(compute.SiLU), scores: k.Scores(nn.Scores{})}
	m.window, m.windowed = k.Windows(nn.WindowSpec{Window: llama4Part, FullEvery: 4}, len(m.layers), m.context)
	rope := k.Rope(nn.RopeSpec{Style: compute.Interleaved, Dims: m.key(), Trained: m.context})
	factors := b.RopeFactors(rope)
	m.windowRope = b.RopeWith(k.WindowRope(rope, 0), factors)
	if !slices.Contains(m.windowed, true) {
		m.rope = b.RopeWith(rope, factors)
	}
	m.experts = k.Experts(nn.ExpertSpec{
		Width: m.embd, Neurons: m.ff(), Gated: true, Act: m.act, Routing: compute.Routing{Score: compute.Sigmoid}, Before: true,
	})
	m.experts.Shared = cmp.Or(m.experts.Shared, m.experts.Neurons)

	m.embed = b.Embedding(m.embd)
	m.output = b.Output(&m.embed, b.RMSNorm("output_norm", m.embd, m.eps), k.LogitCap(0))
	m.blocks = bindBlocks(b, len(m.layers), m.block)
	return m
}

// block binds a block like layer i's.
func (m *llama4) block(b *nn.Binder, i int) nn.PreNorm {
	l := m.layers[i]
	a := b.Attention(l.HeadShape)
	b.QKV(a, m.embd, nn.MayHaveBias)
	a.Rope, a.Scores, a.Scores.Parts = m.rope, b.Scores(m.scores, l.HeadShape), true
	if m.windowed[i] {
		a.Rope, a.Scores.Window = m.windowRope, m.window
	}
	switch {
	case a.Rope == nil:
		a.Temperature = compute.Temperature{Scale: 0.1, Length: llama4Part, Offset: 1}
	case m.experts.Count != 128:
		a.QNorm.Norm = b.UnitNorm(l.Key, m.eps)
		a.KNorm = a.QNorm
	}
	a.Out = b.Linear("attn_output", m.embd, l.Heads*l.Value, nn.MayHaveBias)

	ffnNorm := b.RMSNorm("ffn_norm", m.embd, m.eps)
	return nn.PreNorm{
		AttnNorm: b.RMSNorm("attn_norm", m.embd, m.eps),
		Attn:     a,
		FFNNorm:  ffnNorm,
		FFN:      b.FFNOrExperts(nn.FFNSpec{Width: m.embd, Neurons: l.ff, Gated: true, Act: m.act, InputNorm: ffnNorm}, m.experts),
	}
}

func (m *llama4) Forward(p *nn.Pass) compute.Tensor { return through(p, m.embed.Forward(p), m.blocks) }

func (m *llama4) BindMTP(b *nn.Binder, _ int) Block { return new(m.block(b, len(m.layers)-1)) }
