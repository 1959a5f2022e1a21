package devicetest

import (
	"fmt"
	"math"

	"github.com/powerinfer-go/powerinfer/internal/compute"
)

// Tolerances of the operations on streams of the residual.
const (
	// temperTolerance is a logarithm's error and two roundings.
	temperTolerance = 6e-7
	// topKTolerance is the share of a row's largest magnitude that its mean and deviation in float32 may cost.
	topKTolerance = 4e-6
	// streamTolerance is the share of Σ|c||x| that sums of four products, and of four for each coefficient, may cost.
	streamTolerance = 1e-6
)

// streamScripts returns the operations that Gemma 3n's residual streams, per-layer embeddings and gates need, and
// Temper.
func streamScripts() (all []script) {
	for _, cols := range []int{1, 33, 4096} {
		for _, n := range []int{1, 7, 33} {
			add := func(name string, play func(s *stage)) {
				all = append(all, script{name: fmt.Sprintf("%s/%d columns/%d tokens", name, cols, n), tokens: n, play: play})
			}
			add("Temper", func(s *stage) { playTemper(s, cols) })
			add("GaussianTopK", func(s *stage) { playTopK(s, cols) })
			add("Match", func(s *stage) {
				x, like := s.inOut(cols, s.uneven(s.all, cols)), s.input(cols, s.normal(s.all*cols))
				s.run(func(v compute.Verbs) { v.Match(x, like, 1e-5) })
				s.keep("matched", x, element(2*normTolerance))
			})
			add("Slice", func(s *stage) {
				x, out := s.input(cols+9, s.normal(s.all*(cols+9))), s.output(cols)
				s.run(func(v compute.Verbs) { v.Slice(out, x, 5) })
				s.keep("copied", out, exact)
			})
			add("Multiply", func(s *stage) {
				x, y, w := s.inOut(cols, s.uneven(s.all, cols)), s.output(cols), s.vector(s.normal(cols))
				s.run(func(v compute.Verbs) {
					v.Multiply(y, x, w)
					v.Multiply(x, x, w)
				})
				s.keep("elsewhere", y, exact)
				s.keep("in place", x, exact)
			})
			add("Shift", func(s *stage) {
				x, b := s.inOut(cols, s.uneven(s.all, cols)), s.vector(s.normal(cols))
				s.run(func(v compute.Verbs) { v.Shift(x, b) })
				s.keep("shifted", x, exact)
			})
			add("AltUp", func(s *stage) { playAltUp(s, cols) })
		}
	}
	return all
}

func playTemper(s *stage, cols int) {
	s.params.Pos = make([]int32, s.all)
	for i := range s.params.Pos {
		s.params.Pos[i] = []int32{0, 8190, 8191, 8192, 100000, 1 << 20, 63}[i%7]
	}
	x, y := s.inOut(cols, s.normal(s.all*cols)), s.inOut(cols, s.normal(s.all*cols))
	s.run(func(v compute.Verbs) {
		v.Temper(x, compute.Temperature{Scale: 0.1, Length: 8192, Offset: 1})
		v.Temper(y, compute.Temperature{Scale: 2.5, Length: 7})
	})
	s.keep("slowly", x, element(temperTolerance))
	s.keep("fast", y, element(temperTolerance))
}

func playTopK(s *stage, cols int) {
	values := s.normal(s.all * cols)
	for i := range values {
		values[i] += 3
	}
	x := s.inOut(cols, values)
	s.run(func(v compute.Verbs) { v.GaussianTopK(x, 1.6448536) })
	s.keep("kept", x, func(bounds []float64, _ []float32, r int) {
		top := 0.0
		for _, v := range values[r*cols:][:cols] {
			top = max(top, math.Abs(float64(v)))
		}
		for c := range bounds {
			bounds[c] = topKTolerance * top
		}
	})
}

func playAltUp(s *stage, cols int) {
	const n = compute.AltUpStreams
	var streams compute.Streams
	size := make([]float64, s.all) // each token's largest element
	note := func(values []float32, width int) []float32 {
		for i, v := range values {
			size[i/width] = max(size[i/width], math.Abs(float64(v)))
		}
		return values
	}
	for i := range streams {
		streams[i] = s.inOut(cols, note(s.normal(s.all*cols), cols))
	}
	y, m := s.input(cols, note(s.normal(s.all*cols), cols)), s.input(n, s.normal(s.all*n))
	predict, correct := s.vector(s.normal(n*n*n)), s.vector(s.normal(n*n))
	s.run(func(v compute.Verbs) {
		v.AltUpPredict(streams, m, predict)
		v.AltUpCorrect(streams, y, m, correct, 1)
	})
	for i := range streams {
		s.keep(fmt.Sprintf("stream %d", i), streams[i], func(bounds []float64, _ []float32, r int) {
			for c := range bounds {
				bounds[c] = streamTolerance * size[r] * n * n * n * n
			}
		})
	}
}
