package placement

import (
	"math"
	"sort"
)

// PowerLaw returns frequencies of n neurons that follow f(i) = min(1, c·(i+1)^−a), hottest first. Their mean is active,
// and the hottest share q80 of the neurons makes 80 % of the activations. It is the assumption for models with unknown
// frequencies. If no such law has that share, the nearest one is taken. [n]
func PowerLaw(n int, active, q80 float64) []float32 {
	logs := make([]float64, n)
	for i := range logs {
		logs[i] = math.Log(float64(i + 1))
	}
	low, high := 0.0, 4.0 // bounds of the exponent: a larger one concentrates activations on fewer neurons
	for range 24 {
		if mid := (low + high) / 2; share80(law(logs, active, mid)) > q80 {
			low = mid
		} else {
			high = mid
		}
	}
	f := make([]float32, n)
	for i, v := range law(logs, active, (low+high)/2) {
		f[i] = float32(v)
	}
	return f
}

// law returns the power law with an exponent and with mean active; it finds the factor c by bisection. logs[i] is the
// logarithm of i+1.
func law(logs []float64, active, exponent float64) []float64 {
	n := len(logs)
	f := make([]float64, n)
	rest := make([]float64, n+1) // rest[j] is the sum of the law from j on, for c = 1
	for i, v := range logs {
		f[i] = math.Exp(-exponent * v)
	}
	for i := n - 1; i >= 0; i-- {
		rest[i] = rest[i+1] + f[i]
	}
	sum := func(c float64) float64 {
		j := sort.Search(n, func(i int) bool { return c*f[i] < 1 })
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
	for i, v := range f {
		f[i] = min(1, high*v)
	}
	return f
}

// share80 returns the share of the neurons, hottest first, that makes 80 % of the activations.
func share80(f []float64) float64 {
	var all, sum float64
	for _, v := range f {
		all += v
	}
	for i, v := range f {
		if sum += v; sum >= 0.8*all {
			return float64(i+1) / float64(len(f))
		}
	}
	return 1
}
