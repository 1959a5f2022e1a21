package family

import (
	"slices"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/nn"
)

// exaone4 is EXAONE 4: norms after attention and SwiGLU instead of before them, and of every head of queries and keys.
// The 32B has a window in three of four layers; the others do not rotate heads.
//
// Source: LG AI Research 2025, EXAONE 4.0.
type exaone4 struct {
	sizes
	eps    float32 // epsilon of the norms
	act    compute.Activation
	scores nn.Scores

	rope, windowRope *compute.Rope // for layers that see all positions, and for sliding-window layers; nil: heads are not rotated
	window           int           // positions that a token sees in layers with windows; 0: all
	windowed         []bool        // [layers]

	ends
	blocks []nn.PostNorm
}

func newExaone4(k *nn.Keys, b *nn.Binder) Program {
	m := &exaone4{sizes: readSizes(k), eps: k.RMSEpsilon(1e-5), act: k.Activation(compute.SiLU), scores: k.Scores(nn.Scores{})}
	m.window, m.windowed = k.Windows(nn.WindowSpec{FullEvery: 4}, len(m.layers), m.context)
	rope := k.Rope(nn.RopeSpec{Style: compute.Halves, Dims: m.key(), Trained: m.context})
	factors := b.RopeFactors(rope)
	m.windowRope = b.RopeWith(k.WindowRope(rope, 0), factors)
	if !slices.Contains(m.windowed, true) {
		m.rope = b.RopeWith(rope, factors)
	}

	m.embed = b.Embedding(m.embd)
	m.output = b.Output(&m.embed, b.RMSNorm("output_norm", m.embd, m.eps), k.LogitCap(0))
	m.blocks = bindBlocks(b, len(m.layers), m.block)
	return m
}

// block binds a block like layer i's.
func (m *exaone4) block(b *nn.Binder, i int) nn.PostNorm {
	l := m.layers[i]
	a := b.Attention(l.HeadShape)
	b.QKV(a, m.embd, nn.MayHaveBias)
	a.QNorm, a.KNorm = b.HeadNorm("attn_q_norm", l.Key, m.eps), b.HeadNorm("attn_k_norm", l.Key, m.eps)
	a.Rope, a.Scores = m.rope, b.Scores(m.scores, l.HeadShape)
	if m.windowed[i] {
		a.Rope, a.Scores.Window = m.windowRope, m.window
	}
	a.Out = b.Linear("attn_output", m.embd, l.Heads*l.Value, nn.MayHaveBias)

	return nn.PostNorm{
		Attn:     a,
		AttnPost: b.RMSNorm("post_attention_norm", m.embd, m.eps),
		FFN:      b.FFN(nn.FFNSpec{Width: m.embd, Neurons: l.ff, Gated: true, Act: m.act}),
		FFNPost:  b.RMSNorm("post_ffw_norm", m.embd, m.eps),
	}
}

func (m *exaone4) Forward(p *nn.Pass) compute.Tensor { return through(p, m.embed.Forward(p), m.blocks) }

func (m *exaone4) BindMTP(b *nn.Binder, _ int) Block { return new(m.block(b, len(m.layers)-1)) }
