package convert

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/powerinfer-go/powerinfer/internal/convert/checkpoint"
	"github.com/powerinfer-go/powerinfer/internal/convert/lineage"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
)

// gatedKeys returns the keys of gated connections, of their indexers, and of a table of n-grams, except the keys that
// the folder holds as tensors: see shards.
func (c *config) gatedKeys(f lineage.Family) (keys []gguf.KV, err error) {
	if !f.GatedStreams {
		return nil, nil
	}
	add := func(key string, v any) { keys = append(keys, gguf.KV{Key: f.Name + "." + key, Value: v}) }
	for _, s := range []size{
		{"hc_count", c.HyperStreams, maxWidth},
		{"hc_lowrank", c.HyperRank, maxWidth},
		{"indexer_n_heads", c.MeanHeads, maxWidth},
		{"indexer_head_dim", c.MeanDim, maxWidth},
		{"indexer_budget", c.MeanTop, 1 << 30},
		{"indexer_compress_ratio", c.MeanBlock, 1 << 30},
		{"ngram_size", c.GramSize, maxTaps},
		{"heads_per_ngram", c.GramHeads, maxWidth},
		{"ple_conv_kernel_size", c.GramTaps, maxTaps},
	} {
		if s.value < 0 || s.value > s.max {
			return nil, c.Errorf(s.key, "%d is outside 1…%d", s.value, s.max)
		}
	}
	add("hyper_connection.count", uint32(c.HyperStreams))
	add("hyper_connection.low_rank", uint32(c.HyperRank))
	add("attention.indexer.head_count", uint32(c.MeanHeads))
	add("attention.indexer.key_length", uint32(c.MeanDim))
	add("attention.indexer.top_k", uint32(c.MeanTop))
	blocks := make([]uint32, c.Layers)
	for l := range blocks {
		if c.LayerParts[l]&lineage.Attention != 0 {
			blocks[l] = uint32(c.MeanBlock)
		}
	}
	add("attention.compress_ratios", blocks)
	layer := c.GramLayer()
	if layer < 0 {
		return keys, nil
	}
	ends := tokenIDs(c.EOS)
	if len(ends) == 0 {
		return nil, c.Errorf("eos_token_id", "it is missing: n-grams do not reach beyond that token")
	}
	rows := (c.GramSize - 1) * c.GramHeads
	if c.Hidden%rows != 0 {
		return nil, c.Errorf("heads_per_ngram", "%d rows of the table do not make up a width of %d", rows, c.Hidden)
	}
	add("ple.layers", []uint32{uint32(layer)})
	add("ple.ngram_size", uint32(c.GramSize))
	add("ple.heads_per_ngram", uint32(c.GramHeads))
	add("ple.conv_kernel", uint32(c.GramTaps))
	add("ple.eos_token_id", uint32(ends[len(ends)-1]))
	add("embedding_length_per_layer_input", uint32(c.Hidden/rows))
	return keys, nil
}

// shards plans output tensor name, the table of n-grams, and reads how tokens are hashed to its rows. The folder holds
// the rows in several numbered tensors, one after the other. part precedes the number in their names.
func (p *plan) shards(c *config, name, part string) *tensor {
	if c.GramLayer() < 0 || p.err != nil || p.pairs != nil {
		return nil
	}
	found := map[int]*checkpoint.Tensor{}
	for from, t := range p.source.Tensors {
		if _, rest, ok := strings.Cut(from, part); ok {
			number, _, _ := strings.Cut(rest, ".")
			if n, err := strconv.Atoi(number); err == nil {
				found[n] = t
				p.used[from] = true
			}
		}
	}
	if len(found) != c.GramParts {
		p.err = c.Errorf("split_ngram_parts", "the table of n-grams has %d parts, and the folder holds %d; download it again", c.GramParts, len(found))
		return nil
	}
	width := c.Hidden / ((c.GramSize - 1) * c.GramHeads)
	out := &tensor{name: name}
	rows := 0
	for _, n := range slices.Sorted(maps.Keys(found)) {
		t := found[n]
		if len(t.Shape) != 2 || t.Shape[1] != width {
			p.err = fmt.Errorf("%s: offset %d: tensor %q has shape %v, config.json makes it rows of %d", t.Path(), t.Offset, t.Name, t.Shape, width)
			return nil
		}
		if _, ok := t.Type(); !ok {
			p.err = fmt.Errorf("%s: offset %d: tensor %q has dtype %s; supported are F32, F16 and BF16", t.Path(), t.Offset, t.Name, t.DType)
			return nil
		}
		if len(out.stack) > 0 && t.DType != out.stack[0].DType {
			p.err = fmt.Errorf("%s: offset %d: tensor %q has dtype %s, other parts of the table have another", t.Path(), t.Offset, t.Name, t.DType)
			return nil
		}
		out.stack = out.stack.and(section{Tensor: t})
		rows += t.Shape[0]
	}
	out.shape = []int{width, rows}
	p.hashes(c, rows)
	return out
}

// hashes reads how tokens are hashed to rows rows. The numbers are too large for floats.
func (p *plan) hashes(c *config, rows int) {
	heads := (c.GramSize - 1) * c.GramHeads
	lists := [3][]uint64{}
	for i, l := range []struct {
		from, to string
		n        int
	}{{"layer_multipliers", "layer_multipliers", c.GramSize}, {"ngram_heads_offsets", "head_offsets", heads}, {"ngram_heads_vocab_sizes", "head_vocab_sizes", heads}} {
		var of *checkpoint.Tensor
		for name, t := range p.source.Tensors {
			if strings.HasSuffix(name, ".ple_embedding."+l.from) {
				p.used[name], of = true, t
			}
		}
		if of == nil {
			p.err = fmt.Errorf("%s: tensor %q is missing: the folder is incomplete; download it again", p.source.Path, "ple_embedding."+l.from)
			return
		}
		all, err := of.Integers()
		if err == nil && (len(all) < l.n || slices.Min(all) < 0) {
			err = fmt.Errorf("%s: offset %d: tensor %q does not hold %d whole numbers from 0 on", of.Path(), of.Offset, of.Name, l.n)
		}
		if p.err = err; err != nil {
			return
		}
		for _, v := range all {
			lists[i] = append(lists[i], uint64(v))
		}
		p.keys = append(p.keys, gguf.KV{Key: p.family.Name + ".ple." + l.to, Value: lists[i]})
	}
	for h := range heads {
		if first, n := lists[1][h], lists[2][h]; n < 1 || n > uint64(rows) || first > uint64(rows)-n {
			p.err = fmt.Errorf("%s: head %d of n-grams has %d rows from %d on, which are none of a table of %d; the model is damaged", p.source.Path, h, n, first, rows)
			return
		}
	}
}
