package synth

import (
	"fmt"
	"math"
	"slices"

	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// queryLatent reports whether queries follow from a latent vector.
func (m *model) queryLatent() bool {
	_, ok := m.fam.InBlock("attn_q_a.weight")
	return ok && !m.DirectQueries
}

// The positions that an indexer chooses, and the length and number of the blocks that it chooses; tests' texts have
// more of them.
const indexTop, indexBlock, indexBlocks = 12, 4, 3

// byBlock reports whether indexers choose blocks of positions for each head of keys and values.
func (m *model) byBlock() bool { return m.has("indexer.q_proj.weight") && !m.fam.GatedStreams }

// indexHeads returns the heads of an indexer: of blocks one for each head of keys and values.
func (m *model) indexHeads() int {
	if m.byBlock() {
		return m.KVHeads
	}
	return 3
}

// indexKey returns the elements of an indexer's head: whole blocks that have room for the rotated ones.
func (m *model) indexKey() int { return (m.RopeDims + 31) / 32 * 32 }

// latentAttention lists the queries, keys and values of a block with latent attention.
func (m *model) latentAttention(layer int, in amplitudes) {
	name := func(s string) string { return fmt.Sprintf("blk.%d.%s", layer, s) }
	upward := func(tensor string, deviation float64) { m.upward(layer, tensor, deviation) }
	unit := func(width int) float64 { return 1 / math.Sqrt(float64(width)) }
	if m.queryLatent() {
		m.reader(name("attn_q_a.weight"), m.QueryLatent, in, 1, nil)
		m.random(name("attn_q_a_norm.weight"), m.QueryLatent, 1, 0.02)
		upward("attn_q_b.weight", 2*unit(m.QueryLatent))
	} else {
		m.reader(name("attn_q.weight"), m.Heads*m.HeadDim, in, 2, nil)
	}
	if m.has("indexer.attn_k.weight") {
		upward("indexer.attn_q_b.weight", unit(m.QueryLatent))
		m.reader(name("indexer.attn_k.weight"), m.indexKey(), in, 1, nil)
		m.random(name("indexer.k_norm.weight"), m.indexKey(), 1, 0.02)
		m.random(name("indexer.k_norm.bias"), m.indexKey(), 0, 0.02)
		m.reader(name("indexer.proj.weight"), m.indexHeads(), in, 1, nil)
	}
	m.reader(name("attn_kv_a_mqa.weight"), m.Latent+m.RopeDims, in, 1, nil)
	m.random(name("attn_kv_a_norm.weight"), m.Latent, 1, 0.02)
	if m.fam.KeysByHead() {
		upward("attn_k_b.weight", unit(m.Latent))
		upward("attn_v_b.weight", unit(m.Latent))
		return
	}
	upward("attn_kv_b.weight", unit(m.Latent))
}

// upward lists a tensor of the block that reads latent vectors with elements of about 1.
func (m *model) upward(layer int, tensor string, deviation float64) {
	name, shape := blockName(layer)+tensor, m.shape(layer, tensor)
	rows, cols := cells(shape)
	k := m.stream(name)
	typ := m.Type
	if cols%typ.BlockElems() != 0 { // rows of keys by head are short
		typ = quant.F16
	}
	src := source(name, typ, rows, cols, m.space.k, func(i int, row, _ []float32) {
		for e := range row {
			row[e] = float32(deviation) * k.normal(i*len(row)+e)
		}
	})
	slices.Reverse(shape)
	src.Shape = shape
	m.out = append(m.out, src)
}

// attention lists one block's attention: scores have a deviation of 2, so that few positions weigh much.
func (m *model) attention(layer int) {
	name := func(s string) string { return fmt.Sprintf("blk.%d.%s", layer, s) }
	in := m.input(float64(layer))
	q, kv := m.Heads*m.HeadDim, m.KVHeads*m.HeadDim
	for _, norm := range []string{"attn_norm", "attn_norm_2"} {
		_, known := m.fam.InBlock(norm + ".weight")
		if norm == "attn_norm_2" && m.fam.Lightning() {
			continue
		}
		if m.has(norm+".weight") || known && m.fam.Headless && layer > 0 { // ModernBERT's first layer has none
			m.norm(name(norm))
		}
	}
	fused := m.has("attn_qkv.weight") && !m.fam.Delta && !m.fam.Lightning()
	switch {
	case fused:
		m.reader(name("attn_qkv.weight"), q+2*kv, in, math.Sqrt2, nil)
	case m.fam.Latent:
		m.latentAttention(layer, in)
	case m.fam.Compresses(): // see rest
		m.maybe(layer, "attn_sinks.weight", 0, 1)
		return
	default:
		m.reader(name("attn_q.weight"), m.shape(layer, "attn_q.weight")[0], in, 2, nil)
		if layer < m.Layers-m.shared() {
			m.reader(name("attn_k.weight"), kv, in, 1, nil)
			m.reader(name("attn_v.weight"), kv, in, 1, nil)
		}
	}
	if m.byBlock() && m.mixed(layer) {
		m.reader(name("indexer.q_proj.weight"), m.indexHeads()*m.indexKey(), in, 1, nil)
		m.reader(name("indexer.k_proj.weight"), m.indexKey(), in, 1, nil)
		m.random(name("indexer.q_norm.weight"), m.indexKey(), 1, 0.1)
		m.random(name("indexer.k_norm.weight"), m.indexKey(), 1, 0.1)
	}
	for _, bias := range []string{"attn_qkv.bias", "attn_q.bias", "attn_k.bias", "attn_v.bias"} {
		m.maybe(layer, bias, 0, 0.1)
	}
	queries := float32(2)
	if m.fam.ScoreScale == 1 { // scores are not divided by the root of the heads' size
		queries /= float32(math.Sqrt(float64(m.HeadDim)))
	}
	m.maybe(layer, "attn_q_norm.weight", queries, 0.1*queries/2)
	if layer < m.Layers-m.shared() {
		m.maybe(layer, "attn_k_norm.weight", 1, 0.1)
	}
	m.maybe(layer, "attn_sinks.weight", 0, 1)
	if m.has("attn_gate.weight") && !m.fam.Delta && !m.fam.Lightning() {
		m.reader(name("attn_gate.weight"), m.shape(layer, "attn_gate.weight")[0], in, 1, nil)
	}
	// The energy that an average over positions leaves, measured on a few hundred tokens of text. A text's first
	// positions keep more.
	const kept = 0.2
	added := growth * attentionShare / float64(m.Layers) * float64(m.Embd)
	if fused {
		added /= 2 // values have twice the energy
	}
	weight := float32(math.Sqrt(added/(kept*float64(q)*float64(m.space.k))) / m.scales.residual)
	m.writer(name("attn_output.weight"), q, false, func(i int) int { return i }, func(int) float32 { return weight })
	m.maybe(layer, "attn_output.bias", 0, 0.02)
	m.maybe(layer, "attn_sub_norm.weight", 1, 0.02)
	if m.fam.NormSum {
		m.norm(name("attn_output_norm"))
	} else if m.fam.FFNNorm == "" {
		m.after(layer, "attn_output_norm.weight", attentionShare)
		m.after(layer, "post_attention_norm.weight", attentionShare)
	}
}
