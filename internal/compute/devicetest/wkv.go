package devicetest

import (
	"fmt"
	"math"

	"github.com/powerinfer-go/powerinfer/internal/compute"
)

// wkvCase is a step of RWKV-7's time mixing: what its sequences have read before, and how many rows each has in the
// step.
type wkvCase struct {
	name       string
	past, rows []int
	heads, dim int
}

func wkvScripts() (all []script) {
	for _, c := range []wkvCase{
		{name: "a sequence begins", past: []int{0}, rows: []int{9}, heads: 2, dim: 64},
		{name: "tokens and parts of prompts", past: []int{3, 7, 0, 2}, rows: []int{1, 1, 12, 2}, heads: 3, dim: 32},
		{name: "odd sizes", past: []int{4, 0}, rows: []int{5, 3}, heads: 2, dim: 21},
		{name: "wide heads", past: []int{1}, rows: []int{4}, heads: 1, dim: 128},
	} {
		tokens := 0
		for _, n := range c.rows {
			tokens += n
		}
		all = append(all, script{name: "WKV/" + c.name, tokens: tokens, whole: true, play: func(s *stage) { playWKV(s, c) }})
	}
	return all
}

// playWKV computes a layer in one step, and a row a step: both give the same bytes, and the same state.
func playWKV(s *stage, c wkvCase) {
	inner, sequences := c.heads*c.dim, len(c.rows)
	const before = 5 // numbers of the state before the heads'
	cache, err := s.dev.Cache(compute.CacheSpec{
		Layers: []compute.KVShape{{Heads: 1, Key: 16, Value: 16}, {State: before + inner*c.dim}}, Pages: 1, States: 2*sequences + 1,
	})
	s.must(err)
	op := compute.WKV{
		KeyNorm: s.vector(s.normal(inner)), KeyRate: s.vector(s.normal(inner)), Bonus: s.vector(s.normal(inner)), Scale: s.vector(s.normal(2 * inner)),
		Heads: c.heads, Dim: c.dim, Epsilon: 64e-5, At: before, Cache: cache, Layer: recurrentLayer,
	}
	var inputs [5][]float32
	var placed [5]compute.Tensor
	for i := range inputs {
		inputs[i] = s.normal(s.all * inner)
		placed[i] = s.input(inner, inputs[i])
	}
	out := s.output(inner)
	layer := func(v compute.Verbs, out compute.Tensor, in [5]compute.Tensor) {
		o := op
		o.Out, o.R, o.K, o.V, o.W, o.A = out, in[0], in[1], in[2], in[3], in[4]
		v.WKV(o)
	}
	var twice []int32 // each sequence's slot in the second playing
	for seq, n := range c.rows {
		slot := int32(2*sequences - 2*seq)
		s.params.States, twice = append(s.params.States, slot), append(twice, slot-1)
		held := s.normal(cache.Layers[recurrentLayer].State)
		if c.past[seq] == 0 { // what the slot holds is of another sequence
			held[before] = float32(math.NaN())
		}
		for _, to := range []int32{slot, slot - 1} {
			s.must(s.dev.WritePage(cache, compute.StateSlot(to), [][]byte{nil, floatBytes(held)}))
		}
		for i := range n {
			s.params.Seq, s.params.Pos = append(s.params.Seq, int32(seq)), append(s.params.Pos, int32(c.past[seq]+i))
		}
	}
	s.run(func(v compute.Verbs) { layer(v, out, placed) })
	s.keep("mixed", out, ofRow(recurrentTolerance))

	alone := s.place(1, inner, nil, false)
	for i := range s.all {
		var one [5]compute.Tensor
		for j := range one {
			one[j] = s.place(1, inner, func(int) []float32 { return inputs[j][i*inner:][:inner] }, true)
		}
		p := compute.Params{Tokens: []int32{0}, Seq: []int32{s.params.Seq[i]}, Pos: []int32{s.params.Pos[i]}, States: twice, Decode: s.decode & 1}
		seg := compute.Segment{Name: fmt.Sprintf("%s, row %d", s.name, i), Rows: 1, Decode: p.Decode}
		s.must(s.dev.Run(seg, &p, func(v compute.Verbs) { layer(v, alone, one) }))
		if got, want := s.read(alone, 0), s.read(out, i); !sameFloats(got, want) {
			s.t.Errorf("%s: %s: row %d differs alone", s.dev.Name(), s.name, i)
		}
	}
	for seq := range c.rows {
		got := s.state(cache, s.params.States[seq])
		s.keepTotal(fmt.Sprintf("state of sequence %d", seq), got, ofRow(recurrentTolerance))
		if !sameFloats(got, s.state(cache, twice[seq])) {
			s.t.Errorf("%s: %s: the state of sequence %d depends on how its rows were cut", s.dev.Name(), s.name, seq)
		}
	}
}
