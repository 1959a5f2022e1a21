package kernel

import (
	"math"
	"math/cmplx"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/testenv"
)

func rope(style compute.RopeStyle, dims int, magnitude float64) *compute.Rope {
	r := &compute.Rope{Style: style, Dims: dims, Scale: magnitude}
	for i := range dims / 2 {
		r.Freqs = append(r.Freqs, math.Pow(10000, -2*float64(i)/float64(dims)))
	}
	return r
}

// TestRotate holds rotation to multiplication of complex numbers.
func TestRotate(t *testing.T) {
	rng := testenv.Rand(t)
	for _, k := range Variants() {
		for _, style := range []compute.RopeStyle{compute.Interleaved, compute.Halves} {
			for _, c := range []struct{ headDim, dims, heads int }{
				{64, 64, 3}, {128, 128, 2}, {80, 32, 2}, {80, 80, 1}, {96, 96, 5}, {16, 6, 3}, {32, 24, 2}, {256, 64, 1}, {8, 2, 1},
			} {
				r := rope(style, c.dims, 1.25)
				pos := rng.IntN(100000)
				cos, sin := make([]float32, c.dims/2), make([]float32, c.dims/2)
				Turn(cos, sin, angles(pos, r), r.Scale)
				x := normals(rng, c.heads*c.headDim)
				got, check := guarded(t, x)
				k.Rotate(got, c.headDim, cos, sin, style)
				check()
				want := make([]float64, len(x))
				for i, e := range x {
					want[i] = float64(e) // elements past dims stay
				}
				for h := range c.heads {
					for i := range c.dims / 2 {
						a, b := 2*i, 2*i+1
						if style == compute.Halves {
							a, b = i, i+c.dims/2
						}
						a, b = a+h*c.headDim, b+h*c.headDim
						z := complex(float64(x[a]), float64(x[b])) * cmplx.Exp(complex(0, float64(pos)*r.Freqs[i])) * 1.25
						want[a], want[b] = real(z), imag(z)
					}
				}
				near(t, k.Name, got, func(i int) (float64, float64) { return want[i], 8 }, roundingTolerance)
			}
		}
	}
}

// TestRotationIsRelative: the product of a rotated query and a rotated key depends on their distance only.
func TestRotationIsRelative(t *testing.T) {
	rng := testenv.Rand(t)
	const dims = 64
	q, key := normals(rng, dims), normals(rng, dims)
	for _, k := range Variants() {
		for _, style := range []compute.RopeStyle{compute.Interleaved, compute.Halves} {
			at := func(x []float32, pos int) []float32 {
				cos, sin := make([]float32, dims/2), make([]float32, dims/2)
				Turn(cos, sin, angles(pos, rope(style, dims, 1)), 1)
				y := append([]float32(nil), x...)
				k.Rotate(y, dims, cos, sin, style)
				return y
			}
			dot := func(m, n int) (sum float64) {
				a, b := at(q, m), at(key, n)
				for i := range a {
					sum += float64(a[i]) * float64(b[i])
				}
				return sum
			}
			if a, b := dot(17, 5), dot(70012, 70000); math.Abs(a-b) > 1e-4 {
				t.Fatalf("%s: %g at one place, %g at another", k.Name, a, b)
			}
		}
	}
}

// angles returns the angles of a row at pos.
func angles(pos int, r *compute.Rope) []float64 {
	at := make([]float64, len(r.Freqs))
	p := compute.Params{Pos: []int32{int32(pos)}}
	p.Angles(at, r, 0)
	return at
}
