package family

import (
	"slices"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/nn"
)

// hyV4 is Hy4: latent attention with sinks and gates on the heads' output, and experts with shared ones; the routed
// ones have limits. The residual is several streams: each part of a block reads a sum of them, and its output is added
// to each, with weights computed from the streams (iHC). The first layers have one feed-forward layer instead of
// experts. In some files attention sees only the positions that an indexer chooses; a layer without an indexer sees the
// positions that the last one chose.
//
// Source: Tencent 2026, Hy4-preview.
type hyV4 struct {
	sizes
	eps         float32 // epsilon of the norms
	act         compute.Activation
	latent      nn.LatentShape
	queryRope   *compute.Rope // rotates the last elements of queries
	keyRope     *compute.Rope // rotates all of the part of keys that heads share
	index       nn.IndexerSpec
	indexRope   *compute.Rope
	indexed     []bool // which layers have an indexer; nil: none has, and all positions are seen
	scores      nn.Scores
	experts     nn.ExpertSpec
	limits      []float32 // [layers] of routed experts; 0: none
	connections nn.ConnectionSpec

	last nn.HyperConnection // by which the head reads the streams
	ends
	blocks []hyV4Block
}

type hyV4Block struct {
	attnRead nn.HyperConnection
	attnNorm nn.Norm
	attn     *nn.LatentAttention
	ffnRead  nn.HyperConnection
	ffnNorm  nn.Norm
	ffn      nn.FeedForward // experts, or dense
}

func newHyV4(k *nn.Keys, b *nn.Binder) Program {
	m := &hyV4{sizes: readSizes(k), eps: k.RMSEpsilon(1e-5), act: k.Activation(compute.SiLU), scores: k.Scores(nn.Scores{})}
	shape, rope := readLatent(k, &m.sizes, compute.Interleaved)
	m.latent, m.queryRope, m.keyRope = shape, b.RopeWith(rope, nil), b.RopeWith(rope.Whole(), nil)
	if k.Optional(".attention.indexer.top_k", nn.MaxWidth) > 0 {
		m.index, m.indexed = k.Indexer(), readIndexed(k, len(m.layers))
		rope.First = m.index.Key - rope.Dims
		m.indexRope = b.RopeWith(rope, nil)
	}
	m.experts = k.Experts(nn.ExpertSpec{
		Width: m.embd, Neurons: m.ff(), Gated: true, Act: m.act, Routing: compute.Routing{Score: compute.Sigmoid, MinSum: nn.LeastSum}, ChoiceBias: nn.Optional,
	})
	m.limits = k.Numbers(".swiglu_clamp_exp", len(m.layers))
	m.connections = k.Connections(nn.ConnectionSpec{Width: m.embd, Norm: m.eps})
	m.connections.Floor = m.connections.Eps

	m.embed = b.Embedding(m.embd)
	m.last = b.LastConnection("output_hc", m.connections)
	m.output = b.Output(&m.embed, b.RMSNorm("output_norm", m.embd, m.eps), k.LogitCap(0))
	m.blocks = bindBlocks(b, len(m.layers), m.block)
	return m
}

// block binds the block of layer i.
func (m *hyV4) block(b *nn.Binder, i int) hyV4Block {
	a := b.LatentAttention(m.latent, m.embd, m.eps)
	a.Rope, a.SharedRope, a.Scores = m.queryRope, m.keyRope, b.Scores(m.scores, nn.HeadShape{Heads: m.latent.Heads, Key: m.latent.Key})
	a.Scores.Sinks = b.Vector("attn_sinks.weight", m.latent.Heads)
	a.Gate = b.HeadGate(a.Heads, a.Value, m.embd, compute.Logistic)
	switch {
	case m.indexed == nil:
	case m.indexed[i]:
		a.Indexer = b.LatentIndexer(m.index, a, m.embd, m.eps, m.indexRope)
	default:
		a.SeesSame = true
	}
	a.Out = b.Linear("attn_output", m.embd, m.latent.Heads*m.latent.Value, nn.NoBias)

	experts := m.experts
	experts.Act = nn.Limited(m.act, m.limits[i])
	ffnNorm := b.RMSNorm("ffn_norm", m.embd, m.eps)
	return hyV4Block{
		attnRead: b.HyperConnection("hc_attn", m.connections),
		attnNorm: b.RMSNorm("attn_norm", m.embd, m.eps),
		attn:     a,
		ffnRead:  b.HyperConnection("hc_ffn", m.connections),
		ffnNorm:  ffnNorm,
		ffn:      b.FFNOrExperts(nn.FFNSpec{Width: m.embd, Neurons: m.layers[i].ff, Gated: true, Act: m.act, InputNorm: ffnNorm}, experts),
	}
}

// readIndexed reads which of n layers have an indexer; all have in files that do not say it.
func readIndexed(k *nn.Keys, n int) []bool {
	indexed, said := k.PerLayer(".attention.indexer.types", n)
	if !said {
		return slices.Repeat([]bool{true}, n)
	}
	if !indexed[0] {
		k.Fail("key %q: the first layer has no indexer, and there is none before it", k.Arch+".attention.indexer.types")
	}
	return indexed
}

func (m *hyV4) Forward(p *nn.Pass) compute.Tensor {
	if m.indexed != nil {
		p.KeepSeen(m.index.Selection)
	}
	x, _ := m.last.Read(p, through(p, p.Streams(m.embed.Forward(p), m.connections.Streams), m.blocks))
	return x
}

// Forward returns the streams after the block, x before it.
func (l *hyV4Block) Forward(p *nn.Pass, x compute.Tensor) compute.Tensor {
	in, weights := l.attnRead.Read(p, x)
	p.Normalize(in, l.attnNorm)
	x, y := l.attn.Forward(p, x, in)
	l.attnRead.Write(p, x, y, p.Wanted(l.attn.Layer, weights))

	in, weights = l.ffnRead.Read(p, x)
	y = l.ffn.Forward(p, in, p.Norm(in, l.ffnNorm))
	l.ffnRead.Write(p, x, y, weights)
	return x
}
