package family

import (
	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/nn"
)

// qwen3MoE is Qwen 3 with experts, and the text part of Qwen3-VL's models with experts: pre-norm blocks, grouped-query
// attention with a norm of every head of queries and keys, and experts with SwiGLU. Layers without a router in the file
// have one feed-forward layer instead.
//
// Source: Qwen Team 2025, Qwen3 Technical Report.
type qwen3MoE struct {
	sizes
	eps     float32 // epsilon of the norms
	act     compute.Activation
	rope    *compute.Rope
	scores  nn.Scores
	experts nn.ExpertSpec

	ends
	blocks []nn.PreNorm
}

func newQwen3MoE(k *nn.Keys, b *nn.Binder) Program {
	m := &qwen3MoE{sizes: readSizes(k), eps: k.RMSEpsilon(1e-5), act: k.Activation(compute.SiLU), scores: k.Scores(nn.Scores{})}
	m.rope = b.Rope(k.Rope(nn.RopeSpec{Style: compute.Halves, Mixed: true, Dims: m.key(), Trained: m.context}))
	m.experts = k.Experts(nn.ExpertSpec{
		Width: m.embd, Gated: true, Act: m.act, Routing: compute.Routing{Normalised: true, MinSum: nn.LeastSum},
		Neurons: max(1, m.ff()/k.Same(".expert_used_count", 0, nn.MaxExperts)), // for files that say the neurons of a token's experts together
	})

	m.embed = b.Embedding(m.embd)
	m.embed.Deep = k.Deep(len(m.layers))
	m.output = b.Output(&m.embed, b.RMSNorm("output_norm", m.embd, m.eps), k.LogitCap(0))
	m.output.Ranking.Softmax = true
	m.blocks = bindBlocks(b, len(m.layers), m.block)
	return m
}

// block binds a block like layer i's.
func (m *qwen3MoE) block(b *nn.Binder, i int) nn.PreNorm {
	l := m.at(i)
	a := b.Attention(l.HeadShape)
	b.QKV(a, m.embd, nn.MayHaveBias)
	a.QNorm, a.KNorm = b.HeadNorm("attn_q_norm", l.Key, m.eps), b.HeadNorm("attn_k_norm", l.Key, m.eps)
	a.Rope, a.Scores = m.rope, b.Scores(m.scores, l.HeadShape)
	a.Out = b.Linear("attn_output", m.embd, l.Heads*l.Value, nn.MayHaveBias)

	ffnNorm := b.RMSNorm("ffn_norm", m.embd, m.eps)
	return nn.PreNorm{
		AttnNorm: b.RMSNorm("attn_norm", m.embd, m.eps),
		Attn:     a,
		FFNNorm:  ffnNorm,
		FFN:      b.FFNOrExperts(nn.FFNSpec{Width: m.embd, Neurons: l.ff, Gated: true, Act: m.act, InputNorm: ffnNorm}, m.experts),
	}
}

func (m *qwen3MoE) Forward(p *nn.Pass) compute.Tensor {
	x := m.embed.Forward(p)
	for i := range m.blocks {
		p.Layer(i, x)
		x = m.blocks[i].Forward(p, x)
		p.InsertDeep(x, i, m.embed.Deep)
	}
	return x
}

func (m *qwen3MoE) BindMTP(b *nn.Binder, l int) Block { return new(m.block(b, l)) }
