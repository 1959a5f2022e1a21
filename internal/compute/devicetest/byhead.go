package devicetest

import (
	"fmt"
	"math"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// byHeadScripts multiply heads by matrices of their own; columns between the results stay as they are.
func byHeadScripts() (all []script) {
	for _, c := range []struct {
		typ               quant.Type
		heads, rows, cols int
	}{{quant.F32, 3, 5, 24}, {quant.F16, 5, 70, 64}, {quant.BF16, 2, 33, 40}, {quant.Q8_0, 4, 40, 64}, {quant.Q4_0, 3, 32, 96}, {quant.Q4_K, 2, 100, 512}, {quant.F16, 1, 9, 16}} {
		for _, n := range []int{5, 33} { // a single token is a step of each, too
			for _, gap := range []int{0, 7} {
				name := fmt.Sprintf("MatMulByHead/%s/%d heads of %d by %d, %d apart/%d tokens", c.typ, c.heads, c.rows, c.cols, gap, n)
				all = append(all, script{name: name, tokens: n, play: func(s *stage) {
					x := s.eights(s.all*c.heads, c.cols)
					w := s.matrix(c.typ, c.heads*c.rows, c.cols, s.sharp(c.typ, c.heads*c.rows*c.cols), compute.Precise)
					width := c.heads*(c.rows+gap) + gap
					out := s.inOut(width, s.normal(s.all*width))
					in := s.input(c.heads*c.cols, x)
					s.run(func(v compute.Verbs) {
						v.MatMulByHead(out, compute.Ranges{First: gap, Step: c.rows + gap}, in, w.Matrix)
					})
					s.keep("heads", out, byHeadBound(w, x, c.heads, c.rows, gap))
				}})
			}
		}
	}
	return all
}

// byHeadBound bounds the products of heads by w. Results of neighbouring heads have gap columns between them. x [n,
// heads·w.Cols]
func byHeadBound(w weight, x []float32, heads, rows, gap int) bound {
	round := newRounding(w)
	return func(bounds []float64, _ []float32, t int) {
		clear(bounds)
		for h := range heads {
			round.token(x[(t*heads+h)*w.Cols:][:w.Cols])
			for r := range rows {
				_, mass, variance := round.row(h*rows + r)
				bounds[gap+h*(rows+gap)+r] = sumTolerance*mass + roundingSigmas*math.Sqrt(variance) + tiny
			}
		}
	}
}
