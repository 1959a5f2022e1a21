package devicetest

import (
	"fmt"
	"math"

	"github.com/powerinfer-go/powerinfer/internal/compute"
)

// residualScripts mix residuals with none, some and many checkpoints. With a large scale, one may have nearly all of
// the weight.
func residualScripts() (all []script) {
	for _, c := range []struct{ cols, count, n int }{{7, 0, 3}, {33, 1, 5}, {96, 3, 33}, {1024, 8, 5}, {16, 40, 4}} {
		for _, scale := range []float64{0.1, 4} {
			all = append(all, script{name: fmt.Sprintf("AttendResiduals/%d columns/%d checkpoints/weights of %g", c.cols, c.count, scale), tokens: c.n, play: func(s *stage) {
				playResiduals(s, c.cols, c.count, scale)
			}})
		}
	}
	return all
}

func playResiduals(s *stage, cols, count int, scale float64) {
	const spare = 2 // further checkpoints, which are not there yet
	w, held := s.normal(cols), s.normal(s.all*(count+spare)*cols)
	for i := range w {
		w[i] *= float32(scale / math.Sqrt(float64(cols)))
	}
	for t := range s.all {
		for i := t*(count+spare)*cols + count*cols; i < (t+1)*(count+spare)*cols; i++ {
			held[i] = float32(math.NaN())
		}
	}
	stack, x, out := s.input((count+spare)*cols, held), s.input(cols, s.normal(s.all*cols)), s.output(cols)
	weights := s.vector(w)
	s.run(func(v compute.Verbs) {
		v.AttendResiduals(compute.AttendResiduals{Out: out, Stack: stack, X: x, W: weights, Count: count, Epsilon: 1e-5})
	})
	s.keep("mixed", out, ofRow(smoothTolerance))
}
