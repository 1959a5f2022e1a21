package synth

import "math"

// alwaysOn caps a neuron's frequency: the power law's head is active on nearly every token.
const alwaysOn = 0.995

// fatThreshold is ProSparse's, as in internal/model's default.
const fatThreshold = 0.01

// activation describes a nonlinearity f, and what it is multiplied by, for the generator.
type activation struct {
	f         func(z float64) float64
	threshold float64 // f is zero up to it, where sparse
	sparse    bool
	gated     bool // exists in gated layers only
}

func activations() map[string]activation {
	relu := func(z float64) float64 { return max(z, 0) }
	return map[string]activation{
		"relu": {f: relu, sparse: true},
		"fatrelu": {f: func(z float64) float64 {
			if z > fatThreshold {
				return z
			}
			return 0
		}, threshold: fatThreshold, sparse: true},
		"drelu": {f: relu, sparse: true, gated: true},
		"relu2": {f: func(z float64) float64 { return relu(z) * relu(z) }, sparse: true},
		"silu":  {f: func(z float64) float64 { return z / (1 + math.Exp(-z)) }},
		"situ": {f: func(z float64) float64 { // for ups near 0, within the limit of synthetic files
			return situGates * math.Tanh(z/situGates) / (1 + math.Exp(-z))
		}, gated: true},
		"clamped_swiglu": {f: func(z float64) float64 { // for ups near 0, with gpt-oss's slope and limit
			z = min(z, 7)
			return z / (1 + math.Exp(-1.702*z))
		}, gated: true},
		"gelu": {f: func(z float64) float64 { return 0.5 * z * math.Erfc(-z/math.Sqrt2) }},
	}
}

// law is how often neurons are active, by rank, most frequent first. Neurons 2r and 2r+1 of a layer's ranking share
// entry r: their down rows are opposite, so that what a layer adds to the residual is zero on average.
type law struct {
	freq   []float64 // P(active) [n_ff/2]
	offset []float32 // mean of the gate; its variance is 1 [n_ff/2]
	weight []float32 // size of the down row, so that every active neuron adds equally; mean of freq·…: see newLaw [n_ff/2]
}

// newLaw solves for the offsets. Results are rounded to float32: last bits of exp and erfc, which differ between
// platforms, do not reach the file.
func newLaw(s Spec, gated bool) law {
	act := activations()[s.Activation]
	n := s.FF / 2
	l := law{freq: make([]float64, n), offset: make([]float32, n), weight: make([]float32, n)}
	if s.Sparsity > 0 {
		frequencies(l.freq, 1-s.Sparsity, s.PowerLaw)
	}
	sum := 0.0
	for r, p := range l.freq {
		if s.Sparsity > 0 {
			if s.Activation == "drelu" { // gate and up are positive independently
				p = math.Sqrt(p)
			}
			l.offset[r] = float32(act.threshold + quantile(p))
		} else {
			l.freq[r] = 1
		}
		sum += l.freq[r]
	}
	scale := 1 / math.Sqrt(2*sum) // 2·Σ weight²·variance = 1
	for r := range l.weight {
		v := variance(act, float64(l.offset[r]), s.Activation == "drelu", gated)
		l.weight[r] = float32(scale * math.Sqrt(l.freq[r]/v))
	}
	return l
}

// frequencies fills p with min(alwaysOn, c·rank^-s), c such that their mean is mean.
func frequencies(p []float64, mean, s float64) {
	fill := func(c float64) float64 {
		sum := 0.0
		for r := range p {
			p[r] = min(alwaysOn, c*math.Pow(float64(r+1), -s))
			sum += p[r]
		}
		return sum / float64(len(p))
	}
	low, high := 0.0, math.Pow(float64(len(p)), s)
	for range 100 {
		if mid := (low + high) / 2; fill(mid) < mean {
			low = mid
		} else {
			high = mid
		}
	}
	fill(high)
}

// quantile is z with P(N(0,1) < z) = p, by bisection.
func quantile(p float64) float64 {
	low, high := -10.0, 10.0
	for range 80 {
		if mid := (low + high) / 2; 0.5*math.Erfc(-mid/math.Sqrt2) < p {
			low = mid
		} else {
			high = mid
		}
	}
	return low
}

// variance of an activation f(g)·u with g ~ N(offset, 1): u ~ N(0,1) in gated layers, 1 in ungated ones, and
// distributed and rectified like the gate in dReLU.
func variance(act activation, offset float64, both, gated bool) float64 {
	const reach, steps = 8.0, 512
	var mean, square, total float64
	for i := range steps + 1 {
		z := -reach + 2*reach*float64(i)/steps
		density := math.Exp(-z * z / 2)
		a := act.f(offset + z)
		mean += density * a
		square += density * a * a
		total += density
	}
	mean, square = mean/total, square/total
	switch {
	case both:
		return square*square - mean*mean*mean*mean
	case gated:
		return square
	}
	return square - mean*mean
}
