package family

import (
	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/nn"
)

// llama is Llama, Mistral and their kin, ProSparse and TurboSparse among them: pre-norm blocks, grouped-query
// attention, and SwiGLU, or experts in its place, as in Mixtral.
//
// Sources: Touvron et al. 2023, LLaMA; Jiang et al. 2024, Mixtral of Experts.
type llama struct {
	sizes
	eps     float32 // epsilon of the norms
	act     compute.Activation
	rope    *compute.Rope
	scores  nn.Scores
	experts nn.ExpertSpec

	ends
	blocks []nn.PreNorm
}

func newLlama(k *nn.Keys, b *nn.Binder) Program {
	m := &llama{sizes: readSizes(k), eps: k.RMSEpsilon(1e-5), act: k.ActivationOr(compute.Activation{Kind: compute.SiLU}, "relu"), scores: k.Scores(nn.Scores{})}
	m.rope = b.Rope(k.Rope(nn.RopeSpec{Style: compute.Interleaved, Dims: m.key(), Trained: m.context}))
	m.experts = k.Experts(nn.ExpertSpec{
		Width: m.embd, Neurons: m.ff(), Gated: true, Act: m.act, Routing: compute.Routing{Normalised: true, MinSum: nn.LeastSum},
	})

	m.embed = b.Embedding(m.embd)
	m.output = b.Output(&m.embed, b.RMSNorm("output_norm", m.embd, m.eps), k.LogitCap(0))
	m.blocks = bindBlocks(b, len(m.layers), m.block)
	return m
}

// block binds a block like layer i's.
func (m *llama) block(b *nn.Binder, i int) nn.PreNorm {
	l := m.at(i)
	a := b.Attention(l.HeadShape)
	b.QKV(a, m.embd, nn.MayHaveBias)
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

func (m *llama) Forward(p *nn.Pass) compute.Tensor { return through(p, m.embed.Forward(p), m.blocks) }

func (m *llama) BindMTP(b *nn.Binder, l int) Block { return new(m.block(b, l)) }
