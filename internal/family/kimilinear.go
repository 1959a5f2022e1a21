package family

import (
	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/nn"
)

// kimiLinear is Kimi Linear and Ling 3: pre-norm blocks, most of them with Kimi delta attention and the others, those
// with KV heads, with latent attention. Experts with SwiGLU follow, with shared ones that all tokens use; layers
// without a router in the file, the first ones, have one feed-forward layer instead. Ling's layers may limit the
// factors of their SwiGLUs.
//
// Sources: Kimi Team 2025, Kimi Linear; Ling 3's configuration.
type kimiLinear struct {
	sizes
	mixers         mixers
	act            compute.Activation
	experts        nn.ExpertSpec
	limits, others []float32 // limits of experts, and of shared experts and dense layers; 0: none

	ends
	blocks []kimiLinearBlock
}

type kimiLinearBlock struct {
	norm    nn.Norm
	mixer   mixer
	ffnNorm nn.Norm
	ffn     nn.FeedForward // experts, or dense
}

// newKimiLinear binds Kimi Linear. Its latent attention has no positions, and the weights of a token's experts add up
// to 1.
func newKimiLinear(k *nn.Keys, b *nn.Binder) Program {
	return bindKimiLinear(k, b, false)
}

// newBailingMoE3 binds Ling 3. Its latent attention is rotated.
func newBailingMoE3(k *nn.Keys, b *nn.Binder) Program {
	return bindKimiLinear(k, b, true)
}

func bindKimiLinear(k *nn.Keys, b *nn.Binder, rotated bool) Program {
	m := &kimiLinear{sizes: readHybridSizes(k), act: k.Activation(compute.SiLU)}
	m.mixers = readMixers(k, b, &m.sizes, rotated)
	m.experts = k.Experts(nn.ExpertSpec{
		Width: m.embd, Neurons: m.ff(), Gated: true, Routing: compute.Routing{MinSum: nn.LeastSum}, ChoiceBias: nn.Optional,
	})
	m.experts.Routing.Normalised = m.experts.Routing.Normalised || !rotated
	n := len(m.layers) + k.Extra
	m.limits, m.others = k.Limits(".swiglu_clamp_exp", n), k.Limits(".swiglu_clamp_shexp", n)

	m.embed = b.Embedding(m.embd)
	m.output = b.Output(&m.embed, b.RMSNorm("output_norm", m.embd, m.mixers.eps), 0)
	for i, l := range m.layers {
		m.blocks = append(m.blocks, m.block(b.Layer(i), i, l))
	}
	return m
}

// block binds block i, of l's sizes.
func (m *kimiLinear) block(b *nn.Binder, i int, l layer) kimiLinearBlock {
	eps, experts := m.mixers.eps, m.experts
	experts.Act = nn.Capped(m.act, m.limits[i])
	ffnNorm := b.RMSNorm("ffn_norm", m.embd, eps)
	return kimiLinearBlock{
		norm:    b.RMSNorm("attn_norm", m.embd, eps),
		mixer:   m.mixers.bind(b, i, l),
		ffnNorm: ffnNorm,
		ffn:     b.FFNOrExperts(nn.FFNSpec{Width: m.embd, Neurons: l.ff, Gated: true, Act: nn.Capped(m.act, m.others[i]), InputNorm: ffnNorm}, experts),
	}
}

func (m *kimiLinear) Forward(p *nn.Pass) compute.Tensor {
	return through(p, m.embed.Forward(p), m.blocks)
}

func (l *kimiLinearBlock) Forward(p *nn.Pass, x compute.Tensor) compute.Tensor {
	x, y := l.mixer.Forward(p, x, p.Norm(x, l.norm))
	p.Add(x, y)
	p.Add(x, l.ffn.Forward(p, x, p.Norm(x, l.ffnNorm)))
	return x
}

func (l *kimiLinearBlock) Store(p *nn.Pass, x compute.Tensor) {
	l.mixer.latent.Attend(p, p.Norm(x, l.norm))
}

func (m *kimiLinear) BindMTP(b *nn.Binder, l int) Block {
	return new(m.block(b, l, m.layers[m.attention()]))
}
