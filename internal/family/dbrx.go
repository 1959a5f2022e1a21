package family

import (
	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/nn"
)

// dbrx is DBRX: LayerNorms without biases before attention and before experts with SwiGLU. Files may clamp queries,
// keys and values.
//
// Source: Mosaic Research 2024, Introducing DBRX.
type dbrx struct {
	sizes
	eps     float32 // epsilon of the norms
	act     compute.Activation
	rope    *compute.Rope
	scores  nn.Scores
	clamp   float32 // see nn.Attention
	experts nn.ExpertSpec

	ends
	blocks []nn.PreNorm
}

func newDBRX(k *nn.Keys, b *nn.Binder) Program {
	m := &dbrx{sizes: readSizes(k), eps: k.LayerNormEpsilon(1e-5), act: k.Activation(compute.SiLU), scores: k.Scores(nn.Scores{})}
	m.clamp = float32(k.Within(".attention.clamp_kqv", 0, 0, nn.MaxScale))
	m.rope = b.Rope(k.Rope(nn.RopeSpec{Style: compute.Halves, Dims: m.key(), Trained: m.context}))
	m.experts = k.Experts(nn.ExpertSpec{
		Width: m.embd, Neurons: m.ff(), Gated: true, Act: m.act, Routing: compute.Routing{Normalised: true, MinSum: nn.LeastSum},
	})

	m.embed = b.Embedding(m.embd)
	m.output = b.Output(&m.embed, b.LayerNorm("output_norm", m.embd, m.eps, nn.NoBias), k.LogitCap(0))
	m.blocks = bindBlocks(b, len(m.layers), m.block)
	return m
}

// block binds a block like layer i's.
func (m *dbrx) block(b *nn.Binder, i int) nn.PreNorm {
	l := m.at(i)
	a := b.Attention(l.HeadShape)
	b.QKV(a, m.embd, nn.MayHaveBias)
	a.Rope, a.Scores, a.Clamp = m.rope, b.Scores(m.scores, l.HeadShape), m.clamp
	a.Out = b.Linear("attn_output", m.embd, l.Heads*l.Value, nn.NoBias)

	ffnNorm := b.LayerNorm("attn_output_norm", m.embd, m.eps, nn.NoBias)
	return nn.PreNorm{
		AttnNorm: b.LayerNorm("attn_norm", m.embd, m.eps, nn.NoBias),
		Attn:     a,
		FFNNorm:  ffnNorm,
		FFN:      b.Experts(m.experts, nil).Reads(ffnNorm),
	}
}

func (m *dbrx) Forward(p *nn.Pass) compute.Tensor { return through(p, m.embed.Forward(p), m.blocks) }
