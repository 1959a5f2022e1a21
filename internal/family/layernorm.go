package family

import (
	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/nn"
)

// layerNorm is the plain decoder of the line of GPT-2: blocks with LayerNorms before their parts, attention, and a
// feed-forward layer without a gate. Several families are this program and differ in what layerNormSpec says.
type layerNorm struct {
	layerNormSpec
	sizes
	eps    float32 // epsilon of the norms
	act    compute.Activation
	scores nn.Scores
	clamp  float32 // see nn.Attention

	rope, windowRope *compute.Rope // for layers that see all positions, and for sliding-window layers; nil: heads are not rotated
	window           int           // positions that a token sees in layers with windows; 0: all
	windowed         []bool        // [layers]

	ends
	blocks []nn.PreNorm
}

// layerNormSpec says how a family differs from the others that share this program.
type layerNormSpec struct {
	act      compute.Nonlinearity
	original string // see nn.Keys.ActivationOr

	gated      bool // feed-forward layers have a gate
	rotated    bool // heads are, by halves
	neighbours bool // the pairs that are rotated are neighbours
	window     bool // layers have one
	positions  nn.Presence
	before     int  // see nn.Embedding
	embedNorm  bool // embeddings are normed
	alibi      float64
	clamped    bool // files may limit the elements of queries, keys and values
	bare       bool // norms have no weights

	normBias, qkvBias, outBias, ffnBias nn.Presence
}

// newLayerNorm binds a plain decoder with LayerNorms.
func newLayerNorm(k *nn.Keys, b *nn.Binder, spec layerNormSpec) *layerNorm {
	m := &layerNorm{layerNormSpec: spec, sizes: readSizes(k), eps: k.LayerNormEpsilon(1e-5), scores: k.Scores(nn.Scores{Alibi: spec.alibi})}
	m.act = k.ActivationOr(compute.Activation{Kind: spec.act}, spec.original)
	m.windowed = make([]bool, len(m.layers))
	if spec.clamped {
		m.clamp = float32(k.Within(".attention.clamp_kqv", 0, 0, nn.MaxScale))
	}
	if spec.window {
		m.window, m.windowed = k.Windows(nn.WindowSpec{}, len(m.layers), m.context)
	}
	if spec.rotated {
		style := compute.Halves
		if spec.neighbours {
			style = compute.Interleaved
		}
		rope := k.Rope(nn.RopeSpec{Style: style, Dims: m.key(), Trained: m.context})
		factors := b.RopeFactors(rope)
		m.rope, m.windowRope = b.RopeWith(rope, factors), b.RopeWith(k.WindowRope(rope, 0), factors)
	}

	m.embed = b.Embedding(m.embd)
	if spec.embedNorm {
		m.embed.Norm = b.LayerNorm("token_embd_norm", m.embd, m.eps, nn.HasBias)
	}
	m.output = b.Output(&m.embed, m.norm(b, "output_norm"), k.LogitCap(0))
	if b.Present("position_embd.weight", spec.positions) {
		m.embed.Positions, m.embed.Before = b.Lookups("position_embd", m.embd), spec.before
	}
	m.blocks = bindBlocks(b, len(m.layers), m.block)
	return m
}

// block binds block i.
func (m *layerNorm) block(b *nn.Binder, i int) nn.PreNorm {
	l := m.layers[i]
	a := b.Attention(l.HeadShape)
	b.QKV(a, m.embd, max(nn.MayHaveBias, m.qkvBias))
	a.Rope, a.Scores, a.Clamp = m.rope, b.Scores(m.scores, l.HeadShape), m.clamp
	if m.windowed[i] {
		a.Rope, a.Scores.Window = m.windowRope, m.window
	}
	a.Out = b.Linear("attn_output", m.embd, l.Heads*l.Value, m.outBias)

	ffnNorm := m.norm(b, "ffn_norm")
	return nn.PreNorm{
		AttnNorm: m.norm(b, "attn_norm"),
		Attn:     a,
		FFNNorm:  ffnNorm,
		FFN:      b.FFN(nn.FFNSpec{Width: m.embd, Neurons: l.ff, Gated: m.gated, Act: m.act, UpBias: m.ffnBias, DownBias: m.ffnBias, InputNorm: ffnNorm}),
	}
}

// norm binds a norm of the residual.
func (m *layerNorm) norm(b *nn.Binder, name string) nn.Norm {
	if m.bare {
		return b.UnitLayerNorm(m.embd, m.eps)
	}
	return b.LayerNorm(name, m.embd, m.eps, m.normBias)
}

func (m *layerNorm) Forward(p *nn.Pass) compute.Tensor {
	return through(p, m.embed.Forward(p), m.blocks)
}
