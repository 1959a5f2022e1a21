package devicetest

import (
	"fmt"
	"math"
	"slices"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// numberlessScripts check that NaN stays NaN through every activation, including those that give zeros. NaN in the
// logits is refused; as a zero it would be an inactive neuron.
func numberlessScripts() (all []script) {
	for _, act := range slices.Concat(activations(), alone()) {
		for _, gated := range []bool{false, true} {
			all = append(all, script{name: fmt.Sprintf("NaN/Activate/%s/gated %t", named(act), gated), tokens: 5, play: func(s *stage) { playNumberless(s, act, gated) }})
		}
		if act.Kind == compute.GELU || slices.Contains(alone(), act) || act.Small() || act.Threshold < 0 { // which SparseFFN treats like others
			continue
		}
		for _, gated := range []bool{false, true} {
			for _, chosen := range []bool{false, true} {
				if gated || act.Kind != compute.DReLU {
					all = append(all, script{name: fmt.Sprintf("NaN/SparseFFN/%s/gated %t/chosen %t", named(act), gated, chosen), tokens: 5, play: func(s *stage) {
						playNumberlessFFN(s, act, gated, chosen)
					}})
				}
			}
		}
	}
	for _, kind := range []compute.Nonlinearity{compute.ReLU, compute.DReLU, compute.ReLU2} {
		for _, exact := range []bool{false, true} {
			for _, typ := range []quant.Type{quant.F32, quant.Q4_0} { // with Q4_0, activations are quantised to eight bits
				act := compute.Activation{Kind: kind}
				all = append(all, script{name: fmt.Sprintf("NaN/Experts/%s/%s/exact %t", named(act), typ, exact), tokens: 5, play: func(s *stage) {
					playNumberlessExperts(s, typ, act, exact)
				}})
			}
		}
	}
	return all
}

// nans are of both signs, and one has other bits than the usual.
func nans() []float32 {
	return []float32{float32(math.NaN()), math.Float32frombits(0xffc00000), math.Float32frombits(0xff812345)}
}

// keepNumberless keeps which elements of a result are numbers.
func keepNumberless(s *stage, out compute.Tensor) {
	o := output{label: "which are numbers", bound: exact}
	for i := range out.Rows {
		row := slices.Clone(s.read(out, i))
		for j, v := range row {
			if row[j] = 0; v != v {
				row[j] = 1
			}
		}
		o.rows = append(o.rows, row)
	}
	s.kept = append(s.kept, o)
}

// playNumberless has NaN among gates and ups.
func playNumberless(s *stage, act compute.Activation, gated bool) {
	const cols = 59 // no whole vectors
	g, u := s.normal(s.all*cols), s.normal(s.all*cols)
	for i := range g {
		if i%5 == 0 {
			g[i] = nans()[i/5%3]
		}
		if i%7 == 0 {
			u[i] = nans()[i/7%3]
			g[i] += 10 // an open gate, or NaN
		}
	}
	gate, dst, up := s.input(cols, g), s.output(cols), compute.Tensor{}
	if gated {
		up = s.input(cols, u)
	}
	s.run(func(v compute.Verbs) { v.Activate(dst, gate, up, act) })
	keepNumberless(s, dst)
}

// playNumberlessFFN has every third token read NaN, by all neurons or by some.
func playNumberlessFFN(s *stage, act compute.Activation, gated, chosen bool) {
	const embd, ff = 64, 96
	set := compute.Set{Rows: len(s.step), N: ff}
	if chosen {
		set = choose(s, ff, func(t, i int) bool { return (i*7+t*3)%10 == 0 })
	}
	matrix := func() *compute.Matrix { return s.matrix(quant.F32, ff, embd, s.normal(ff*embd), compute.Rows).Matrix }
	f := compute.SparseWeights{Up: matrix(), Down: matrix(), Act: act}
	if gated {
		f.Gate = matrix()
	}
	x := s.normal(s.all * embd)
	for t := 1; t < s.all; t += 3 {
		x[t*embd+5*t] = nans()[t/3%3]
	}
	in, out := s.input(embd, x), s.output(embd)
	s.run(func(v compute.Verbs) { v.SparseFFN(out, in, set, f) })
	keepNumberless(s, out)
}

// playNumberlessExperts has the same of experts.
func playNumberlessExperts(s *stage, typ quant.Type, act compute.Activation, exact bool) {
	const embd, ff, n, used = 64, 32, 4, 2
	rows, columns := compute.Dense, compute.Dense
	if exact {
		rows, columns = compute.Rows, compute.Columns
	}
	stack := func(rows, cols int, use compute.Use) *compute.Matrix {
		experts := 0
		if use == compute.Columns {
			experts = n
		}
		return s.stacked(typ, experts, n*rows, cols, s.normal(n*rows*cols), use, nil).Matrix
	}
	w := compute.ExpertWeights{Gate: stack(ff, embd, rows), Up: stack(ff, embd, rows), Down: stack(embd, ff, columns), Act: act, Exact: exact}
	x := s.normal(s.all * embd)
	for t := 1; t < s.all; t += 3 {
		x[t*embd+5*t] = nans()[t/3%3]
	}
	chosen := s.route(s.logits(n), used, n, nil, nil, compute.Routing{Scale: 1})
	in, out := s.input(embd, x), s.output(embd)
	s.run(func(v compute.Verbs) { v.Experts(out, in, chosen, w) })
	keepNumberless(s, out)
}
