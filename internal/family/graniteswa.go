package family

import (
	"slices"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/nn"
)

// graniteSWA is Granite with a sliding window in most layers: Granite's factors, a sink in each head (a score that
// takes a share of the softmax and has no value), and possibly layers without rotation. Feed-forward layers are
// SwiGLUs, or experts with a shared one.
//
// Source: IBM's configurations of GraniteSWA and GraniteMoeSWA.
type graniteSWA struct {
	sizes
	eps     float32 // epsilon of the norms
	act     compute.Activation
	rope    *compute.Rope
	scores  nn.Scores
	part    float32 // factor of what each part of a block adds to the residual
	experts nn.ExpertSpec

	window            int    // positions that a token sees in layers with windows; 0: all
	windowed, rotated []bool // [layers]

	ends
	blocks []graniteBlock
}

func newGraniteSWA(k *nn.Keys, b *nn.Binder) Program {
	m := &graniteSWA{sizes: readSizes(k), eps: k.RMSEpsilon(1e-5), act: k.Activation(compute.SiLU), scores: k.Scores(nn.Scores{})}
	m.experts = k.Experts(nn.ExpertSpec{
		Width: m.embd, Neurons: m.ff(), Gated: true, Act: m.act, Routing: compute.Routing{Normalised: true, MinSum: nn.LeastSum},
	})
	m.part = k.Factor(".residual_scale", 1)
	m.window, m.windowed = k.Windows(nn.WindowSpec{FullEvery: 4, FullFirst: true}, len(m.layers), m.context)
	m.rope = b.Rope(k.Rope(nn.RopeSpec{Style: compute.Interleaved, Dims: m.key(), Trained: m.context}))
	rotated, said := k.PerLayer(".attention.rope_pattern", len(m.layers))
	if m.rotated = rotated; !said {
		m.rotated = slices.Repeat([]bool{true}, len(m.layers))
	}

	m.embed = b.Embedding(m.embd)
	m.embed.Scale = k.Factor(".embedding_scale", 1)
	m.output = b.Output(&m.embed, b.RMSNorm("output_norm", m.embd, m.eps), k.LogitCap(0))
	m.output.Scale = 1 / k.Factor(".logit_scale", 1)
	m.blocks = bindBlocks(b, len(m.layers), m.block)
	return m
}

// block binds block i.
func (m *graniteSWA) block(b *nn.Binder, i int) graniteBlock {
	l := m.layers[i]
	a := b.Attention(l.HeadShape)
	b.QKV(a, m.embd, nn.MayHaveBias)
	a.Scores = b.Scores(m.scores, l.HeadShape)
	a.Scores.Sinks = b.Vector("attn_sinks.weight", l.Heads)
	if m.rotated[i] {
		a.Rope = m.rope
	}
	if m.windowed[i] {
		a.Scores.Window = m.window
	}
	a.Out = b.Linear("attn_output", m.embd, l.Heads*l.Value, nn.MayHaveBias)

	ffnNorm := b.RMSNorm("ffn_norm", m.embd, m.eps)
	return graniteBlock{
		part:     m.part,
		attnNorm: b.RMSNorm("attn_norm", m.embd, m.eps),
		attn:     a,
		ffnNorm:  ffnNorm,
		ffn:      b.FFNOrExperts(nn.FFNSpec{Width: m.embd, Neurons: l.ff, Gated: true, Act: m.act, UpBias: nn.Optional, DownBias: nn.Optional, InputNorm: ffnNorm}, m.experts),
	}
}

func (m *graniteSWA) Forward(p *nn.Pass) compute.Tensor {
	return through(p, m.embed.Forward(p), m.blocks)
}
