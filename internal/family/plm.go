package family

import (
	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/nn"
)

// plm is PLM: pre-norm blocks, latent attention, and a feed-forward layer with squared ReLU and without a gate, so that
// many neurons are zero.
//
// Source: Deng et al. 2025, PLM: Efficient Peripheral Language Models.
type plm struct {
	sizes
	eps       float32 // epsilon of the norms
	act       compute.Activation
	latent    nn.LatentShape
	queryRope *compute.Rope // rotates the last elements of queries
	keyRope   *compute.Rope // rotates all of the part of keys that heads share
	scores    nn.Scores

	ends
	blocks []nn.PreNorm
}

func newPLM(k *nn.Keys, b *nn.Binder) Program {
	m := &plm{sizes: readSizes(k), eps: k.RMSEpsilon(1e-5), act: k.Activation(compute.ReLU2), scores: k.Scores(nn.Scores{})}
	shape, rope := readLatent(k, &m.sizes, compute.Interleaved)
	factors := b.RopeFactors(rope)
	m.latent, m.queryRope, m.keyRope = shape, b.RopeWith(rope, factors), b.RopeWith(rope.Whole(), factors)

	m.embed = b.Embedding(m.embd)
	m.output = b.Output(&m.embed, b.RMSNorm("output_norm", m.embd, m.eps), k.LogitCap(0))
	m.blocks = bindBlocks(b, len(m.layers), m.block)
	return m
}

// block binds a block like layer i's.
func (m *plm) block(b *nn.Binder, i int) nn.PreNorm {
	l := m.at(i)
	a := b.LatentAttention(m.latent, m.embd, m.eps)
	a.Rope, a.SharedRope, a.Scores = m.queryRope, m.keyRope, b.Scores(m.scores, nn.HeadShape{Heads: m.latent.Heads, Key: m.latent.Key})
	a.Out = b.Linear("attn_output", m.embd, m.latent.Heads*m.latent.Value, nn.NoBias)

	ffnNorm := b.RMSNorm("ffn_norm", m.embd, m.eps)
	return nn.PreNorm{
		AttnNorm: b.RMSNorm("attn_norm", m.embd, m.eps),
		Attn:     a,
		FFNNorm:  ffnNorm,
		FFN:      b.FFN(nn.FFNSpec{Width: m.embd, Neurons: l.ff, Act: m.act, InputNorm: ffnNorm}),
	}
}

func (m *plm) Forward(p *nn.Pass) compute.Tensor { return through(p, m.embed.Forward(p), m.blocks) }

func (m *plm) BindMTP(b *nn.Binder, l int) Block { return new(m.block(b, l)) }
