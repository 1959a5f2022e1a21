package family

import (
	"cmp"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/nn"
)

// moe is the plain decoder with experts: pre-norm blocks, grouped-query attention, and experts, which are SwiGLUs, with
// shared ones that all tokens use where files have some. Layers without a router in the file have one feed-forward
// layer instead. Several families are this program and differ in what moeSpec says.
type moe struct {
	sizes
	spec    moeSpec
	eps     float32 // of norms
	act     compute.Activation
	scores  nn.Scores
	experts nn.ExpertSpec

	rope, windowRope *compute.Rope // of layers that see all positions, and of layers with windows
	window           int           // positions that a token sees in layers with windows; 0: all
	windowed         []bool        // [layers]

	ends
	blocks []moeBlock
}

type moeBlock struct {
	attnNorm nn.Norm
	attn     *nn.Attention
	ffnNorm  nn.Norm
	ffn      nn.FeedForward // experts, or dense
}

// moeSpec says how a family differs from the others that share this program.
type moeSpec struct {
	style            compute.RopeStyle
	qkvBias, outBias nn.Presence
	ffnNorm          string // the name of the feed-forward layer's norm; empty: ffn_norm
	experts          nn.ExpertSpec
	windows          *nn.WindowSpec // which layers have windows of files that do not say it; nil: none has

	// windowRope, if it is set, returns how heads are rotated in layers with windows, by how they are in the others.
	windowRope func(nn.RopeSpec) nn.RopeSpec
	// shape, if it is set, corrects what files say of a layer's heads.
	shape func(*nn.HeadShape)
	// attention, if it is set, adds what the family's attention has besides.
	attention func(m *moe, b *nn.Binder, a *nn.Attention)
}

// newMoE binds a plain decoder with experts.
func newMoE(k *nn.Keys, b *nn.Binder, spec moeSpec) *moe {
	m := &moe{sizes: readSizes(k), spec: spec, eps: k.RMSEpsilon(1e-5), act: k.Activation(compute.SiLU), scores: k.Scores(nn.Scores{})}
	if spec.shape != nil {
		for i := range m.layers {
			spec.shape(&m.layers[i].HeadShape)
		}
	}
	m.bindRotation(k, b)
	x := &m.spec.experts
	x.Width, x.Gated, x.Act, x.Routing.MinSum = m.embd, true, m.act, nn.LeastSum
	if x.Neurons == 0 {
		x.Neurons = m.ff()
	}
	m.experts = k.Experts(*x)

	m.embed = b.Embedding(m.embd)
	m.output = b.Output(&m.embed, b.RMSNorm("output_norm", m.embd, m.eps))
	m.output.SoftCap = k.LogitCap(0)
	for i := range m.layers {
		m.blocks = append(m.blocks, m.block(b.Layer(i), i))
	}
	return m
}

// bindRotation reads which layers have windows, and how heads are rotated in these and in the others.
func (m *moe) bindRotation(k *nn.Keys, b *nn.Binder) {
	rope := k.Rope(nn.RopeSpec{Style: m.spec.style, Dims: m.key(), Trained: m.context})
	factors := b.RopeFactors(rope)
	m.rope, m.windowed = b.Rope(rope, factors), make([]bool, len(m.layers))
	if m.spec.windows != nil {
		m.window, m.windowed = k.Windows(*m.spec.windows, len(m.layers), m.context)
		of := k.WindowRope(rope, 0)
		if m.spec.windowRope != nil {
			of = m.spec.windowRope(rope)
		}
		m.windowRope = b.Rope(of, factors)
	}
}

// block binds a block like that of layer i.
func (m *moe) block(b *nn.Binder, i int) moeBlock {
	l := m.layers[i]
	a := b.Attention(l.HeadShape)
	b.QKV(a, m.embd, max(nn.Optional, m.spec.qkvBias))
	a.Rope, a.How = m.rope, b.Scores(m.scores, l.HeadShape)
	if m.windowed[i] {
		a.Rope, a.How.Window = m.windowRope, m.window
	}
	if m.spec.attention != nil {
		m.spec.attention(m, b, a)
	}
	a.Out = b.Linear("attn_output", m.embd, l.Heads*l.Value, m.spec.outBias)

	ffnNorm := b.RMSNorm(cmp.Or(m.spec.ffnNorm, "ffn_norm"), m.embd, m.eps)
	return moeBlock{
		attnNorm: b.RMSNorm("attn_norm", m.embd, m.eps),
		attn:     a,
		ffnNorm:  ffnNorm,
		ffn:      b.FFNOrExperts(nn.FFNSpec{Width: m.embd, Neurons: l.ff, Gated: true, Act: m.act, Norm: ffnNorm}, m.experts),
	}
}

func (m *moe) Forward(p *nn.Pass) compute.Tensor {
	x := m.embed.Forward(p)
	for i := range m.blocks {
		p.Layer(i)
		x = m.blocks[i].Forward(p, x)
	}
	return x
}

func (l *moeBlock) Forward(p *nn.Pass, x compute.Tensor) compute.Tensor {
	x, y := l.attn.Forward(p, x, p.Norm(x, l.attnNorm))
	p.Add(x, y)
	p.Add(x, l.ffn.Forward(p, x, p.Norm(x, l.ffnNorm)))
	return x
}

func (l *moeBlock) Store(p *nn.Pass, x compute.Tensor) { l.attn.Read(p, p.Norm(x, l.attnNorm)) }

func (m *moe) BindMTP(b *nn.Binder) Block {
	l := m.block(b, len(m.layers)-1)
	return &l
}
