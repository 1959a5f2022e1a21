package placement

import (
	"math"
	"sort"
)

// PowerLaw is frequencies of n neurons that follow f(i) = min(1, c·(i+1)^−a), hottest first, where the mean is active and the
// hottest share q80 of the neurons makes 80 % of the activations: what is assumed of a model whose frequencies are not known.
// Where no such law has that share, the nearest one is taken. [n]
func PowerLaw(n int, active, q80 float64) []float32 {
	low, high := 0.0, 4.0 // of the exponent: a larger one concentrates activations on fewer neurons
	for range 30 {
		if mid := (low + high) / 2; share80(law(n, active, mid)) > q80 {
			low = mid
		} else {
			high = mid
		}
	}
	return law(n, active, (low+high)/2)
}

// law is the power law of an exponent whose mean is active: the factor c by bisection.
func law(n int, active, exponent float64) []float32 {
	shape := make([]float64, n)
	rest := make([]float64, n+1) // rest[j] is the sum of shape from j on
	for i := range shape {
		shape[i] = math.Pow(float64(i+1), -exponent)
	}
	for i := n - 1; i >= 0; i-- {
		rest[i] = rest[i+1] + shape[i]
	}
	sum := func(c float64) float64 {
		j := sort.Search(n, func(i int) bool { return c*shape[i] < 1 })
		return float64(j) + c*rest[j]
	}
	low, high := 0.0, math.Pow(float64(n), exponent) // at which all are always active
	for range 100 {
		if mid := (low + high) / 2; sum(mid) < active*float64(n) {
			low = mid
		} else {
			high = mid
		}
	}
	f := make([]float32, n)
	for i, v := range shape {
		f[i] = float32(min(1, high*v))
	}
	return f
}

// share80 is the share of the neurons, hottest first, that makes 80 % of the activations.
func share80(f []float32) float64 {
	var all, sum float64
	for _, v := range f {
		all += float64(v)
	}
	for i, v := range f {
		if sum += float64(v); sum >= 0.8*all {
			return float64(i+1) / float64(len(f))
		}
	}
	return 1
}
