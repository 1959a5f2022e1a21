package family

import (
	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/nn"
)

// deepseek2 is DeepSeek V2 and V3, Kimi K2, GLM 4.7 Flash and models of their form: pre-norm blocks, latent attention,
// and experts with SwiGLU next to shared ones that all tokens use. Layers without a router in the file, the first ones,
// have one feed-forward layer instead. Heads are rotated as GPT-J does (pairs of neighbours). V3 ranks groups of
// experts by the sum of their two best, V2 by the best one.
//
// Sources: DeepSeek-AI 2024, DeepSeek-V2 and DeepSeek-V3 Technical Report.
type deepseek2 struct {
	sizes
	eps       float32 // epsilon of the norms
	act       compute.Activation
	latent    nn.LatentShape
	spec      deepseek2Spec
	ropeSpec  nn.RopeSpec
	queryRope *compute.Rope // rotates the last elements of queries
	keyRope   *compute.Rope // rotates all of the part of keys that heads share
	scores    nn.Scores
	experts   nn.ExpertSpec

	ends
	blocks []nn.PreNorm
}

// deepseek2Spec says how a family differs from the others that share this program.
type deepseek2Spec struct {
	temperature compute.Temperature // queries grow with their position
	inBoth      bool                // see nn.RopeSpec
	score       compute.Score       // scoring of experts, for files that do not say it
	// attention, if set, adds the family's variations to the attention of layer i, which may be the MTP layer.
	attention func(m *deepseek2, b *nn.Binder, a *nn.LatentAttention, i int)
}

func newDeepSeek2(k *nn.Keys, b *nn.Binder) Program { return bindDeepSeek2(k, b, deepseek2Spec{}) }

func bindDeepSeek2(k *nn.Keys, b *nn.Binder, spec deepseek2Spec) *deepseek2 {
	m := &deepseek2{spec: spec, sizes: readSizes(k), eps: k.RMSEpsilon(1e-5), act: k.Activation(compute.SiLU), scores: k.Scores(nn.Scores{})}
	shape, rope := readLatent(k, &m.sizes, compute.Interleaved)
	// YaRN's magnitude squared goes into the scale of scores; files hold 0.1·mscale_all_dim.
	rope.InScores = true
	rope.InBoth = spec.inBoth
	rope.LogMul *= 10
	m.scores.YaRN = rope.ScoreScale()
	factors := b.RopeFactors(rope)
	m.latent, m.ropeSpec = shape, rope
	m.queryRope = b.RopeWith(rope, factors)
	m.keyRope = b.RopeWith(rope.Whole(), factors)
	m.experts = k.Experts(nn.ExpertSpec{
		Width: m.embd, Neurons: m.ff(), Gated: true, Act: m.act, Routing: compute.Routing{Score: spec.score, MinSum: nn.LeastSum}, ChoiceBias: nn.Optional,
	})

	m.embed = b.Embedding(m.embd)
	m.output = b.Output(&m.embed, b.RMSNorm("output_norm", m.embd, m.eps), k.LogitCap(0))
	m.blocks = bindBlocks(b, len(m.layers), m.block)
	return m
}

// block binds the block of layer i, which may be the MTP layer.
func (m *deepseek2) block(b *nn.Binder, i int) nn.PreNorm {
	l := m.at(i)
	a := b.LatentAttention(m.latent, m.embd, m.eps)
	a.Rope = m.queryRope
	a.SharedRope = m.keyRope
	a.Temperature = m.spec.temperature
	a.Scores = b.Scores(m.scores, nn.HeadShape{Heads: m.latent.Heads, Key: m.latent.Key})
	a.Out = b.Linear("attn_output", m.embd, m.latent.Heads*m.latent.Value, nn.NoBias)

	if m.spec.attention != nil {
		m.spec.attention(m, b, a, i)
	}

	experts := m.experts
	// No key of a file says how groups are ranked. V2's routers are a softmax without a bias; V3's have a bias.
	experts.Routing.GroupsByBest = experts.Routing.Groups > 0 && experts.Routing.Score == compute.Softmax && !b.Has("exp_probs_b.bias")

	ffnNorm := b.RMSNorm("ffn_norm", m.embd, m.eps)
	// FFNOrExperts also binds the shared experts.
	return nn.PreNorm{
		AttnNorm: b.RMSNorm("attn_norm", m.embd, m.eps),
		Attn:     a,
		FFNNorm:  ffnNorm,
		FFN:      b.FFNOrExperts(nn.FFNSpec{Width: m.embd, Neurons: l.ff, Gated: true, Act: m.act, InputNorm: ffnNorm}, experts),
	}
}

func (m *deepseek2) Forward(p *nn.Pass) compute.Tensor {
	return through(p, m.embed.Forward(p), m.blocks)
}

func (m *deepseek2) BindMTP(b *nn.Binder, l int) Block { return new(m.block(b, l)) }
