package kernel

import (
	"math"

	"github.com/powerinfer-go/powerinfer/internal/compute"
)

// Turn computes the cosines and sines [len(r.Freqs)] of a rotation to pos (see Rope.At), times r.Scale. It is
// exact to float32 at any position: angles are reduced in float64.
func Turn(cos, sin []float32, pos int, r *compute.Rope) {
	for i, f := range r.Freqs {
		s, c := math.Sincos(float64(pos) * f)
		cos[i], sin[i] = float32(c*r.Scale), float32(s*r.Scale)
	}
}

func rotate(x []float32, headDim int, cos, sin []float32, style compute.RopeStyle) {
	n := len(cos)
	for ; len(x) > 0; x = x[headDim:] {
		for i, c := range cos {
			a, b := i, i+n
			if style == compute.Interleaved {
				a, b = 2*i, 2*i+1
			}
			s := sin[i]
			x0, x1 := x[a], x[b]
			x[a] = x0*c - x1*s
			x[b] = x0*s + x1*c
		}
	}
}
