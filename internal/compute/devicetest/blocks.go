package devicetest

import (
	"fmt"
	"math"
	"slices"

	"github.com/powerinfer-go/powerinfer/internal/compute"
)

// compressTolerance is the share of the largest value that a softmax over a block may cost.
const compressTolerance = 1e-5

// blockScripts returns the operations of compressed attention: of two sequences that share a page, with tokens before
// the first block's end, at ends and between them, and positions that nothing was stored at.
func blockScripts() (all []script) {
	places := slices.Concat(span(0, 0, 5), span(0, 124, 5), span(1, 62, 4), []token{{0, blockLongest - 1}, {1, 127}, {0, 255}, {1, 131}, {1, 128}})
	for _, c := range []blockCase{
		{key: 32, heads: 6, every: 4, window: 16, overlap: true, t: compute.KVF16},
		{key: 264, heads: 5, every: 4, window: 128, overlap: true, t: compute.KVF32},
		{key: 64, heads: 1, every: 128, window: 128, t: compute.KVF16},
		{key: 48, heads: 17, every: 64, window: 1, t: compute.KVBF16},
		{key: 40, heads: 9, every: 128, window: 200, t: compute.KVF32},
	} {
		for _, chosen := range []bool{false, true} {
			c.chosen = chosen
			name := fmt.Sprintf("Blocks/of %d, keys of %d/%d heads, window of %d, chosen %t", c.every, c.key, c.heads, c.window, chosen)
			all = append(all, script{name: name, tokens: len(places), each: true, play: func(s *stage) { playBlocks(s, c, places) }},
				script{name: name + ", a token", tokens: 1, play: func(s *stage) { playBlocks(s, c, []token{{0, blockLongest - 2}}) }})
		}
	}
	return append(all, moveRowsScript())
}

type blockCase struct {
	key, heads      int
	every, window   int
	overlap, chosen bool
	t               compute.KVType
}

// blockPages are two sequences that share their first page: of blockLongest and 200 positions.
func blockPages() [][]int32 { return [][]int32{{4, 2, 7, 0, 8, 1}, {4, 3, 5, 6}} }

const (
	blockPagesAll = 9
	blockLongest  = 330
)

// The parts of the cache in playBlocks.
const (
	rawPart = iota
	openPart
	blockPart
)

func (c *blockCase) layers() []compute.KVShape {
	raw := compute.KVShape{Heads: 1, Key: c.key, Value: c.key, KeyType: c.t, ValueType: c.t, Within: true, Floats: true}
	blocks, open := raw, compute.KVShape{Heads: 1, Key: 2*c.key + 8, Value: 2*c.key + 8, KeyType: compute.KVF32, ValueType: compute.KVF32, Exact: true}
	blocks.Every = c.every
	return []compute.KVShape{raw, open, blocks}
}

