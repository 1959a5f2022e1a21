package devicetest

import (
	"fmt"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// numbersFor says which numbers a MatMul's script uses.
type numbersFor int

const (
	eightBit numbersFor = iota // that int8 and bfloat16 hold exactly
	gaussian
	hostile
)

// factor is one product of a MatMul's script.
type factor struct {
	typ  quant.Type
	rows int
	bias bool
}

func matMulScripts() (all []script) {
	add := func(name string, tokens, cols int, kind numbersFor, f ...factor) {
		all = append(all, script{name: "MatMul/" + name, tokens: tokens, play: func(s *stage) { playMatMul(s, cols, kind, f) }})
	}
	for _, typ := range quant.Types() {
		one := func(rows int, bias bool) factor { return factor{typ, rows, bias} }
		if typ.Like() != typ {
			for _, n := range []int{5, 33} {
				add(fmt.Sprintf("%s/512 columns/%d tokens", typ, n), n, 512, eightBit, one(17, false), one(100, true), one(1, true))
			}
			add(fmt.Sprintf("%s/512 columns/hostile", typ), 35, 512, hostile, one(30, false))
			continue
		}
		for _, cols := range columns(typ) {
			name := func(n int, what string) string { return fmt.Sprintf("%s/%d columns/%d tokens/%s", typ, cols, n, what) }
			// Fewer tokens are parts of these steps: see companies.
			add(name(7, "one product"), 7, cols, eightBit, one(1, false))
			if typ.Quantised() && (cols == 288 || cols == 512) {
				continue // after 256 columns they have the same rest as 32 columns, and "many rows" has 512
			}
			add(name(3, "two"), 3, cols, eightBit, one(3, true), one(5, false))
			add(name(33, "three"), 33, cols, eightBit, one(17, false), one(100, true), one(1, true))
			add(fmt.Sprintf("%s/%d columns/normal", typ, cols), 7, cols, gaussian, one(33, true))
			add(fmt.Sprintf("%s/%d columns/hostile", typ, cols), 35, cols, hostile, one(30, false))
		}
		add(fmt.Sprintf("%s/4096 columns/1 token", typ), 1, 4096, eightBit, one(17, true))
		add(fmt.Sprintf("%s/4096 columns/7 tokens", typ), 7, 4096, eightBit, one(17, true))
		add(fmt.Sprintf("%s/many rows", typ), 33, 512, eightBit, one(601, false))
		add(fmt.Sprintf("%s/many tokens", typ), 130, 256, eightBit, one(17, false), one(100, true), one(1, true))
	}
	for _, n := range []int{1, 5, 33} {
		add(fmt.Sprintf("mixed/%d tokens/K and float", n), n, 512, eightBit, factor{quant.Q4_K, 17, true}, factor{quant.F32, 5, false}, factor{quant.Q6_K, 100, false})
		add(fmt.Sprintf("mixed/%d tokens/blocks and float", n), n, 256, eightBit, factor{quant.BF16, 100, false}, factor{quant.Q8_0, 3, true}, factor{quant.Q4_0, 33, true})
		add(fmt.Sprintf("mixed/%d tokens/floats", n), n, 77, eightBit, factor{quant.F16, 9, true}, factor{quant.F32, 17, true}, factor{quant.BF16, 5, false})
	}
	return all
}

func playMatMul(s *stage, cols int, kind numbersFor, factors []factor) {
	var x []float32
	switch kind {
	case eightBit:
		x = s.eights(s.all, cols)
	case gaussian:
		x = s.normal(s.all * cols)
	case hostile:
		x = s.hostileTokens(s.all, cols)
	}
	in := s.input(cols, x)
	var p compute.Products
	var bounds [len(p)]bound
	for i, f := range factors {
		var values []float32
		switch kind {
		case eightBit:
			values = s.sharp(f.typ, f.rows*cols)
		case gaussian:
			values = s.normal(f.rows * cols)
		case hostile:
			values = s.hostileRows(f.rows, cols)
		}
		w := s.matrix(f.typ, f.rows, cols, values, compute.Dense)
		p[i] = compute.Product{Out: s.output(f.rows), W: w.Matrix}
		var bias []float32
		if f.bias {
			bias = s.normal(f.rows)
			p[i].Bias = s.vector(bias)
		}
		bounds[i] = product(w, x, bias)
	}
	s.run(func(v compute.Verbs) { v.MatMul(in, p) })
	for i, f := range factors {
		s.keep(fmt.Sprintf("product %d (%s)", i, f.typ), p[i].Out, bounds[i])
	}
}
