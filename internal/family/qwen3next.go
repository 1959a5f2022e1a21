package family

import (
	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/nn"
)

// qwen3Next is Qwen3-Next, and the text part of Qwen3.5: pre-norm blocks, three of four with a gated delta net, the
// others with gated attention, which has a norm of every head of queries and keys, and rotates a part of each head, as
// files say. SwiGLU follows, or experts with a shared one that a sigmoid weighs.
//
// Source: Qwen Team 2025, Qwen3-Next: Towards Ultimate Training & Inference Efficiency.
type qwen3Next struct {
	sizes
	eps     float32 // epsilon of the norms
	act     compute.Activation
	rope    *compute.Rope
	scores  nn.Scores
	experts nn.ExpertSpec
	states  nn.StateSpec
	tiled   bool // see nn.Binder.DeltaNet

	ends
	blocks []hybridBlock
}

func newQwen3Next(k *nn.Keys, b *nn.Binder) Program { return bindQwen3Next(k, b, false) }

// newQwen35 binds Qwen3.5. Its files have the heads of delta nets in another order.
func newQwen35(k *nn.Keys, b *nn.Binder) Program { return bindQwen3Next(k, b, true) }

func bindQwen3Next(k *nn.Keys, b *nn.Binder, tiled bool) Program {
	m := &qwen3Next{sizes: readSizes(k), eps: k.RMSEpsilon(1e-5), act: k.Activation(compute.SiLU), scores: k.Scores(nn.Scores{})}
	m.states, m.tiled = k.States(), tiled
	for i, recurrent := range k.Recurrent(len(m.layers)) {
		if recurrent {
			m.layers[i].HeadShape = nn.HeadShape{}
		}
	}
	m.rope = b.Rope(k.Rope(nn.RopeSpec{Style: compute.Halves, Mixed: true, Dims: m.key(), Trained: m.context}))
	if k.Says(".expert_used_count") {
		used := k.Same(".expert_used_count", 1, nn.MaxExperts)
		m.experts = k.Experts(nn.ExpertSpec{
			Width: m.embd, Gated: true, Act: m.act, Gate: true, Routing: compute.Routing{Normalised: true, MinSum: nn.LeastSum},
			Neurons: max(1, m.ff()/used), // for files that say the neurons of a token's experts together
			Shared:  m.ff(),              // for files that do not say it
		})
	}

	m.embed = b.Embedding(m.embd)
	m.output = b.Output(&m.embed, b.RMSNorm("output_norm", m.embd, m.eps), k.LogitCap(0))
	m.blocks = bindBlocks(b, len(m.layers), m.block)
	return m
}

// block binds a block like layer i's.
func (m *qwen3Next) block(b *nn.Binder, i int) hybridBlock {
	l := m.layers[i]
	block := hybridBlock{number: i, norm: b.RMSNorm("attn_norm", m.embd, m.eps), ffnNorm: b.RMSNorm("post_attention_norm", m.embd, m.eps)}
	if l.KVHeads == 0 {
		block.mixer = b.DeltaNet(m.states, m.embd, m.eps, m.tiled)
	} else {
		a := b.Attention(l.HeadShape)
		a.Gated = true
		b.QKV(a, m.embd, nn.MayHaveBias)
		a.QNorm, a.KNorm = b.HeadNorm("attn_q_norm", l.Key, m.eps), b.HeadNorm("attn_k_norm", l.Key, m.eps)
		a.Rope, a.Scores = m.rope, b.Scores(m.scores, l.HeadShape)
		a.Out = b.Linear("attn_output", m.embd, l.Heads*l.Value, nn.MayHaveBias)
		block.attn = a
	}
	block.ffn = b.FFNOrExperts(nn.FFNSpec{Width: m.embd, Neurons: l.ff, Gated: true, Act: m.act, InputNorm: block.ffnNorm}, m.experts)
	return block
}

func (m *qwen3Next) Forward(p *nn.Pass) compute.Tensor {
	return through(p, m.embed.Forward(p), m.blocks)
}

func (m *qwen3Next) BindMTP(b *nn.Binder, _ int) Block { return new(m.block(b, m.attention())) }
