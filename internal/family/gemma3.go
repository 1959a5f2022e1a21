package family

import (
	"math"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/nn"
)

// gemma3 is Gemma 3: norms before and after attention and the feed-forward layer, a norm of every head of queries and
// keys, and sliding windows in five of six layers, with another RoPE base that is not scaled for long contexts.
// Embeddings are scaled by the square root of their width.
//
// Source: Gemma Team 2025, Gemma 3 Technical Report.
type gemma3 struct {
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

func newGemma3(k *nn.Keys, b *nn.Binder) Program {
	m := bindGemma3(k, b, nn.Scores{})
	m.output = b.Output(&m.embed, m.output.Norm, k.LogitCap(0))
	return m
}

// newGemmaEmbedding binds EmbeddingGemma: Gemma 3 in which tokens see later positions, too, and windows are around
// them. There are no logits: hidden states are the result.
//
// Source: Gemma Team 2025, EmbeddingGemma: Powerful and Lightweight Text Representations.
func newGemmaEmbedding(k *nn.Keys, b *nn.Binder) Program {
	m := bindGemma3(k, b, nn.Scores{Later: true})
	m.output.Ranking.Pooling = nn.PoolMean
	return m
}

// bindGemma3 binds all but the head.
func bindGemma3(k *nn.Keys, b *nn.Binder, scores nn.Scores) *gemma3 {
	m := &gemma3{sizes: readSizes(k), eps: k.RMSEpsilon(1e-6), act: k.Activation(compute.GELU), scores: k.Scores(scores)}
	if len(m.layers) == 62 && m.scores.Scale == 0 { // the 27B
		m.scores.Scale = 1 / math.Sqrt(float64(m.embd/m.heads()))
	}
	m.window, m.windowed = k.Windows(nn.WindowSpec{FullEvery: 6}, len(m.layers), m.context)
	rope := k.Rope(nn.RopeSpec{Style: compute.Halves, Dims: m.key(), Base: 1e6, Trained: m.context})
	m.rope, m.windowRope = b.Rope(rope), b.RopeWith(k.WindowRope(rope, 1e4).Unscaled(), nil)

	m.embed = b.Embedding(m.embd)
	m.embed.Scale = float32(math.Sqrt(float64(m.embd)))
	m.output.Norm = b.RMSNorm("output_norm", m.embd, m.eps)
	m.blocks = bindBlocks(b, len(m.layers), m.block)
	return m
}

// block binds a block like layer i's.
func (m *gemma3) block(b *nn.Binder, i int) nn.Sandwich {
	l := m.layers[i]
	a := b.Attention(l.HeadShape)
	b.QKV(a, m.embd, nn.MayHaveBias)
	a.QNorm, a.KNorm = b.HeadNorm("attn_q_norm", l.Key, m.eps), b.HeadNorm("attn_k_norm", l.Key, m.eps)
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

func (m *gemma3) Forward(p *nn.Pass) compute.Tensor { return through(p, m.embed.Forward(p), m.blocks) }

func (m *gemma3) BindMTP(b *nn.Binder, _ int) Block { return new(m.block(b, len(m.layers)-1)) }
