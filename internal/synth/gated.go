package synth

import (
	"fmt"
	"math"

	"github.com/powerinfer-go/powerinfer/internal/convert/lineage"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// Sizes of synthetic models with a residual of several streams, and of their tables of n-grams.
const (
	gatedStreams = 4
	gatedRank    = 32
	meanHeads    = 4
	meanBlock    = 4  // positions
	meanTop      = 16 // likewise
	gramTokens   = 3
	gramHeads    = 2 // heads for each length
	gramTaps     = 4
	gramLayer    = 0
	gramEnd      = 2
)

// gatedSizes are the sizes of a family with gated streams.
type gatedSizes struct {
	Streams, Rank          int
	IndexHeads, IndexDim   int
	GramTaps               int
	GramRows, GramElements int // of the table: its rows, and their elements
}

func (m *model) gated() gatedSizes {
	if !m.fam.GatedStreams {
		return gatedSizes{}
	}
	g := gatedSizes{Streams: gatedStreams, Rank: gatedRank, IndexHeads: meanHeads, IndexDim: m.HeadDim, GramTaps: gramTaps, GramElements: m.Embd / len(gramRows())}
	for _, n := range gramRows() {
		g.GramRows += int(n)
	}
	return g
}

// gramRows returns the number of rows of each head.
func gramRows() (rows []uint64) {
	for h := range (gramTokens - 1) * gramHeads {
		rows = append(rows, uint64(61+6*h))
	}
	return rows
}

// gatedKeys returns the keys of streams, indexers and n-grams.
func (m *model) gatedKeys(a func(string) string) (keys []gguf.KV) {
	if !m.fam.GatedStreams {
		return nil
	}
	add := func(key string, v any) { keys = append(keys, gguf.KV{Key: a(key), Value: v}) }
	g, blocks := m.gated(), make([]uint32, m.Layers)
	for l := range blocks {
		if m.parts(l)&lineage.Attention != 0 {
			blocks[l] = meanBlock
		}
	}
	add("hyper_connection.count", uint32(g.Streams))
	add("hyper_connection.low_rank", uint32(g.Rank))
	add("attention.indexer.head_count", uint32(g.IndexHeads))
	add("attention.indexer.key_length", uint32(g.IndexDim))
	add("attention.indexer.top_k", uint32(meanTop))
	add("attention.compress_ratios", blocks)
	add("ple.layers", []uint32{gramLayer})
	add("ple.ngram_size", uint32(gramTokens))
	add("ple.heads_per_ngram", uint32(gramHeads))
	add("ple.conv_kernel", uint32(gramTaps))
	add("ple.eos_token_id", uint32(gramEnd))
	add("embedding_length_per_layer_input", uint32(g.GramElements))
	rows, first := gramRows(), []uint64(nil)
	next := uint64(0)
	for _, n := range rows {
		first, next = append(first, next), next+n
	}
	add("ple.layer_multipliers", []uint64{0x1b87_3593_cc9f, 0x0e65_46b6_5c35, 0x19d6_99a5_8ead}) // odd numbers of 45 bits
	add("ple.head_offsets", first)
	add("ple.head_vocab_sizes", rows)
	return keys
}

// gatedOuter lists the last connection and the table of n-grams.
func (m *model) gatedOuter() {
	if !m.fam.GatedStreams {
		return
	}
	g := m.gated()
	m.floats("per_layer_token_embd.weight", m.wide(), g.GramRows, g.GramElements, 0, 1)
	m.connection("output_hc", false)
}

// connection lists a connection with gates of about a half and weights of about one.
func (m *model) connection(name string, inject bool) {
	g := m.gated()
	wide := g.Streams * m.Embd
	root := 1 / float32(math.Sqrt(float64(wide)))
	m.random(name+"_norm.weight", wide, 2, 0.02)
	m.floats(name+"_down.weight", m.wide(), g.Rank, wide, 0, root)
	m.floats(name+"_up.weight", m.wide(), wide, g.Rank, 0, 0.2)
	if inject {
		m.floats(name+"_inject.weight", m.wide(), g.Streams, wide, 0, root)
	}
}

// gatedBlock lists a block's tensors for streams, for its indexer, and for the table of n-grams.
func (m *model) gatedBlock(layer int) {
	if !m.fam.GatedStreams {
		return
	}
	name := func(s string) string { return fmt.Sprintf("blk.%d.%s", layer, s) }
	g, root := m.gated(), 1/float32(math.Sqrt(float64(m.Embd)))
	m.connection(name("hc_attn"), true)
	m.connection(name("hc_ffn"), true)
	if m.parts(layer)&lineage.Attention != 0 {
		m.floats(name("indexer.q_proj.weight"), m.Type, g.IndexHeads*g.IndexDim, m.Embd, 0, root)
		m.floats(name("indexer.k_proj.weight"), m.Type, g.IndexDim, m.Embd, 0, root)
		m.random(name("indexer.q_norm.weight"), g.IndexDim, 1, 0.02)
		m.random(name("indexer.k_norm.weight"), g.IndexDim, 1, 0.02)
	}
	if layer != gramLayer {
		return
	}
	wide := g.Streams * m.Embd
	m.floats(name("ple_key.weight"), m.Type, wide, m.Embd, 0, root)
	m.floats(name("ple_value.weight"), m.Type, m.Embd, m.Embd, 0, 0.1*root)
	for _, norm := range []string{"ple_norm_key", "ple_norm_query", "ple_norm_conv"} {
		m.random(name(norm+".weight"), wide, 1, 0.02)
	}
	m.floats(name("ple_conv1d.weight"), quant.F32, wide, g.GramTaps, 0, 0.05)
}
