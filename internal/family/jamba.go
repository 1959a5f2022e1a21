package family

import (
	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/nn"
)

// jamba is Jamba: pre-norm blocks, most of them with Mamba, with norms of its steps, B and C, the others with
// grouped-query attention without positions. SwiGLU follows, or experts weighed by a softmax over all experts.
//
// Source: Lieber et al. 2024, Jamba: A Hybrid Transformer-Mamba Language Model.
type jamba struct {
	sizes
	eps     float32 // epsilon of the norms
	act     compute.Activation
	scores  nn.Scores
	experts nn.ExpertSpec
	states  nn.MambaSpec

	ends
	blocks []hybridBlock
}

func newJamba(k *nn.Keys, b *nn.Binder) Program {
	m := &jamba{sizes: readHybridSizes(k), eps: k.RMSEpsilon(1e-6), act: k.Activation(compute.SiLU), scores: k.Scores(nn.Scores{})}
	m.states = k.Mamba()
	m.experts = k.Experts(nn.ExpertSpec{Width: m.embd, Neurons: m.ff(), Gated: true, Act: m.act})

	m.embed = b.Embedding(m.embd)
	m.output = b.Output(&m.embed, b.RMSNorm("output_norm", m.embd, m.eps), k.LogitCap(0))
	m.blocks = bindBlocks(b, len(m.layers), m.block)
	return m
}

// block binds block i.
func (m *jamba) block(b *nn.Binder, i int) hybridBlock {
	l := m.layers[i]
	block := hybridBlock{number: i, norm: b.RMSNorm("attn_norm", m.embd, m.eps), ffnNorm: b.RMSNorm("ffn_norm", m.embd, m.eps)}
	if l.KVHeads == 0 {
		mamba := b.Mamba(m.states, m.embd)
		b.MambaNorms(mamba, m.states, m.eps, nn.Required)
		block.mixer = mamba
	} else {
		a := b.Attention(l.HeadShape)
		b.QKV(a, m.embd, nn.MayHaveBias)
		a.Scores = b.Scores(m.scores, l.HeadShape)
		a.Out = b.Linear("attn_output", m.embd, l.Heads*l.Value, nn.NoBias)
		block.attn = a
	}
	block.ffn = b.FFNOrExperts(nn.FFNSpec{Width: m.embd, Neurons: l.ff, Gated: true, Act: m.act, InputNorm: block.ffnNorm}, m.experts)
	return block
}

func (m *jamba) Forward(p *nn.Pass) compute.Tensor { return through(p, m.embed.Forward(p), m.blocks) }
