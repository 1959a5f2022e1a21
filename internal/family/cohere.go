package family

import (
	"slices"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/nn"
)

// cohere is Command R and R+, Aya 23 and Expanse, and, with windows in three of four layers, Command R7B and A:
// attention and SwiGLU read one LayerNorm of the residual, side by side, and are added to it together. The head is the
// table of tokens, and logits have a factor. Command R+ has a norm of each head of queries and keys.
//
// Sources: Cohere 2024, Command R; Cohere 2025, Command A: An Enterprise-Ready Large Language Model.
type cohere struct {
	sizes
	eps    float32 // epsilon of the norms
	act    compute.Activation
	scores nn.Scores

	rope, windowRope *compute.Rope // for layers that see all positions, and for sliding-window layers; nil: heads are not rotated
	window           int           // positions that a token sees in layers with windows; 0: all
	windowed         []bool        // [layers]

	ends
	blocks []nn.Parallel
}

// newCommandR binds a model without windows.
func newCommandR(k *nn.Keys, b *nn.Binder) Program {
	m := readCohere(k)
	m.rope = b.Rope(k.Rope(nn.RopeSpec{Style: compute.Interleaved, Dims: m.key(), Trained: m.context}))
	m.bind(k, b)
	return m
}

// newCohere2 binds a model with windows. Layers without one do not rotate heads.
func newCohere2(k *nn.Keys, b *nn.Binder) Program {
	m := readCohere(k)
	m.window, m.windowed = k.Windows(nn.WindowSpec{Window: 4096, FullEvery: 4}, len(m.layers), m.context)
	rope := k.Rope(nn.RopeSpec{Style: compute.Interleaved, Dims: m.key(), Trained: m.context})
	factors := b.RopeFactors(rope)
	m.windowRope = b.RopeWith(k.WindowRope(rope, 0), factors)
	if !slices.Contains(m.windowed, true) {
		m.rope = b.RopeWith(rope, factors)
	}
	m.bind(k, b)
	return m
}

func readCohere(k *nn.Keys) *cohere {
	m := &cohere{sizes: readSizes(k), eps: k.LayerNormEpsilon(1e-5), act: k.Activation(compute.SiLU), scores: k.Scores(nn.Scores{})}
	m.windowed = make([]bool, len(m.layers))
	return m
}

func (m *cohere) bind(k *nn.Keys, b *nn.Binder) {
	m.embed = b.Embedding(m.embd)
	m.output = b.Output(&m.embed, b.LayerNorm("output_norm", m.embd, m.eps, nn.NoBias), k.LogitCap(0))
	m.output.Scale = k.Factor(".logit_scale", 1)
	m.blocks = bindBlocks(b, len(m.layers), m.block)
}

// block binds block i.
func (m *cohere) block(b *nn.Binder, i int) nn.Parallel {
	l := m.layers[i]
	a := b.Attention(l.HeadShape)
	b.QKV(a, m.embd, nn.MayHaveBias)
	if b.Has("attn_q_norm.weight") {
		b.EachHeadNorms(a, m.eps)
	}
	a.Rope, a.Scores = m.rope, b.Scores(m.scores, l.HeadShape)
	if m.windowed[i] {
		a.Rope, a.Scores.Window = m.windowRope, m.window
	}
	a.Out = b.Linear("attn_output", m.embd, l.Heads*l.Value, nn.MayHaveBias)
	return nn.Parallel{
		Norm: b.LayerNorm("attn_norm", m.embd, m.eps, nn.NoBias),
		Attn: a,
		FFN:  b.FFN(nn.FFNSpec{Width: m.embd, Neurons: l.ff, Gated: true, Act: m.act, Parallel: true}),
	}
}

func (m *cohere) Forward(p *nn.Pass) compute.Tensor { return through(p, m.embed.Forward(p), m.blocks) }
