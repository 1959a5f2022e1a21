package kernel

import (
	"math"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/testenv"
)

func TestNorms(t *testing.T) {
	rng := testenv.Rand(t)
	for _, k := range Variants() {
		for _, n := range lengths[1:] {
			x, w, b := normals(rng, n), normals(rng, n), normals(rng, n)
			for i := range x {
				x[i] = 3*x[i] + 2
			}
			const eps = 1e-5
			var sum, squares, deviations float64
			for _, e := range x {
				sum += float64(e)
				squares += float64(e) * float64(e)
			}
			mean := sum / float64(n)
			for _, e := range x {
				deviations += (float64(e) - mean) * (float64(e) - mean)
			}
			rms := math.Sqrt(squares/float64(n) + eps)
			deviation := math.Sqrt(deviations/float64(n) + eps)

			for _, inPlace := range []bool{false, true} {
				run := func(norm func(dst, x []float32)) []float32 {
					dst, check := guarded(t, x)
					if inPlace {
						norm(dst, dst)
					} else {
						norm(dst, x)
					}
					check()
					return dst
				}
				got := run(func(dst, x []float32) { k.RMSNorm(dst, x, w, eps) })
				near(t, k.Name+" RMSNorm", got, func(i int) (float64, float64) {
					v := float64(x[i]) / rms * float64(w[i])
					return v, math.Abs(v)
				}, roundingTolerance)

				for _, bias := range [][]float32{nil, b} {
					got := run(func(dst, x []float32) { k.LayerNorm(dst, x, w, bias, eps) })
					near(t, k.Name+" LayerNorm", got, func(i int) (float64, float64) {
						v := (float64(x[i]) - mean) / deviation * float64(w[i])
						if bias != nil {
							v += float64(bias[i])
						}
						// x-mean cancels: its error comes from x and the rounded mean.
						return v, (math.Abs(float64(x[i]))+math.Abs(mean))/deviation*math.Abs(float64(w[i])) + math.Abs(v)
					}, roundingTolerance)
				}
			}
		}
	}
}
