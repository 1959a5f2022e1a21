package family

import (
	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/nn"
)

// lfm2 is LFM2 and LFM2.5: pre-norm blocks, most of them with a gated short convolution, the others with grouped-query
// attention with a norm of every head of queries and keys. SwiGLU follows or, after the first layers, experts scored by
// a sigmoid, with a bias for the choice.
//
// Source: Liquid AI 2025, LFM2 Technical Report.
type lfm2 struct {
	sizes
	eps     float32 // epsilon of the norms
	act     compute.Activation
	rope    *compute.Rope
	scores  nn.Scores
	experts nn.ExpertSpec
	taps    int // positions that convolutions see

	ends
	blocks []hybridBlock
}

func newLFM2(k *nn.Keys, b *nn.Binder) Program {
	m := &lfm2{sizes: readHybridSizes(k), eps: k.RMSEpsilon(1e-5), act: k.Activation(compute.SiLU), scores: k.Scores(nn.Scores{})}
	m.taps = k.ShortConvTaps()
	m.rope = b.Rope(k.Rope(nn.RopeSpec{Style: compute.Halves, Dims: m.key(), Trained: m.context}))
	m.experts = k.Experts(nn.ExpertSpec{
		Width: m.embd, Neurons: m.ff(), Gated: true, Act: m.act, Routing: compute.Routing{Score: compute.Sigmoid, Normalised: true, MinSum: nn.LeastSum},
		ChoiceBias: nn.Required,
	})

	m.embed = b.Embedding(m.embd)
	m.output = b.Output(&m.embed, b.RMSNorm("token_embd_norm", m.embd, m.eps), k.LogitCap(0))
	m.blocks = bindBlocks(b, len(m.layers), m.block)
	return m
}

// block binds a block like layer i's.
func (m *lfm2) block(b *nn.Binder, i int) hybridBlock {
	l := m.layers[i]
	block := hybridBlock{number: i, norm: b.RMSNorm("attn_norm", m.embd, m.eps), ffnNorm: b.RMSNorm("ffn_norm", m.embd, m.eps)}
	if l.KVHeads == 0 {
		block.mixer = b.ShortConv(m.embd, m.taps)
	} else {
		a := b.Attention(l.HeadShape)
		b.QKV(a, m.embd, nn.MayHaveBias)
		a.QNorm, a.KNorm = b.HeadNorm("attn_q_norm", l.Key, m.eps), b.HeadNorm("attn_k_norm", l.Key, m.eps)
		a.Rope, a.Scores = m.rope, b.Scores(m.scores, l.HeadShape)
		a.Out = b.Linear("attn_output", m.embd, l.Heads*l.Value, nn.NoBias)
		block.attn = a
	}
	block.ffn = b.FFNOrExperts(nn.FFNSpec{Width: m.embd, Neurons: l.ff, Gated: true, Act: m.act, InputNorm: block.ffnNorm}, m.experts)
	return block
}

func (m *lfm2) Forward(p *nn.Pass) compute.Tensor { return through(p, m.embed.Forward(p), m.blocks) }

func (m *lfm2) BindMTP(b *nn.Binder, _ int) Block { return new(m.block(b, m.attention())) }
