package family

import (
	"cmp"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/nn"
)

// moe is the plain decoder with experts: pre-norm blocks, grouped-query attention, perhaps with windows in some layers,
// and experts, which are SwiGLUs, with shared ones that all tokens use where files have some. Layers without a router
// in the file have one feed-forward layer instead. Several families are this program and differ in what moeSpec says.
type moe struct {
	sizes
	spec    moeSpec
	eps     float32 // epsilon of the norms
	act     compute.Activation
	scores  nn.Scores
	experts nn.ExpertSpec

	rope, windowRope *compute.Rope // for layers that see all positions, and for sliding-window layers; nil: heads are not rotated
	window           int           // positions that a token sees in layers with windows; 0: all
	windowed         []bool        // [layers], and the first MTP layer's; nil: none has a window

	ends
	blocks []nn.PreNorm
}

// moeSpec says how a family differs from the others that share this program.
type moeSpec struct {
	style            compute.RopeStyle
	act              compute.Activation // of all neurons; SiLU if it is not set, unless files say another
	qkvBias, outBias nn.Presence
	ffnNorm          string // the name of the feed-forward layer's norm; empty: ffn_norm
	experts          nn.ExpertSpec
	mtp              MTPInputs
	// attention, if set, adds the family's variations to attention.
	attention func(m *moe, b *nn.Binder, a *nn.Attention)
	// group, if it is set, binds the experts that others share in groups.
	group func(m *moe, b *nn.Binder, x *nn.Experts)
	// acts, if it is set, returns the activations of layer i's routed experts and of its other neurons.
	acts func(m *moe, i int) (routed, others compute.Activation)
}

// newMoE binds a plain decoder with experts.
func newMoE(k *nn.Keys, b *nn.Binder, spec moeSpec) *moe {
	return readMoE(k, spec).rotate(k, b).bind(k, b)
}

// readMoE reads the hyperparameters of a plain decoder with experts, except windows and rotations.
func readMoE(k *nn.Keys, spec moeSpec) *moe {
	m := &moe{sizes: readSizes(k), spec: spec, eps: k.RMSEpsilon(1e-5), act: k.ActivationOr(spec.act, ""), scores: k.Scores(nn.Scores{})}
	x := &m.spec.experts
	x.Width, x.Gated, x.Act, x.Routing.MinSum = m.embd, true, m.act, nn.LeastSum
	if x.Neurons == 0 {
		x.Neurons = m.ff()
	}
	m.experts = k.Experts(*x)
	return m
}

// readRope reads how heads of layers that see all positions are rotated.
func (m *moe) readRope(k *nn.Keys) nn.RopeSpec {
	return k.Rope(nn.RopeSpec{Style: m.spec.style, Dims: m.key(), Trained: m.context})
}

// rotate reads the rotation of heads, which is the same in all layers.
func (m *moe) rotate(k *nn.Keys, b *nn.Binder) *moe {
	rope := m.readRope(k)
	m.rope = b.Rope(rope)
	return m
}

// readWindows reads which layers have windows.
func (m *moe) readWindows(k *nn.Keys, usual nn.WindowSpec) {
	m.window, m.windowed = k.Windows(usual, len(m.layers)+k.Extra, m.context)
}

// bind binds the model after its hyperparameters were read.
func (m *moe) bind(k *nn.Keys, b *nn.Binder) *moe {
	m.embed = b.Embedding(m.embd)
	m.output = b.Output(&m.embed, b.RMSNorm("output_norm", m.embd, m.eps), k.LogitCap(0))
	m.blocks = bindBlocks(b, len(m.layers), m.block)
	return m
}

// block binds block i.
func (m *moe) block(b *nn.Binder, i int) nn.PreNorm {
	l := m.at(i)
	a := b.Attention(l.HeadShape)
	b.QKV(a, m.embd, max(nn.MayHaveBias, m.spec.qkvBias))
	a.Rope, a.Scores = m.rope, b.Scores(m.scores, l.HeadShape)
	if m.windowed != nil && m.windowed[i] {
		a.Rope, a.Scores.Window = m.windowRope, m.window
	}
	if m.spec.attention != nil {
		m.spec.attention(m, b, a)
	}
	a.Out = b.Linear("attn_output", m.embd, l.Heads*l.Value, m.spec.outBias)

	experts, act := m.experts, m.act
	if m.spec.acts != nil {
		experts.Act, act = m.spec.acts(m, i)
	}
	ffnNorm := b.RMSNorm(cmp.Or(m.spec.ffnNorm, "ffn_norm"), m.embd, m.eps)
	block := nn.PreNorm{
		AttnNorm: b.RMSNorm("attn_norm", m.embd, m.eps),
		Attn:     a,
		FFNNorm:  ffnNorm,
		FFN:      b.FFNOrExperts(nn.FFNSpec{Width: m.embd, Neurons: l.ff, Gated: true, Act: act, InputNorm: ffnNorm}, experts),
	}
	if x, ok := block.FFN.(*nn.Experts); ok && m.spec.group != nil {
		m.spec.group(m, b, x)
	}
	return block
}

func (m *moe) Forward(p *nn.Pass) compute.Tensor { return through(p, m.embed.Forward(p), m.blocks) }

func (m *moe) BindMTP(b *nn.Binder, l int) Block { return new(m.block(b, l)) }

// MTPInputs implements ReadsMTP.
func (m *moe) MTPInputs() MTPInputs { return m.spec.mtp }

// normHeads binds norms of each head's queries and keys.
func normHeads(m *moe, b *nn.Binder, a *nn.Attention) {
	a.QNorm, a.KNorm = b.HeadNorm("attn_q_norm", a.Key, m.eps), b.HeadNorm("attn_k_norm", a.Key, m.eps)
}

// wideNorms binds norms of queries and of keys over all heads together.
func wideNorms(m *moe, b *nn.Binder, a *nn.Attention) {
	a.QNorm, a.KNorm = b.WideNorm("attn_q_norm", a.Heads*a.Key, m.eps), b.WideNorm("attn_k_norm", a.KVHeads*a.Key, m.eps)
}
