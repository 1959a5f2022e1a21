package family

import (
	"cmp"
	"math"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/nn"
)

// grok is Grok 1 and 2: norms before and after attention, and before and after experts, which are GEGLUs. Scores have a
// soft cap. Grok 2 adds a feed-forward layer for all tokens to the experts, and divides the sum by √2. Embeddings, scores
// and logits have factors.
//
// Source: xAI 2024 and 2025, the published code and configurations of Grok-1 and Grok 2.
type grok struct {
	sizes
	eps     float32 // epsilon of the norms
	act     compute.Activation
	rope    *compute.Rope
	scores  nn.Scores
	experts nn.ExpertSpec

	ends
	blocks []grokBlock
}

type grokBlock struct {
	attnNorm nn.Norm
	attn     *nn.Attention
	attnPost nn.Norm // norm of attention's output
	ffnNorm  nn.Norm
	ffn      *nn.FFN // the feed-forward layer of all tokens, or nil
	experts  *nn.Experts
	ffnPost  nn.Norm // norm of the sum of both outputs
}

func newGrok(k *nn.Keys, b *nn.Binder) Program {
	m := &grok{sizes: readSizes(k), eps: k.RMSEpsilon(1e-5), act: k.Activation(compute.GELU)}
	m.scores = k.Scores(nn.Scores{Scale: k.Within(".attention.output_scale", 1/math.Sqrt(128), 0, nn.MaxScale), SoftCap: 30})
	rope := k.Rope(nn.RopeSpec{Style: compute.Halves, Dims: m.key(), Trained: m.context, BetaFast: 8})
	rope.AttnFactor, rope.Magnitude = rope.AttnFactor*cmp.Or(rope.Magnitude, 1), 0 // files have a factor of YaRN's magnitude there
	m.rope = b.Rope(rope)
	m.experts = k.Experts(nn.ExpertSpec{
		Width: m.embd, Neurons: m.ff(), Gated: true, Act: m.act, Routing: compute.Routing{Normalised: true, MinSum: nn.LeastSum},
	})

	m.embed = b.Embedding(m.embd)
	m.embed.Scale = k.Factor(".embedding_scale", 78.38367176906169) // Grok 1's, for files that do not say them
	m.output = b.Output(&m.embed, b.RMSNorm("output_norm", m.embd, m.eps), k.LogitCap(0))
	m.output.Scale = k.Factor(".logit_scale", 1/math.Sqrt(3))
	m.blocks = bindBlocks(b, len(m.layers), m.block)
	return m
}

// block binds a block like layer i's.
func (m *grok) block(b *nn.Binder, i int) grokBlock {
	l := m.at(i)
	a := b.Attention(l.HeadShape)
	b.QKV(a, m.embd, nn.MayHaveBias)
	a.Rope, a.Scores = m.rope, b.Scores(m.scores, l.HeadShape)
	a.Out = b.Linear("attn_output", m.embd, l.Heads*l.Value, nn.MayHaveBias)

	ffnNorm := b.RMSNorm("ffn_norm", m.embd, m.eps)
	block := grokBlock{
		attnNorm: b.RMSNorm("attn_norm", m.embd, m.eps),
		attn:     a,
		attnPost: b.RMSNorm("attn_output_norm", m.embd, m.eps),
		ffnNorm:  ffnNorm,
		experts:  b.Experts(m.experts, nil).Reads(ffnNorm),
	}
	if b.Has("ffn_up.weight") {
		block.ffn = b.FFNBesideExperts(nn.FFNSpec{Width: m.embd, Neurons: l.ff, Gated: true, Act: m.act})
	}
	after := "post_ffw_norm"
	if b.Has("layer_output_norm.weight") { // as files of Grok 1 name it
		after = "layer_output_norm"
	}
	block.ffnPost = b.RMSNorm(after, m.embd, m.eps)
	return block
}

func (m *grok) Forward(p *nn.Pass) compute.Tensor { return through(p, m.embed.Forward(p), m.blocks) }

func (l *grokBlock) Forward(p *nn.Pass, x compute.Tensor) compute.Tensor {
	x, y := l.attn.Forward(p, x, p.Norm(x, l.attnNorm))
	p.Normalize(y, l.attnPost)
	p.Add(x, y)
	in := p.Norm(x, l.ffnNorm)
	y = l.experts.Forward(p, x, in)
	if l.ffn != nil {
		p.Add(y, l.ffn.Forward(p, x, in))
		p.Scale(y, 1/math.Sqrt2)
	}
	p.Normalize(y, l.ffnPost)
	p.Add(x, y)
	return x
}
