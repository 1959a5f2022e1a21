package family

import (
	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/nn"
)

// dots3note is dots.3 Note: latent attention of two shapes, with windows in most layers, and in the others over only
// the positions that an indexer chooses. The part of keys that heads share is normed before its rotation, and each head
// has a gate. Experts are DeepSeek V3's.
//
// Source: rednote-hilab 2026, dots3-note.
type dots3note struct {
	sizes
	eps       float32 // epsilon of the norms
	act       compute.Activation
	kinds     [2]latentKind // for layers that see all positions, and for sliding-window layers
	windowed  []bool
	index     nn.IndexerSpec
	indexRope *compute.Rope // rotates the first elements of index queries and keys
	scores    nn.Scores
	experts   nn.ExpertSpec

	ends
	blocks []nn.PreNorm
}

// latentKind is what layers with latent attention of the same shape share.
type latentKind struct {
	nn.LatentShape     // except its heads
	queryRope, keyRope *compute.Rope
	window             int
}

func newDots3Note(k *nn.Keys, b *nn.Binder) Program {
	m := &dots3note{sizes: readSizes(k), eps: k.RMSEpsilon(1e-5), act: k.Activation(compute.SiLU), index: k.Indexer(), scores: k.Scores(nn.Scores{})}
	full, rope := readLatent(k, &m.sizes, compute.Interleaved)
	windows := full
	windows.Latent = k.Count(".attention.kv_lora_rank_swa", full.Latent, nn.MaxWidth)
	windows.Key = k.Count(".attention.key_length_mla_swa", full.Key, nn.MaxWidth)
	windows.Value = k.Count(".attention.value_length_mla_swa", full.Value, nn.MaxWidth)
	var window int
	window, m.windowed = k.Windows(nn.WindowSpec{}, len(m.layers), m.context)
	kind := func(s nn.LatentShape, r nn.RopeSpec, window int) latentKind {
		r.First = s.Key - r.Dims
		return latentKind{s, b.RopeWith(r, nil), b.RopeWith(r.Whole(), nil), window}
	}
	m.kinds = [2]latentKind{kind(full, rope, 0), kind(windows, k.WindowRope(rope, 0), window)}
	rope.Style = compute.Halves
	m.indexRope = b.RopeWith(rope.Whole(), nil)
	m.experts = k.Experts(nn.ExpertSpec{
		Width: m.embd, Neurons: m.ff(), Gated: true, Act: m.act, Routing: compute.Routing{Score: compute.Sigmoid, MinSum: nn.LeastSum}, ChoiceBias: nn.Optional,
	})

	m.embed = b.Embedding(m.embd)
	m.output = b.Output(&m.embed, b.RMSNorm("output_norm", m.embd, m.eps), 0)
	m.blocks = bindBlocks(b, len(m.layers), m.block)
	return m
}

// block binds the block of layer i.
func (m *dots3note) block(b *nn.Binder, i int) nn.PreNorm {
	l, kind := m.layers[i], m.kinds[0]
	if m.windowed[i] {
		kind = m.kinds[1]
	}
	shape := kind.LatentShape
	shape.Heads = l.Heads
	a := b.LatentAttention(shape, m.embd, m.eps)
	a.Rope, a.SharedRope, a.KeyNorm = kind.queryRope, kind.keyRope, b.RMSNorm("attn_k_norm", shape.Rotated, m.eps)
	a.Scores = b.Scores(m.scores, nn.HeadShape{Heads: shape.Heads, Key: shape.Key})
	a.Scores.Window = kind.window
	a.Gate = b.HeadGate(a.Heads, a.Value, m.embd, compute.Logistic)
	a.Out = b.Linear("attn_output", m.embd, shape.Heads*shape.Value, nn.NoBias)
	if !m.windowed[i] {
		a.Indexer = b.LatentIndexer(m.index, a, m.embd, nn.IndexEpsilon, m.indexRope)
	}

	ffnNorm := b.RMSNorm("ffn_norm", m.embd, m.eps)
	return nn.PreNorm{
		AttnNorm: b.RMSNorm("attn_norm", m.embd, m.eps),
		Attn:     a,
		FFNNorm:  ffnNorm,
		FFN:      b.FFNOrExperts(nn.FFNSpec{Width: m.embd, Neurons: l.ff, Gated: true, Act: m.act, InputNorm: ffnNorm}, m.experts),
	}
}

func (m *dots3note) Forward(p *nn.Pass) compute.Tensor {
	return through(p, m.embed.Forward(p), m.blocks)
}
