package family

import (
	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/nn"
)

// deepseek4 is DeepSeek V4. Attention has one head of keys, which are also values. It sees a window and, in most
// layers, one key for each block of positions. Short blocks overlap, and an indexer chooses among them; long ones are
// all seen. Experts have limits and are chosen by the root of softplus, in the first layers by the token alone. The
// residual is several streams, which each part of a block reads, writes and mixes (mHC).
//
// Source: DeepSeek-AI 2026, DeepSeek-V4.
type deepseek4 struct {
	sizes
	eps         float32 // epsilon of the norms
	act         compute.Activation
	attn        nn.CompressedSpec // for layers without blocks
	blockRope   nn.RopeSpec       // for layers with blocks
	ratios      []int             // [layers] positions of a block; 0: the layer has none
	experts     nn.ExpertSpec
	hashed      int       // the first layers, in which a token's number gives its experts
	limits      []float32 // [layers] of routed experts; 0: none
	others      []float32 // [layers] of shared experts
	connections nn.ConnectionSpec

	last nn.HyperConnection // by which the head reads the streams
	ends
	blocks []deepseek4Block
}

type deepseek4Block struct {
	attnRead nn.HyperConnection
	attnNorm nn.Norm
	attn     *nn.CompressedAttention
	ffnRead  nn.HyperConnection
	ffnNorm  nn.Norm
	ffn      *nn.Experts
}

// Lengths of blocks in files. Short blocks overlap, and queries see only those that an indexer chooses.
const (
	shortBlock = 4
	longBlock  = 128
)

func newDeepSeek4(k *nn.Keys, b *nn.Binder) Program {
	m := &deepseek4{sizes: readSizes(k), eps: k.RMSEpsilon(1e-6), act: k.Activation(compute.SiLU)}
	n := len(m.layers)
	m.attn = nn.CompressedSpec{
		HeadShape: m.layers[0].HeadShape, Width: m.embd, Eps: m.eps, Query: k.RequiredCount(".attention.q_lora_rank", nn.MaxWidth),
		Groups: k.RequiredCount(".attention.output_group_count", nn.MaxWidth), Low: k.RequiredCount(".attention.output_lora_rank", nn.MaxWidth),
		Window: k.RequiredCount(".attention.sliding_window", 1<<30), Rope: k.Rope(nn.RopeSpec{Style: compute.Interleaved, Dims: m.key(), Trained: m.context}),
		Index: nn.IndexShape{
			Heads: k.RequiredCount(".attention.indexer.head_count", nn.MaxWidth), Key: k.RequiredCount(".attention.indexer.key_length", nn.MaxWidth),
			Top: k.RequiredCount(".attention.indexer.top_k", nn.MaxWidth),
		},
	}
	m.blockRope = m.attn.Rope
	m.blockRope.Base = k.Within(".attention.compress_rope_freq_base", m.blockRope.Base, 1, nn.MaxScale)
	m.blockRope.InScores, m.blockRope.LogMul = true, 1 // rotated vectors keep their length
	m.attn.Rope = m.attn.Rope.Unscaled()
	m.ratios = readRatios(k, n)
	m.experts = k.Experts(nn.ExpertSpec{
		Width: m.embd, Neurons: m.ff(), Gated: true, Routing: compute.Routing{Score: compute.RootSoftplus, MinSum: nn.LeastSum, Normalised: true},
	})
	m.hashed = k.Optional(".hash_layer_count", nn.MaxLayers)
	m.limits, m.others = k.Numbers(".swiglu_clamp_exp", n), k.Numbers(".swiglu_clamp_shexp", n)
	if _, said := k.File.Lookup(k.Arch + ".swiglu_clamp_shexp"); !said {
		m.others = m.limits
	}
	m.connections = k.Connections(nn.ConnectionSpec{Width: m.embd, Norm: m.eps, Mixes: true, Connections: compute.Connections{Written: 2}})

	m.embed = b.Embedding(m.embd)
	m.last = b.LastConnection("output_hc", m.connections)
	m.output = b.Output(&m.embed, b.RMSNorm("output_norm", m.embd, m.eps), 0)
	m.blocks = bindBlocks(b, len(m.layers), m.block)
	return m
}

// readRatios reads the lengths of blocks of n layers. Files may have more numbers than layers.
func readRatios(k *nn.Keys, n int) []int {
	const key = ".attention.compress_ratios"
	list, _, err := k.File.Int32s(k.Arch + key)
	if err != nil || len(list) < n {
		k.Fail("key %q: it is not a list of a number for each of %d layers", k.Arch+key, n)
		return make([]int, n)
	}
	ratios := make([]int, n)
	for l := range ratios {
		ratios[l] = int(list[l])
		if r := ratios[l]; r != 0 && r != shortBlock && r != longBlock {
			k.Fail("key %q: blocks of %d positions in layer %d are not supported; 0, %d and %d are", k.Arch+key, r, l, shortBlock, longBlock)
			return make([]int, n)
		}
	}
	return ratios
}

// block binds the block of layer i.
func (m *deepseek4) block(b *nn.Binder, i int) deepseek4Block {
	attn := m.attn
	attn.HeadShape, attn.Block, attn.Overlap = m.layers[i].HeadShape, m.ratios[i], m.ratios[i] == shortBlock
	if attn.Block > 0 {
		attn.Rope = m.blockRope
	}
	if !attn.Overlap {
		attn.Index = nn.IndexShape{}
	}
	experts, ffnNorm := m.experts, b.RMSNorm("ffn_norm", m.embd, m.eps)
	experts.Act = nn.Limited(m.act, m.limits[i])
	if i >= m.hashed {
		experts.ChoiceBias = nn.Required
	}
	l := deepseek4Block{
		attnRead: b.HyperConnection("hc_attn", m.connections),
		attnNorm: b.RMSNorm("attn_norm", m.embd, m.eps),
		attn:     b.CompressedAttention(attn),
		ffnRead:  b.HyperConnection("hc_ffn", m.connections),
		ffnNorm:  ffnNorm,
		ffn:      b.Experts(experts, b.SharedExperts(nn.FFNSpec{Width: m.embd, Neurons: experts.Shared, Gated: true, Act: nn.Limited(m.act, m.others[i]), InputNorm: ffnNorm})).Reads(ffnNorm),
	}
	if i < m.hashed && m.embed.Table != nil {
		l.ffn.Given = b.GivenExperts("ffn_gate_tid2eid.weight", m.embed.Table.Rows, experts.Used, experts.Count)
	}
	return l
}

func (m *deepseek4) Forward(p *nn.Pass) compute.Tensor {
	x, _ := m.last.Read(p, through(p, p.Streams(m.embed.Forward(p), m.connections.Streams), m.blocks))
	return x
}

// Forward returns the streams after the block, x before it.
func (l *deepseek4Block) Forward(p *nn.Pass, x compute.Tensor) compute.Tensor {
	in, weights := l.attnRead.Read(p, x)
	p.Normalize(in, l.attnNorm)
	x, y := l.attn.Forward(p, x, in)
	l.attnRead.Write(p, x, y, p.Wanted(l.attn.Layer, weights))

	in, weights = l.ffnRead.Read(p, x)
	y = l.ffn.Forward(p, in, p.Norm(in, l.ffnNorm))
	l.ffnRead.Write(p, x, y, weights)
	return x
}
