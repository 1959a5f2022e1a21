package family

import (
	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/nn"
)

// phiMoE is Phi-3.5 MoE: pre-norm blocks, grouped-query attention, and experts with SwiGLU, with biases of norms, of
// attention's products and of the head. Long contexts divide frequencies by other factors.
//
// The published model has LayerNorms, and chooses its two experts one after the other. GGUF files and llama.cpp mean
// RMSNorms with biases, and the two best experts with normalised weights.
//
// Source: Microsoft 2024, Phi-3 Technical Report.
type phiMoE struct {
	sizes
	eps     float32 // epsilon of the norms
	act     compute.Activation
	rope    *compute.Rope
	scores  nn.Scores
	experts nn.ExpertSpec

	ends
	blocks []nn.PreNorm
}

func newPhiMoE(k *nn.Keys, b *nn.Binder) Program {
	m := &phiMoE{sizes: readSizes(k), eps: k.RMSEpsilon(1e-5), act: k.Activation(compute.SiLU), scores: k.Scores(nn.Scores{})}
	m.rope = b.Rope(k.Rope(nn.RopeSpec{Style: compute.Halves, Dims: m.key(), Trained: m.context}))
	m.experts = k.Experts(nn.ExpertSpec{
		Width: m.embd, Neurons: m.ff(), Gated: true, Act: m.act, Routing: compute.Routing{Normalised: true, MinSum: nn.LeastSum},
	})

	m.embed = b.Embedding(m.embd)
	m.output = b.Output(&m.embed, b.BiasedRMSNorm("output_norm", m.embd, m.eps), k.LogitCap(0))
	m.output.Head.B = b.Bias("output", b.Rows("token_embd.weight"), nn.Required)
	m.blocks = bindBlocks(b, len(m.layers), m.block)
	return m
}

// block binds a block like layer i's.
func (m *phiMoE) block(b *nn.Binder, i int) nn.PreNorm {
	l := m.at(i)
	a := b.Attention(l.HeadShape)
	b.QKV(a, m.embd, nn.MayHaveBias)
	a.Rope, a.Scores = m.rope, b.Scores(m.scores, l.HeadShape)
	a.Out = b.Linear("attn_output", m.embd, l.Heads*l.Value, nn.HasBias)

	ffnNorm := b.BiasedRMSNorm("ffn_norm", m.embd, m.eps)
	return nn.PreNorm{
		AttnNorm: b.BiasedRMSNorm("attn_norm", m.embd, m.eps),
		Attn:     a,
		FFNNorm:  ffnNorm,
		FFN:      b.Experts(m.experts, nil).Reads(ffnNorm),
	}
}

func (m *phiMoE) Forward(p *nn.Pass) compute.Tensor { return through(p, m.embed.Forward(p), m.blocks) }
