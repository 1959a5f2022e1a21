package devicetest

import (
	"fmt"
	"math"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// streamGateTolerance is what a sigmoid in float32, of a sum of products, may cost.
const streamGateTolerance = 2e-5

// ngramScripts returns the operations of embeddings of the last tokens.
func ngramScripts() (all []script) {
	for _, typ := range []quant.Type{quant.F32, quant.Q8_0, quant.Q4_K} {
		for _, size := range []int{2, 3, compute.MostRecent} {
			name := fmt.Sprintf("NGrams/%s/%d tokens of sequences", typ, size)
			all = append(all, script{name: name, tokens: 31, whole: true, play: func(s *stage) { playNGrams(s, typ, size) }})
		}
	}
	for _, streams := range []int{1, 4} {
		for _, cols := range []int{1, 33, 2050} {
			for _, n := range []int{1, 7} {
				all = append(all, script{name: fmt.Sprintf("GatedStreams/%d streams/%d columns/%d tokens", streams, cols, n), tokens: n, play: func(s *stage) { playGatedStreams(s, streams, cols) }})
			}
		}
	}
	return all
}

// playNGrams looks rows up in steps of a sequence that has begun before, one that begins, and single tokens.
func playNGrams(s *stage, typ quant.Type, size int) {
	const heads, cols, layer = 3, 256, 1
	g := &compute.NGrams{Heads: heads, End: 5}
	for i := range size {
		g.Factors = append(g.Factors, 0x1f3d_9b57_11a3+uint64(i)<<41+uint64(i)*0x9e37_79b9)
	}
	rows := 0
	for h := range (size - 1) * heads {
		n := 7 + 4*h
		g.First, g.Rows = append(g.First, uint32(rows)), append(g.Rows, uint32(n))
		rows += n
	}
	table := s.matrix(typ, rows, cols, s.normal(rows*cols), compute.Lookup).Matrix
	cache, err := s.dev.Cache(compute.CacheSpec{Layers: []compute.KVShape{{Heads: 1, Key: 16, Value: 16}, {State: size - 1}}, Pages: 1, States: 3})
	s.must(err)
	recent, out := s.output(size), s.output((size-1)*heads*cols)
	step := func(from int, lengths ...int) {
		s.params.Seq, s.params.Pos, s.params.Tokens, s.params.States = nil, nil, nil, []int32{2, 0, 1}
		for seq, n := range lengths {
			for i := range n {
				s.params.Seq, s.params.Pos = append(s.params.Seq, int32(seq)), append(s.params.Pos, int32(i))
				if seq == 1 {
					s.params.Pos[len(s.params.Pos)-1] += int32(from)
				}
				token := int32((i*i*7+seq*13+from)%40 + 1)
				if i%6 == 5 {
					token = int32(g.End)
				}
				s.params.Tokens = append(s.params.Tokens, token)
			}
		}
		s.run(func(v compute.Verbs) {
			v.Recent(compute.Recent{Out: recent, Cache: cache, Layer: layer})
			v.EmbedNGrams(compute.EmbedNGrams{Out: out, Recent: recent, Table: table, How: g})
		})
		s.keep(fmt.Sprintf("tokens from %d", from), recent, exact)
		s.keep(fmt.Sprintf("rows from %d", from), out, exact)
	}
	step(0, 9, 20, 2)
	step(20, 20, 10, 1)
}

func playGatedStreams(s *stage, streams, cols int) {
	wide := func() []float32 { return s.normal(s.all * streams * cols) }
	x, gate, key, query := s.input(streams*cols, wide()), s.inOut(streams*cols, wide()), s.input(streams*cols, wide()), s.input(streams*cols, wide())
	value, read, matched := s.input(cols, s.normal(s.all*cols)), s.output(cols), s.output(streams*cols)
	s.run(func(v compute.Verbs) {
		v.ReadGated(read, x, gate)
		v.MatchStreams(compute.MatchStreams{Out: matched, Key: key, Query: query, Value: value})
	})
	near := func(bounds []float64, want []float32, _ int) {
		for c, v := range want {
			bounds[c] = streamGateTolerance * (1 + math.Abs(float64(v)))
		}
	}
	s.keep("read", read, near)
	s.keep("matched", matched, near)
	y, w := s.input(cols, s.normal(s.all*cols)), s.input(streams, s.normal(s.all*streams))
	written := s.inOut(streams*cols, wide())
	s.run(func(v compute.Verbs) { v.WriteStreams(written, y, w, streams) })
	s.keep("written", written, near)
}
