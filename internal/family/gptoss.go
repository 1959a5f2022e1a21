package family

import (
	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/nn"
)

// gptOSS is gpt-oss: pre-norm blocks, grouped-query attention with a sliding window in every second layer, and experts.
// Each head has a sink, a score that takes a share of the softmax and has no value. The router's softmax is over the
// chosen experts, and the experts' activation is a clamped SwiGLU. There are biases everywhere.
//
// Source: OpenAI 2025, gpt-oss-120b & gpt-oss-20b Model Card.
type gptOSS struct {
	sizes
	eps     float32 // epsilon of the norms
	act     compute.Activation
	scores  nn.Scores
	experts nn.ExpertSpec

	rope, windowRope *compute.Rope // for layers that see all positions, and for sliding-window layers
	window           int           // positions that a token sees in layers with windows; 0: all
	windowed         []bool        // [layers]

	ends
	blocks []nn.PreNorm
}

func newGPTOSS(k *nn.Keys, b *nn.Binder) Program {
	m := &gptOSS{sizes: readSizes(k), eps: k.RMSEpsilon(1e-5), scores: k.Scores(nn.Scores{})}
	m.act = k.ActivationOr(compute.Activation{Kind: compute.ClampedSwiGLU, Slope: 1.702, Limit: 7}, "")
	m.window, m.windowed = k.Windows(nn.WindowSpec{Window: 128, FullEvery: 2}, len(m.layers), m.context)
	rope := k.Rope(nn.RopeSpec{Style: compute.Halves, Dims: m.key(), Trained: m.context})
	factors := b.RopeFactors(rope)
	m.rope, m.windowRope = b.RopeWith(rope, factors), b.RopeWith(k.WindowRope(rope, 0), factors)
	m.experts = k.Experts(nn.ExpertSpec{
		Width: m.embd, Neurons: m.ff(), Gated: true, Act: m.act, Routing: compute.Routing{Score: compute.SoftmaxChosen}, Biases: nn.Required,
	})

	m.embed = b.Embedding(m.embd)
	m.output = b.Output(&m.embed, b.RMSNorm("output_norm", m.embd, m.eps), k.LogitCap(0))
	m.blocks = bindBlocks(b, len(m.layers), m.block)
	return m
}

// block binds a block like layer i's.
func (m *gptOSS) block(b *nn.Binder, i int) nn.PreNorm {
	l := m.layers[i]
	a := b.Attention(l.HeadShape)
	b.QKV(a, m.embd, nn.HasBias)
	a.Rope, a.Scores = m.rope, b.Scores(m.scores, l.HeadShape)
	if m.windowed[i] {
		a.Rope, a.Scores.Window = m.windowRope, m.window
	}
	a.Scores.Sinks = b.Vector("attn_sinks.weight", l.Heads)
	a.Out = b.Linear("attn_output", m.embd, l.Heads*l.Value, nn.HasBias)

	ffnNorm := b.RMSNorm("post_attention_norm", m.embd, m.eps)
	return nn.PreNorm{
		AttnNorm: b.RMSNorm("attn_norm", m.embd, m.eps),
		Attn:     a,
		FFNNorm:  ffnNorm,
		FFN:      b.FFNOrExperts(nn.FFNSpec{Width: m.embd, Neurons: l.ff, Gated: true, Act: m.act, InputNorm: ffnNorm}, m.experts),
	}
}

func (m *gptOSS) Forward(p *nn.Pass) compute.Tensor { return through(p, m.embed.Forward(p), m.blocks) }

func (m *gptOSS) BindMTP(b *nn.Binder, _ int) Block { return new(m.block(b, len(m.layers)-1)) }
