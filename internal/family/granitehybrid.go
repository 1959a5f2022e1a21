package family

import (
	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/nn"
)

// graniteHybrid is Granite 4's hybrids: pre-norm blocks, most of them with a selective state space, the others with
// grouped-query attention that files say not to rotate. SwiGLU follows, or experts with a shared one. There are factors
// of the embeddings, of each part's output, and of the logits.
//
// Source: IBM 2025, Granite 4.0 Language Models.
type graniteHybrid struct {
	sizes
	eps     float32 // epsilon of the norms
	act     compute.Activation
	rope    *compute.Rope
	scores  nn.Scores
	experts nn.ExpertSpec
	states  nn.StateSpec
	part    float32 // factor of what each part of a block adds to the residual

	ends
	blocks []graniteHybridBlock
}

type graniteHybridBlock struct {
	number  int
	part    float32
	norm    nn.Norm
	mamba   *nn.Mamba2 // or nil: there is attention
	attn    *nn.Attention
	ffnNorm nn.Norm
	ffn     nn.FeedForward // dense, or experts
}

func newGraniteHybrid(k *nn.Keys, b *nn.Binder) Program {
	m := &graniteHybrid{sizes: readHybridSizes(k), eps: k.RMSEpsilon(1e-5), act: k.Activation(compute.SiLU), scores: k.Scores(nn.Scores{})}
	m.states, m.part = k.States(), k.Factor(".residual_scale", 1)
	rope := k.Rope(nn.RopeSpec{Style: compute.Interleaved, Dims: m.key(), Trained: m.context})
	if factors := b.RopeFactors(rope); k.Flag(".rope.scaling.finetuned", true) {
		m.rope = b.RopeWith(rope, factors)
	}
	m.experts = k.Experts(nn.ExpertSpec{
		Width: m.embd, Neurons: m.ff(), Gated: true, Act: m.act, Routing: compute.Routing{Normalised: true, MinSum: nn.LeastSum},
	})

	m.embed = b.Embedding(m.embd)
	m.embed.Scale = k.Factor(".embedding_scale", 1)
	m.output = b.Output(&m.embed, b.RMSNorm("output_norm", m.embd, m.eps), k.LogitCap(0))
	m.output.Scale = 1 / k.Factor(".logit_scale", 1)
	m.blocks = bindBlocks(b, len(m.layers), m.block)
	return m
}

// block binds a block like layer i's.
func (m *graniteHybrid) block(b *nn.Binder, i int) graniteHybridBlock {
	l := m.layers[i]
	block := graniteHybridBlock{number: i, part: m.part, norm: b.RMSNorm("attn_norm", m.embd, m.eps), ffnNorm: b.RMSNorm("ffn_norm", m.embd, m.eps)}
	if l.KVHeads == 0 {
		block.mamba = b.Mamba2(m.states, m.embd, m.eps, nn.Required)
	} else {
		a := b.Attention(l.HeadShape)
		b.QKV(a, m.embd, nn.MayHaveBias)
		a.Rope, a.Scores = m.rope, b.Scores(m.scores, l.HeadShape)
		a.Out = b.Linear("attn_output", m.embd, l.Heads*l.Value, nn.MayHaveBias)
		block.attn = a
	}
	block.ffn = b.FFNOrExperts(nn.FFNSpec{Width: m.embd, Neurons: l.ff, Gated: true, Act: m.act, InputNorm: block.ffnNorm}, m.experts)
	return block
}

func (m *graniteHybrid) Forward(p *nn.Pass) compute.Tensor {
	return through(p, m.embed.Forward(p), m.blocks)
}

func (l *graniteHybridBlock) Forward(p *nn.Pass, x compute.Tensor) compute.Tensor {
	in := p.Norm(x, l.norm)
	var y compute.Tensor
	if l.mamba != nil {
		y = l.mamba.Forward(p, in)
	} else {
		x, y = l.attn.Forward(p, x, in)
	}
	p.Scale(y, l.part)
	p.Add(x, y)
	if l.mamba != nil {
		x = p.Wanted(l.number, x)
	}
	y = l.ffn.Forward(p, x, p.Norm(x, l.ffnNorm))
	p.Scale(y, l.part)
	p.Add(x, y)
	return x
}

func (l *graniteHybridBlock) Store(p *nn.Pass, x compute.Tensor) { l.attn.Attend(p, p.Norm(x, l.norm)) }

func (m *graniteHybrid) BindMTP(b *nn.Binder, _ int) Block { return new(m.block(b, m.attention())) }
