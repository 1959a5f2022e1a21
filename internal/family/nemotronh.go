package family

import (
	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/nn"
)

// nemotronH is Nemotron-H, Nemotron Nano 2 and Nemotron 3. Each block is one part that reads the norm of the residual.
// Most are selective state spaces, or feed-forward layers or experts with squared ReLU and without a gate, so that many
// neurons are zero. A few have grouped-query attention without positions.
//
// Sources: NVIDIA 2025, Nemotron-H; NVIDIA 2025, Nemotron 3 Nano.
type nemotronH struct {
	sizes
	eps     float32 // epsilon of the norms
	act     compute.Activation
	scores  nn.Scores
	experts nn.ExpertSpec
	states  nn.StateSpec

	ends
	blocks []nemotronHBlock
}

// nemotronHBlock has one of mamba, attn and ffn; the others are nil.
type nemotronHBlock struct {
	number int
	norm   nn.Norm
	mamba  *nn.Mamba2
	attn   *nn.Attention
	ffn    nn.FeedForward // dense, or experts
}

func newNemotronH(k *nn.Keys, b *nn.Binder) Program {
	m := &nemotronH{sizes: readHybridSizes(k), eps: k.RMSEpsilon(1e-5), act: k.Activation(compute.ReLU2), scores: k.Scores(nn.Scores{})}
	m.states = k.States()
	m.experts = k.Experts(nn.ExpertSpec{
		Width: m.embd, Neurons: m.ff(), Act: m.act, Routing: compute.Routing{Score: compute.Sigmoid, MinSum: nn.LeastSum}, ChoiceBias: nn.Required,
	})
	m.experts.Latent = k.Optional(".moe_latent_size", nn.MaxWidth)

	m.embed = b.Embedding(m.embd)
	m.output = b.Output(&m.embed, b.RMSNorm("output_norm", m.embd, m.eps), k.LogitCap(0))
	m.blocks = bindBlocks(b, len(m.layers), m.block)
	return m
}

// block binds block i.
func (m *nemotronH) block(b *nn.Binder, i int) nemotronHBlock {
	l := m.layers[i]
	block := nemotronHBlock{number: i, norm: b.RMSNorm("attn_norm", m.embd, m.eps)}
	switch {
	case l.KVHeads > 0:
		a := b.Attention(l.HeadShape)
		b.QKV(a, m.embd, nn.MayHaveBias)
		a.Scores = b.Scores(m.scores, l.HeadShape)
		a.Out = b.Linear("attn_output", m.embd, l.Heads*l.Value, nn.MayHaveBias)
		block.attn = a
	case l.ff > 0:
		ffn := nn.FFNSpec{Width: m.embd, Neurons: l.ff, Act: m.act, UpBias: nn.Optional, DownBias: nn.Optional, InputNorm: block.norm}
		block.ffn = b.FFNOrExperts(ffn, m.experts)
	default:
		block.mamba = b.Mamba2(m.states, m.embd, m.eps, nn.Required)
	}
	return block
}

func (m *nemotronH) Forward(p *nn.Pass) compute.Tensor {
	return through(p, m.embed.Forward(p), m.blocks)
}

func (l *nemotronHBlock) Forward(p *nn.Pass, x compute.Tensor) compute.Tensor {
	switch {
	case l.mamba != nil:
		p.Add(x, l.mamba.Forward(p, p.Norm(x, l.norm)))
		return p.Wanted(l.number, x)
	case l.attn != nil:
		x, y := l.attn.Forward(p, x, p.Norm(x, l.norm))
		p.Add(x, y)
		return x
	}
	x = p.Wanted(l.number, x)
	p.Add(x, l.ffn.Forward(p, x, p.Norm(x, l.norm)))
	return x
}
