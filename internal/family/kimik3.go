package family

import (
	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/nn"
)

// kimiK3 is Kimi K3: blocks with Kimi delta attention or latent attention, both without positions, and experts that
// read and write a vector narrower than the residual, next to shared ones of the residual's width. Each part of a block
// reads the norm of a mix of the residual and of checkpoints, which are the residual every few layers. A layer that
// takes a checkpoint begins a new residual with its attention's output.
//
// Sources: Kimi Team 2026, Kimi K3's model card and configuration, and Attention Residuals.
type kimiK3 struct {
	sizes
	mixers  mixers
	act     compute.Activation
	experts nn.ExpertSpec
	every   int // layers from one checkpoint to the next; 0: there are none

	ends
	blocks []kimiK3Block
	last   nn.Norm // norm of the mix before the head
}

type kimiK3Block struct {
	number            int
	checkpoint        bool
	attnMix, ffnMix   nn.Norm // norms of the mixes that attention and experts read
	attnNorm, ffnNorm nn.Norm
	mixer             mixer
	ffn               nn.FeedForward // experts, or dense
}

func newKimiK3(k *nn.Keys, b *nn.Binder) Program {
	m := &kimiK3{sizes: readHybridSizes(k)}
	m.every = k.Optional(".attn_res.block_size", nn.MaxLayers)
	m.act = k.ActivationOr(compute.Activation{
		Kind:  compute.SiTU,
		Slope: float32(k.Within(".activation.situ_beta", 1, leastSiTU, nn.MaxScale)),
		Limit: float32(max(0, k.Within(".activation.situ_linear_beta", 0, -nn.MaxScale, nn.MaxScale))),
	}, "")
	m.mixers = readMixers(k, b, &m.sizes, false)
	m.experts = k.Experts(nn.ExpertSpec{
		Width: m.embd, Neurons: m.ff(), Gated: true, Act: m.act, Routing: compute.Routing{MinSum: nn.LeastSum}, ChoiceBias: nn.Optional,
		Latent: k.Optional(".expert_latent_length", nn.MaxWidth), Eps: m.mixers.eps,
	})
	if m.checkpoints() > compute.MostCheckpoints {
		k.Fail("key %q: %d checkpoints of the residual are more than %d", k.Arch+".attn_res.block_size", m.checkpoints(), compute.MostCheckpoints)
	}

	m.embed = b.Embedding(m.embd)
	m.output = b.Output(&m.embed, b.RMSNorm("output_norm", m.embd, m.mixers.eps), 0)
	m.last = m.mix(b, "output_res_score")
	for i, l := range m.layers {
		m.blocks = append(m.blocks, m.block(b.Layer(i), i, l))
	}
	return m
}

// leastSiTU bounds the limit of gates, by which they are divided.
const leastSiTU = 1e-3

// checkpoints returns how many checkpoints there are at the end.
func (m *kimiK3) checkpoints() int {
	if m.every == 0 {
		return 0
	}
	return (len(m.layers) + m.every - 1) / m.every
}

// mix binds the weights of a mix, if there are checkpoints.
func (m *kimiK3) mix(b *nn.Binder, name string) nn.Norm {
	if m.every == 0 {
		return nn.Norm{}
	}
	return b.RMSNorm(name, m.embd, m.mixers.eps)
}

func (m *kimiK3) block(b *nn.Binder, i int, l layer) kimiK3Block {
	ffnNorm := b.RMSNorm("ffn_norm", m.embd, m.mixers.eps)
	return kimiK3Block{
		number: i, checkpoint: m.every > 0 && i%m.every == 0,
		attnMix: m.mix(b, "attn_res_score"), ffnMix: m.mix(b, "ffn_res_score"),
		attnNorm: b.RMSNorm("attn_norm", m.embd, m.mixers.eps), ffnNorm: ffnNorm,
		mixer: m.mixers.bind(b, i, l),
		ffn:   b.FFNOrExperts(nn.FFNSpec{Width: m.embd, Neurons: l.ff, Gated: true, Act: m.act, InputNorm: ffnNorm}, m.experts),
	}
}

func (m *kimiK3) Forward(p *nn.Pass) compute.Tensor {
	x, past := m.embed.Forward(p), p.Checkpoints(m.checkpoints(), m.embd)
	for i := range m.blocks {
		p.Layer(i, x)
		x = m.blocks[i].Forward(p, x, &past)
	}
	return past.Mix(p, x, m.last)
}

func (l *kimiK3Block) Forward(p *nn.Pass, x compute.Tensor, past *nn.Checkpoints) compute.Tensor {
	in := p.Norm(past.Mix(p, x, l.attnMix), l.attnNorm)
	if l.checkpoint {
		past.Push(p, x)
	}
	x, y := l.mixer.Forward(p, x, in)
	past.Narrow(p, l.number)
	if l.checkpoint {
		p.Replace(x, y)
	} else {
		p.Add(x, y)
	}
	mixed := past.Mix(p, x, l.ffnMix)
	p.Add(x, l.ffn.Forward(p, mixed, p.Norm(mixed, l.ffnNorm)))
	return x
}
