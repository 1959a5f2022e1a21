package kernel

import (
	"math"

	"github.com/powerinfer-go/powerinfer/internal/compute"
)

// Turn computes the cosines and sines of a row's angles (see Params.Angles), times scale. It is exact to float32 at any
// angle: angles are reduced in float64. [Dims/2] of each
func Turn(cos, sin []float32, angles []float64, scale float64) {
	for i, a := range angles {
		s, c := math.Sincos(a)
		cos[i], sin[i] = float32(c*scale), float32(s*scale)
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
