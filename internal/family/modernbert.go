package family

import (
	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/nn"
)

// modernBERT is ModernBERT: an encoder with LayerNorms before its parts except the first layer's attention, rotated
// heads, and gates. Every token sees all others, or in two of three layers those in a window around it, with another
// RoPE base. There are no logits: hidden states are the result.
//
// Source: Warner et al. 2024, Smarter, Better, Faster, Longer: A Modern Bidirectional Encoder.
type modernBERT struct {
	sizes
	eps    float32 // epsilon of the norms
	act    compute.Activation
	scores nn.Scores

	rope, windowRope *compute.Rope // for layers that see all positions, and for sliding-window layers
	window           int           // positions that a token sees in layers with windows; 0: all
	windowed         []bool        // [layers]

	ends
	blocks []nn.PreNorm
}

func newModernBERT(k *nn.Keys, b *nn.Binder) Program {
	m := &modernBERT{sizes: readSizes(k), eps: k.LayerNormEpsilon(1e-5), act: k.Activation(compute.GELU), scores: k.Scores(nn.Scores{Later: true})}
	m.window, m.windowed = k.Windows(nn.WindowSpec{FullEvery: 3, FullFirst: true}, len(m.layers), m.context)
	rope := k.Rope(nn.RopeSpec{Style: compute.Halves, Dims: m.key(), Trained: m.context})
	factors := b.RopeFactors(rope)
	m.rope, m.windowRope = b.RopeWith(rope, factors), b.RopeWith(k.WindowRope(rope, 1e4), factors)

	m.embed = b.Embedding(m.embd)
	m.embed.Norm = b.LayerNorm("token_embd_norm", m.embd, m.eps, nn.NoBias)
	m.output.Ranking = nn.Ranking{Pooling: nn.PoolMean, GELU: true}
	m.output.Norm = b.LayerNorm("output_norm", m.embd, m.eps, nn.NoBias)
	m.blocks = bindBlocks(b, len(m.layers), m.block)
	return m
}

// block binds block i.
func (m *modernBERT) block(b *nn.Binder, i int) nn.PreNorm {
	l := m.layers[i]
	a := b.Attention(l.HeadShape)
	b.QKV(a, m.embd, nn.MayHaveBias)
	a.Rope, a.Scores = m.rope, b.Scores(m.scores, l.HeadShape)
	if m.windowed[i] {
		a.Rope, a.Scores.Window = m.windowRope, m.window
	}
	a.Out = b.Linear("attn_output", m.embd, l.Heads*l.Value, nn.NoBias)

	block := nn.PreNorm{Attn: a, FFNNorm: b.LayerNorm("ffn_norm", m.embd, m.eps, nn.NoBias)}
	if b.Has("attn_norm.weight") {
		block.AttnNorm = b.LayerNorm("attn_norm", m.embd, m.eps, nn.NoBias)
	}
	block.FFN = b.FFN(nn.FFNSpec{Width: m.embd, Neurons: l.ff, Gated: true, Act: m.act, InputNorm: block.FFNNorm})
	return block
}

func (m *modernBERT) Forward(p *nn.Pass) compute.Tensor {
	return through(p, m.embed.Forward(p), m.blocks)
}
