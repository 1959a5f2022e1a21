package family

import (
	"math"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/nn"
)

// afmoe is Trinity: norms before and after attention and SwiGLUs, norms of each head of queries and keys, and a gate
// for each element of the heads' output, through a sigmoid. Three of four layers have sliding windows; the fourth does
// not rotate heads. Experts are scored by a sigmoid, with a bias that counts for the choice only, next to shared ones.
// The first layers, or all layers of Muse Glimmer, have one feed-forward layer instead.
//
// Source: Arcee AI 2026, Trinity Large Technical Report.
type afmoe struct {
	sizes
	eps, after float32 // epsilon of the norms, and of the norms after attention and SwiGLUs
	act        compute.Activation
	scores     nn.Scores
	experts    nn.ExpertSpec // none in models without experts

	rope, windowRope *compute.Rope // for layers that see all positions, and for sliding-window layers
	window           int           // positions that a token sees in layers with windows; 0: all
	windowed         []bool        // [layers]
	rotated          []bool        // [layers]

	ends
	blocks []nn.Sandwich
}

func newAFMoE(k *nn.Keys, b *nn.Binder) Program {
	m := readAFMoE(k, b, compute.Halves)
	for i := range m.layers {
		m.rotated = append(m.rotated, i%4 != 3)
	}
	m.after = m.eps
	m.experts = k.Experts(nn.ExpertSpec{
		Width: m.embd, Neurons: m.ff(), Gated: true, Act: m.act, Routing: compute.Routing{Score: compute.Sigmoid, MinSum: nn.LeastSum}, ChoiceBias: nn.Optional,
	})
	m.bind(k, b)
	m.embed.Scale = float32(math.Sqrt(float64(m.embd)))
	return m
}

// readAFMoE reads the hyperparameters, except those of rotated layers, norms after parts, and experts.
func readAFMoE(k *nn.Keys, b *nn.Binder, style compute.RopeStyle) *afmoe {
	m := &afmoe{sizes: readSizes(k), eps: k.RMSEpsilon(1e-5), act: k.Activation(compute.SiLU), scores: k.Scores(nn.Scores{})}
	m.window, m.windowed = k.Windows(nn.WindowSpec{FullEvery: 4}, len(m.layers), m.context)
	rope := k.Rope(nn.RopeSpec{Style: style, Dims: m.key(), Trained: m.context})
	m.rope, m.windowRope = b.RopeWith(rope, nil), b.RopeWith(k.WindowRope(rope, 0), nil)
	return m
}

func (m *afmoe) bind(k *nn.Keys, b *nn.Binder) {
	m.embed = b.Embedding(m.embd)
	m.output = b.Output(&m.embed, b.RMSNorm("output_norm", m.embd, m.eps), k.LogitCap(0))
	m.blocks = bindBlocks(b, len(m.layers), m.block)
}

// block binds block i.
func (m *afmoe) block(b *nn.Binder, i int) nn.Sandwich {
	l := m.layers[i]
	a := b.Attention(l.HeadShape)
	b.QKV(a, m.embd, nn.MayHaveBias)
	a.Gate = b.HeadGate(a.Heads, a.Value, m.embd, compute.Logistic)
	a.QNorm, a.KNorm = b.HeadNorm("attn_q_norm", l.Key, m.eps), b.HeadNorm("attn_k_norm", l.Key, m.eps)
	a.Scores = b.Scores(m.scores, l.HeadShape)
	if m.rotated[i] {
		a.Rope = m.rope
	}
	if m.windowed[i] {
		a.Scores.Window = m.window
		if m.rotated[i] {
			a.Rope = m.windowRope
		}
	}
	a.Out = b.Linear("attn_output", m.embd, l.Heads*l.Value, nn.NoBias)

	ffnNorm := b.RMSNorm("ffn_norm", m.embd, m.eps)
	return nn.Sandwich{
		PreNorm: nn.PreNorm{
			AttnNorm: b.RMSNorm("attn_norm", m.embd, m.eps),
			Attn:     a,
			FFNNorm:  ffnNorm,
			FFN:      b.FFNOrExperts(nn.FFNSpec{Width: m.embd, Neurons: l.ff, Gated: true, Act: m.act, InputNorm: ffnNorm}, m.experts),
		},
		AttnPost: b.RMSNorm("post_attention_norm", m.embd, m.after),
		FFNPost:  b.RMSNorm("post_ffw_norm", m.embd, m.after),
	}
}

func (m *afmoe) Forward(p *nn.Pass) compute.Tensor { return through(p, m.embed.Forward(p), m.blocks) }
