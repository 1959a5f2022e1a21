package neuron

import (
	"cmp"
	"math"
	"slices"
)

// ranked returns a layer's counts, hottest first.
func (s *Stats) ranked(layer int) []uint32 {
	c := slices.Clone(s.Layers[layer])
	slices.SortFunc(c, func(a, b uint32) int { return cmp.Compare(b, a) })
	return c
}

// Cumulative returns the share of a layer's activations of its k hottest neurons, for k in 0…n_ff. [n_ff+1], all zeros
// if nothing was active
func (s *Stats) Cumulative(layer int) []float64 {
	ranked := s.ranked(layer)
	all := total(ranked)
	out := make([]float64, len(ranked)+1)
	if all == 0 {
		return out
	}
	var sum uint64
	for k, c := range ranked {
		sum += uint64(c)
		out[k+1] = float64(sum) / float64(all)
	}
	return out
}

// Share returns the smallest share of a layer's neurons with the share q of its activations, 0…1; 0 if nothing was
// active.
func (s *Stats) Share(layer int, q float64) float64 { return s.Shares(layer, q)[0] }

// Shares is Share for several q, ranking the neurons once.
func (s *Stats) Shares(layer int, qs ...float64) []float64 {
	curve := s.Cumulative(layer)
	out := make([]float64, len(qs))
	n := len(curve) - 1
	if n == 0 || curve[n] == 0 {
		return out
	}
	for i, q := range qs {
		k, _ := slices.BinarySearch(curve, min(q, 1))
		out[i] = float64(k) / float64(n)
	}
	return out
}

// PowerLaw is a fit of frequency ∝ rank^−Exponent to a layer's neurons of ranks From…To, hottest is rank 1.
type PowerLaw struct {
	Exponent float64 `json:"exponent"` // 0: all neurons are equally hot
	KS       float64 `json:"ks"`       // Kolmogorov-Smirnov distance: largest gap of the cumulative share of activations within the range, 0…1
	From     int     `json:"from"`     // ranks fitted, From to To; 0, 0: too little was active for a fit
	To       int     `json:"to"`
}

// Bounds of fits.
const (
	leastLive   = 10   // neurons that were ever active
	leastSpan   = 4    // the range spans at least this factor of ranks: at 50 % sparsity a plateau takes a fifth of them
	candidates  = 24   // first ranks tried, spaced by equal factors
	asGood      = 1.2  // a longer range is preferred if its KS distance is within this factor of the least
	maxExponent = 32.0 // beyond it, the first rank has everything
)

// Fit estimates the exponent by maximum likelihood, taking each activation as a draw of a rank from the power law on
// the bounded range From…To. To is the last neuron ever active. Frequencies cannot exceed 1, so the hottest neurons may
// form a plateau: From is the first rank with about the least KS distance, among those that leave a range long enough.
//
// Sources: Clauset, Shalizi, Newman, "Power-law distributions in empirical data" (2009), for likelihood and KS choice
// of the cut in place of least squares on logarithms; Hanel et al., "Fitting power-laws in empirical data with
// estimators that work for all exponents" (2017), for the bounded range.
func (s *Stats) Fit(layer int) PowerLaw {
	ranked := s.ranked(layer)
	last := len(ranked)
	for last > 0 && ranked[last-1] == 0 {
		last--
	}
	if last < leastLive {
		return PowerLaw{}
	}
	logs := make([]float64, last)
	for i := range logs {
		logs[i] = math.Log(float64(i + 1))
	}
	var fits []PowerLaw
	least := 1.0
	for c := range candidates {
		from := int(math.Pow(float64(last)/leastSpan, float64(c)/(candidates-1)))
		if len(fits) > 0 && fits[len(fits)-1].From == from {
			continue
		}
		p := PowerLaw{From: from, To: last}
		p.Exponent = likeliest(ranked[from-1:last], logs[from-1:last])
		p.KS = distance(ranked[from-1:last], logs[from-1:last], p.Exponent)
		fits = append(fits, p)
		least = min(least, p.KS)
	}
	for _, p := range fits {
		if p.KS <= least*asGood {
			return p
		}
	}
	panic("no fit is the best") // the least one is among them
}

// likeliest solves E[ln rank] under rank^−s for the observed mean by Newton's method on the convex log-partition
// function, kept inside a shrinking bracket.
func likeliest(counts []uint32, logs []float64) float64 {
	var n, mean float64
	for i, c := range counts {
		n += float64(c)
		mean += float64(c) * logs[i]
	}
	mean /= n
	low, high, s := 0.0, maxExponent, 1.0
	for range 60 {
		var z, e1, e2 float64
		for _, l := range logs {
			w := math.Exp(-s * (l - logs[0]))
			z += w
			e1 += w * l
			e2 += w * l * l
		}
		e1 /= z
		variance := e2/z - e1*e1
		if e1 > mean { // too flat
			low = s
		} else {
			high = s
		}
		next := s + (e1-mean)/max(variance, 1e-300)
		if !(next > low && next < high) {
			next = (low + high) / 2
		}
		if math.Abs(next-s) < 1e-9 {
			return next
		}
		s = next
	}
	return s
}

// distance returns the largest gap between observed and fitted cumulative shares.
func distance(counts []uint32, logs []float64, s float64) float64 {
	var n, z float64
	for i, c := range counts {
		n += float64(c)
		z += math.Exp(-s * (logs[i] - logs[0]))
	}
	var observed, fitted, gap float64
	for i, c := range counts {
		observed += float64(c) / n
		fitted += math.Exp(-s*(logs[i]-logs[0])) / z
		gap = max(gap, math.Abs(observed-fitted))
	}
	return gap
}
