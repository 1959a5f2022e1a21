package devicetest

import (
	"fmt"
	"math"

	"github.com/powerinfer-go/powerinfer/internal/compute"
)

// Tolerances of hyper-connections.
const (
	// connectionTolerance is the error that exponentials and repeated divisions in float32 leave in weights of about 1.
	connectionTolerance = 2e-5
	// streamsTolerance is the share of Σ|w||x| that a sum of a few products may cost.
	streamsTolerance = 1e-6
)

// connectionScripts returns the operations of hyper-connections.
func connectionScripts() (all []script) {
	for _, streams := range []int{1, 4, compute.MostStreams} {
		for _, n := range []int{1, 7, 300} {
			all = append(all, script{name: fmt.Sprintf("ConnectionWeights/%d streams/%d tokens", streams, n), tokens: n, play: func(s *stage) { playConnectionWeights(s, streams) }})
		}
		for _, cols := range []int{1, 33, 2050} {
			for _, n := range []int{1, 7} {
				all = append(all, script{name: fmt.Sprintf("Streams/%d streams/%d columns/%d tokens", streams, cols, n), tokens: n, play: func(s *stage) { playStreams(s, streams, cols) }})
			}
		}
	}
	return all
}

func playConnectionWeights(s *stage, streams int) {
	for parts, cols := range []int{streams, 2 * streams, (2 + streams) * streams} {
		if parts > 0 && cols == streams || parts == 2 && cols == 2*streams { // one stream has no separate form
			continue
		}
		products := s.normal(s.all * cols)
		for i := range products {
			products[i] *= []float32{1, 0.1, 20}[i/cols%3] // mild, even and hard mixes
		}
		w, scale, base := s.inOut(cols, products), s.vector(s.normal(parts+1)), s.vector(s.normal(cols))
		how := compute.Connections{Streams: streams, Eps: 1e-3, Written: 2, Floor: 1e-2, Rounds: 4}
		s.run(func(v compute.Verbs) { v.ConnectionWeights(w, scale, base, how) })
		s.keep(fmt.Sprintf("%d parts", parts+1), w, func(bounds []float64, want []float32, _ int) {
			for c, v := range want {
				bounds[c] = connectionTolerance * (1 + math.Abs(float64(v)))
			}
		})
	}
}

func playStreams(s *stage, streams, cols int) {
	largest := make([]float64, s.all) // each token's largest Σ|w||x|
	note := func(values []float32, width int) []float32 {
		for i, v := range values {
			largest[i/width] = max(largest[i/width], math.Abs(float64(v)))
		}
		return values
	}
	x := s.inOut(streams*cols, note(s.normal(s.all*streams*cols), streams*cols))
	y, out := s.input(cols, note(s.normal(s.all*cols), cols)), s.output(cols)
	plain, mixes := s.input(2*streams, note(s.normal(s.all*2*streams), 2*streams)), s.input((2+streams)*streams, note(s.normal(s.all*(2+streams)*streams), (2+streams)*streams))
	s.run(func(v compute.Verbs) {
		v.ReadStreams(out, x, mixes, streams)
		v.WriteStreams(x, y, plain, streams)
		v.WriteStreams(x, y, mixes, streams)
	})
	near := func(bounds []float64, _ []float32, r int) {
		for c := range bounds {
			bounds[c] = streamsTolerance * float64(streams+1) * largest[r] * largest[r] * largest[r]
		}
	}
	s.keep("read", out, near)
	s.keep("written", x, near)
}
