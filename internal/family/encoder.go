package family

import (
	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/nn"
)

// encoder is the encoder of the line of BERT: every token sees all others, and norms are LayerNorms of the residual
// with what a part has added to it. There are no logits: hidden states are the result. Several families are this
// program and differ in what encoderSpec says.
//
// Source: Devlin et al. 2019, BERT: Pre-training of Deep Bidirectional Transformers for Language Understanding.
type encoder struct {
	sizes
	spec    encoderSpec
	eps     float32 // epsilon of the norms
	act     compute.Activation
	rope    *compute.Rope // nil: heads are not rotated
	scores  nn.Scores
	experts nn.ExpertSpec

	ends
	blocks []encoderBlock
}

// encoderSpec says how a family differs from the others that share this program.
type encoderSpec struct {
	act       compute.Nonlinearity
	gated     bool
	rotated   bool        // heads are, by halves
	positions nn.Presence // learned positions
	alibi     float64     // see nn.Scores

	qkvBias, outBias, upBias, downBias nn.Presence
}

type encoderBlock struct {
	attn     *nn.Attention
	attnPost nn.Norm // norm of the residual plus attention
	ffn      nn.FeedForward
	ffnPost  nn.Norm // norm of the residual plus the feed-forward layer
}

// newEncoder binds an encoder.
func newEncoder(k *nn.Keys, b *nn.Binder, spec encoderSpec) Program {
	m := &encoder{sizes: readSizes(k), spec: spec, eps: k.LayerNormEpsilon(1e-5), act: k.Activation(spec.act)}
	m.scores = k.Scores(nn.Scores{Alibi: spec.alibi, Later: true})
	m.experts = k.Experts(nn.ExpertSpec{Width: m.embd, Neurons: m.ff(), Gated: spec.gated, Act: m.act, Plain: true, Routing: compute.Routing{MinSum: nn.LeastSum}})
	if spec.rotated {
		m.rope = b.Rope(k.Rope(nn.RopeSpec{Style: compute.Halves, Dims: m.key(), Trained: m.context}))
	}

	m.embed = b.Embedding(m.embd)
	m.output.Ranking.Pooling = nn.PoolCLS
	m.embed.Norm = b.LayerNorm("token_embd_norm", m.embd, m.eps, nn.HasBias)
	if b.Present("position_embd.weight", spec.positions) {
		m.embed.Positions = b.Lookups("position_embd", m.embd)
	}
	if b.Has("token_types.weight") {
		m.embed.Types = b.Lookups("token_types", m.embd)
	}
	m.blocks = bindBlocks(b, len(m.layers), m.block)
	return m
}

// block binds a block like layer i's.
func (m *encoder) block(b *nn.Binder, i int) encoderBlock {
	l := m.at(i)
	a := b.Attention(l.HeadShape)
	b.QKV(a, m.embd, max(nn.MayHaveBias, m.spec.qkvBias))
	a.Rope, a.Scores = m.rope, b.Scores(m.scores, l.HeadShape)
	a.Out = b.Linear("attn_output", m.embd, l.Heads*l.Value, m.spec.outBias)

	ffn := nn.FFNSpec{Width: m.embd, Neurons: l.ff, Gated: m.spec.gated, Act: m.act, UpBias: m.spec.upBias, DownBias: m.spec.downBias}
	return encoderBlock{
		attn:     a,
		attnPost: b.LayerNorm("attn_output_norm", m.embd, m.eps, nn.HasBias),
		ffn:      b.FFNOrExperts(ffn, m.experts),
		ffnPost:  b.LayerNorm("layer_output_norm", m.embd, m.eps, nn.HasBias),
	}
}

func (m *encoder) Forward(p *nn.Pass) compute.Tensor { return through(p, m.embed.Forward(p), m.blocks) }

func (l *encoderBlock) Forward(p *nn.Pass, x compute.Tensor) compute.Tensor {
	x, y := l.attn.Forward(p, x, x)
	p.Add(x, y)
	p.Normalize(x, l.attnPost)
	p.Add(x, l.ffn.Forward(p, x, x))
	p.Normalize(x, l.ffnPost)
	return x
}
