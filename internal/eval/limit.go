package eval

import "math"

// What holds on average need not hold for a text. From measured documents, MostKLD and LeastSameTop predict what others
// like them keep: at least LimitOf of LimitIn, with a probability of limitConfidence.
const (
	LimitOf, LimitIn = 19, 20

	limitConfidence = 0.95
)

// Document is the measurement of one text: means over its predictions.
type Document struct {
	Count   int
	KLD     float64 // nats a token
	SameTop float64 // share
}

// leastKLD is the divergence below which documents count as equal, because base files keep log-probabilities in 16
// bits.
const leastKLD = 1e-6

// MostKLD returns a divergence that at least 19 of 20 further documents stay within, with a probability of 95 %, if the
// logarithms of documents' divergences are normally distributed. It accounts for mean and spread being known from few
// documents. With fewer than two nothing is known.
func MostKLD(documents []Document) float64 {
	var logs []float64
	for _, d := range documents {
		logs = append(logs, math.Log(max(leastKLD, d.KLD)))
	}
	return math.Exp(above(logs, limitFactor(len(logs))))
}

// LeastSameTop returns the share of tokens with the same likeliest next token that at least 19 of 20 further documents
// reach. It takes the arc sine of the root of the other tokens' share as normally distributed, because its spread does
// not depend on the share.
func LeastSameTop(documents []Document) float64 {
	var angles []float64
	for _, d := range documents {
		angles = append(angles, math.Asin(math.Sqrt(min(1, max(0, 1-d.SameTop)))))
	}
	s := math.Sin(min(above(angles, limitFactor(len(angles))), math.Pi/2))
	return 1 - s*s
}

// above returns the mean of values plus k of their standard deviations; it is infinite for a single value.
func above(values []float64, k float64) float64 {
	n := float64(len(values))
	if n < 2 {
		return math.Inf(1)
	}
	var sum, squares float64
	for _, v := range values {
		sum += v
	}
	mean := sum / n
	for _, v := range values {
		squares += (v - mean) * (v - mean)
	}
	return mean + k*math.Sqrt(squares/(n-1))
}

// limitFactor returns by how many of n values' standard deviations the limit is above their mean.
func limitFactor(n int) float64 {
	if n < 2 {
		return 0
	}
	low, high := 0.0, 1.0
	for limitChance(n, high) < limitConfidence {
		high *= 2
	}
	for range 24 { // bits
		if k := (low + high) / 2; limitChance(n, k) < limitConfidence {
			low = k
		} else {
			high = k
		}
	}
	return high
}

// The integral over the possible true mean and standard deviation has this many steps for each, out to this many
// standard errors.
const (
	limitSteps = 60
	limitReach = 6
)

// limitChance returns the probability that at least 19 of 20 further values of a normal distribution are below a
// sample's mean plus k of its standard deviations, over all samples of n values.
func limitChance(n int, k float64) float64 {
	freedom := float64(n - 1)
	// The logarithm of the standard deviation: its density is that of the root of χ²/freedom.
	wide := limitReach / math.Sqrt(2*freedom)
	var chance, weights float64
	for i := range limitSteps {
		u := wide * (4*float64(i)/(limitSteps-1) - 3) // with few values, small ones are likelier than large ones
		s := math.Exp(u)
		weight := math.Exp(freedom*u - freedom*(s*s-1)/2)
		for j := range limitSteps {
			z := limitReach * (2*float64(j)/(limitSteps-1) - 1)
			p := 0.5 * math.Erfc(-(z/math.Sqrt(float64(n))+k*s)/math.Sqrt2)
			w := weight * math.Exp(-z*z/2)
			chance += w * (math.Pow(p, LimitIn) + LimitIn*math.Pow(p, LimitOf)*(1-p))
			weights += w
		}
	}
	return chance / weights
}