// playBlocks stores the positions before the step outside of it, and the step's tokens in it.
func playBlocks(s *stage, c blockCase, places []token) {
	cache, err := s.dev.Cache(compute.CacheSpec{Layers: c.layers(), Pages: blockPagesAll})
	s.must(err)
	var own [3][2][]float32 // by part and sequence
	for part, l := range cache.Layers {
		positions := cache.Pages * compute.PagePositions
		nothing := slices.Repeat([]float32{float32(math.NaN())}, positions*max(l.Key, l.Value))
		s.store(cache, part, [][]int32{everyone(cache.Pages)}, token{}, nothing[:positions*l.Key], nothing[:positions*l.Value])
		for seq, length := range []int{blockLongest, shorter} {
			from := seq * compute.PagePositions // the second's first page is the first's
			own[part][seq] = s.normal(length * l.Key)
			copy(own[part][seq], own[part][0][:from*l.Key])
			s.store(cache, part, blockPages(), token{int32(seq), int32(from)}, own[part][seq][from*l.Key:], own[part][seq][from*l.Key:])
		}
	}
	s.params.Pages = blockPages()
	step := func(part int) compute.Tensor {
		n := cache.Layers[part].Key
		var x []float32
		for _, p := range places {
			x = append(x, own[part][p.seq][int(p.pos)*n:][:n]...)
		}
		return s.input(n, x)
	}
	most := 1
	for _, p := range places {
		s.params.Seq, s.params.Pos = append(s.params.Seq, p.seq), append(s.params.Pos, p.pos)
	}
	raw, open := step(rawPart), step(openPart)
	columns := c.key
	if c.overlap {
		columns *= 2
	}
	q, bias := s.input(c.heads*c.key, s.normal(s.all*c.heads*c.key)), s.vector(s.normal(c.every*columns))
	joined, out := s.output(c.key), s.output(c.heads*c.key)
	o := compute.AttendBlocks{
		Out: out, Q: q, Cache: cache, Layer: rawPart, Blocks: blockPart,
		How: compute.Attention{Scale: 1 / float32(math.Sqrt(float64(c.key))), Window: c.window, Sinks: s.vector(s.normal(c.heads))},
	}
	if c.chosen {
		most = 6
		var lists []float32
		for _, p := range places {
			whole := (int(p.pos) + 1) / c.every
			list := make([]float32, 1+most)
			for b := 0; b < whole && int(list[0]) < most; b += 1 + b%3 {
				list[0]++
				list[int(list[0])] = float32(b)
			}
			lists = append(lists, list...)
		}
		o.Chosen = s.input(1+most, lists)
	}
	s.run(func(v compute.Verbs) {
		v.StoreKV(cache, rawPart, raw, compute.Tensor{})
		v.StoreKV(cache, openPart, open, open)
		v.Compress(compress(cache, joined, bias, &c))
		v.AttendBlocks(o)
	})
	s.keep("compressed", joined, func(bounds []float64, _ []float32, _ int) {
		for i := range bounds {
			bounds[i] = compressTolerance * 5 // values are about 1, and hardly any is above 5
		}
	})
	s.keep("attended", out, s.attended(halves()))
}

func compress(c *compute.Cache, out compute.Tensor, bias *compute.Vector, of *blockCase) compute.Compress {
	return compute.Compress{Out: out, Cache: c, Layer: openPart, Bias: bias, Block: of.every, At: 8, Overlap: of.overlap}
}

// moveRowsScript: pages of layers that store only keys of blocks are copied, read and written like others, and have
// fewer rows.
func moveRowsScript() script {
	return script{name: "Blocks/pages are moved", tokens: 1, play: func(s *stage) {
		layers := []compute.KVShape{}
		for _, c := range []blockCase{{key: 32, every: 4, t: compute.KVF16}, {key: 32, every: 128, t: compute.KVF16}, {key: 32, every: 16, t: compute.KVF32}} {
			layers = append(layers, c.layers()[blockPart])
		}
		c, err := s.dev.Cache(compute.CacheSpec{Layers: layers, Pages: 6})
		s.must(err)
		first, second := make([][]byte, len(layers)), make([][]byte, len(layers))
		const stored, kept = 3*compute.PagePositions - 9, compute.PagePositions - 9
		for layer, l := range c.Layers {
			s.store(c, layer, [][]int32{{5, 3, 4}}, token{}, s.normal(stored*l.Key), nil)
			first[layer], second[layer] = make([]byte, l.PartBytes(compute.PagePositions)), make([]byte, l.PartBytes(kept))
		}
		s.must(s.dev.ReadPage(c, compute.EveryLayer(3), first))
		s.must(s.dev.WritePage(c, compute.EveryLayer(0), first))
		s.dev.CopyPage(c, compute.EveryLayer(1), compute.EveryLayer(4))
		again := make([][]byte, len(layers))
		for layer := range layers {
			again[layer] = make([]byte, len(first[layer]))
		}
		s.must(s.dev.ReadPage(c, compute.EveryLayer(0), again))
		s.must(s.dev.ReadPage(c, compute.EveryLayer(1), second))
		for layer := range layers {
			s.keepTotal(fmt.Sprintf("page of layer %d", layer), numbersOf(again[layer]), exact)
			s.keepTotal(fmt.Sprintf("copied page of layer %d", layer), numbersOf(second[layer]), exact)
		}
	}}
}
