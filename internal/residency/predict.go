package residency

import (
	"math"
	"slices"
)

// Predict returns the share of uses of units that a Cache with this many slots answers in the long run, with the
// constants of TunedCache, if unit i is used by a share of shares[i] of the tokens, independently. It ignores guesses.
// It is 0 if nothing is used.
//
// A cache that knows the shares answers the sum of the largest ones. Cache estimates them from what it has seen, so
// units that are used almost equally often take turns. A unit's weight is shot noise: uses come at random and decay. It
// is in its slot as long as its weight is above that of the next unit to go, which hardly varies in a large cache (Che,
// Tung, Wang, "Hierarchical Web Caching Systems", 2002, with a threshold of the weight instead of a time for LRU). At
// this threshold as many units are above it as there are slots.
func Predict(slots int, shares []float64) (hits float64) {
	return predict(TunedCache().HalfLife, slots, shares)
}

// alike is a group of units with about the same share.
type alike struct{ units, share float64 }

func predict(halfLife float64, slots int, shares []float64) (hits float64) {
	groups := grouped(shares)
	units, uses := 0.0, 0.0
	for _, g := range groups {
		units, uses = units+g.units, uses+g.units*g.share
	}
	if uses == 0 || slots < 1 {
		return 0
	}
	room := float64(slots)
	if units <= room {
		return 1
	}
	room-- // one slot belongs to the last unit that came
	above := func(threshold float64, value func(alike) float64) (sum float64) {
		for _, g := range groups {
			sum += value(g) * heavier(g.share, halfLife, threshold)
		}
		return sum
	}
	low, high := -1000.0, math.Log2(2*halfLife/math.Ln2+64) // thresholds' binary logarithms
	for range 50 {
		middle := (low + high) / 2
		if above(math.Exp2(middle), func(g alike) float64 { return g.units }) > room {
			low = middle
		} else {
			high = middle
		}
	}
	return above(math.Exp2(high), func(g alike) float64 { return g.units * g.share }) / uses
}

// grouped groups shares that differ by less than a twentieth. Units that are not used are left out.
func grouped(shares []float64) (groups []alike) {
	const width = 1.05
	sorted := slices.DeleteFunc(slices.Clone(shares), func(s float64) bool { return !(s > 0) })
	slices.Sort(sorted)
	for len(sorted) > 0 {
		n := 0
		g := alike{}
		for n < len(sorted) && sorted[n] < sorted[0]*width || n == 0 {
			g.units, g.share = g.units+1, g.share+min(sorted[n], 1)
			n++
		}
		g.share /= g.units
		groups, sorted = append(groups, g), sorted[n:]
	}
	return groups
}

// many is the mean number of uses in a weight above which a gamma distribution is close enough.
const many = 16

// heavier returns the share of time in which the weight of a unit that this share of the tokens uses is above a
// threshold, just before a token.
func heavier(share, halfLife, threshold float64) float64 {
	mean := share / math.Expm1(math.Ln2/halfLife)
	if mean < many {
		return 1 - dickman(mean, threshold)
	}
	if share >= 1 {
		if mean > threshold {
			return 1
		}
		return 0
	}
	// Uses by single tokens vary by share·(1−share), and their squared weights sum up to half of the sum of the
	// weights.
	variance := mean * (1 - share) / 2
	shape := mean * mean / variance
	// Wilson and Hilferty, "The Distribution of Chi-Square" (1931): the cube root of a gamma variable is almost normal.
	z := (math.Cbrt(threshold/mean) - 1 + 1/(9*shape)) * 3 * math.Sqrt(shape)
	return math.Erfc(z/math.Sqrt2) / 2
}

// dickman returns the probability that shot noise with exponential decay, steps of 1 and mean a is at most x: F(x) =
// exp(−γa)/Γ(a+1)·x^a up to 1, and beyond x·F'(x) = a·(F(x)−F(x−1)).
//
// Source: the generalized Dickman distribution, as in Penrose and Wade, "Random Minimal Directed Spanning Trees and
// Dickman-Type Distributions" (2004).
func dickman(a, x float64) float64 {
	const euler = 0.57721566490153286
	const per = 32 // steps in 1
	gamma, _ := math.Lgamma(a + 1)
	first := func(x float64) float64 { return math.Exp(a*math.Log(x) - euler*a - gamma) }
	if x <= 1 {
		return first(x)
	}
	if x >= a+8*math.Sqrt(a)+8 {
		return 1
	}
	var last [per + 1]float64 // F at the last steps, in a ring
	for i := 1; i <= per; i++ {
		last[i] = first(float64(i) / per)
	}
	f, slope := last[per], a*last[per]
	n := per
	for float64(n) < x*per {
		n++
		at := float64(n) / per
		// The trapezoid rule; its right end depends on F there.
		old := last[(n-per)%(per+1)]
		next := (f + (slope-a/at*old)/(2*per)) / (1 - a/at/(2*per))
		slope = a / at * (next - old)
		f = min(next, 1)
		last[n%(per+1)] = f
	}
	return f
}
