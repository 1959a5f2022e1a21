package family

import (
	"math"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/nn"
)

// gemma2 is Gemma 2: norms before and after attention and the feed-forward layer, a window in every second layer, and
// soft caps of scores and logits. Embeddings are scaled by the square root of their width.
//
// Source: Gemma Team 2024, Gemma 2: Improving Open Language Models at a Practical Size.
type gemma2 struct {
	sizes
	eps    float32 // epsilon of the norms
	act    compute.Activation
	scores nn.Scores

	rope, windowRope *compute.Rope // for layers that see all positions, and for sliding-window layers
	window           int           // positions that a token sees in layers with windows; 0: all
	windowed         []bool        // [layers]

	ends
	blocks []nn.Sandwich
}

func newGemma2(k *nn.Keys, b *nn.Binder) Program {
	m := &gemma2{sizes: readSizes(k), eps: k.RMSEpsilon(1e-6), act: k.Activation(compute.GELU), scores: k.Scores(nn.Scores{SoftCap: 50})}
	if len(m.layers) == 46 && m.scores.Scale == 0 { // the 27B
		m.scores.Scale = 1 / math.Sqrt(float64(m.embd/m.heads()))
	}
	m.window, m.windowed = k.Windows(nn.WindowSpec{Window: 4096, FullEvery: 2}, len(m.layers), m.context)
	rope := k.Rope(nn.RopeSpec{Style: compute.Halves, Dims: m.key(), Trained: m.context})
	factors := b.RopeFactors(rope)
	m.rope, m.windowRope = b.RopeWith(rope, factors), b.RopeWith(k.WindowRope(rope, 0), factors)

	m.embed = b.Embedding(m.embd)
	m.embed.Scale = float32(math.Sqrt(float64(m.embd)))
	m.output = b.Output(&m.embed, b.RMSNorm("output_norm", m.embd, m.eps), k.LogitCap(30))
	m.blocks = bindBlocks(b, len(m.layers), m.block)
	return m
}

// block binds a block like layer i's.
func (m *gemma2) block(b *nn.Binder, i int) nn.Sandwich {
	l := m.layers[i]
	a := b.Attention(l.HeadShape)
	b.QKV(a, m.embd, nn.MayHaveBias)
	a.Rope, a.Scores = m.rope, b.Scores(m.scores, l.HeadShape)
	if m.windowed[i] {
		a.Rope, a.Scores.Window = m.windowRope, m.window
	}
	a.Out = b.Linear("attn_output", m.embd, l.Heads*l.Value, nn.MayHaveBias)

	ffnNorm := b.RMSNorm("ffn_norm", m.embd, m.eps)
	return nn.Sandwich{
		PreNorm: nn.PreNorm{
			AttnNorm: b.RMSNorm("attn_norm", m.embd, m.eps),
			Attn:     a,
			FFNNorm:  ffnNorm,
			FFN:      b.FFN(nn.FFNSpec{Width: m.embd, Neurons: l.ff, Gated: true, Act: m.act, InputNorm: ffnNorm}),
		},
		AttnPost: b.RMSNorm("post_attention_norm", m.embd, m.eps),
		FFNPost:  b.RMSNorm("post_ffw_norm", m.embd, m.eps),
	}
}

func (m *gemma2) Forward(p *nn.Pass) compute.Tensor { return through(p, m.embed.Forward(p), m.blocks) }

func (m *gemma2) BindMTP(b *nn.Binder, _ int) Block { return new(m.block(b, len(m.layers)-1)) }
