package task

import (
	"math"
	"slices"
)

// Likelihood is a model's likelihood of a choice.
type Likelihood struct {
	Sum    float64 `json:"sum"`    // sum of the natural logarithms of the probabilities of the scored tokens
	Tokens int     `json:"tokens"` // that are scored
}

// Answer is what became of an item: by each metric its share of a point. A metric that the item has not is missing.
type Answer map[string]float64

// The metrics of questions.
const (
	Acc     = "acc"
	AccNorm = "acc_norm"
	MC1     = "mc1"
	MC2     = "mc2"
)

// Score returns what an item's likelihoods [choices] are worth.
func (d *Data) Score(it *Item, l []Likelihood) Answer {
	pick := func(score func(i int) float64) float64 {
		best := 0
		for i := range it.First {
			if score(i) > score(best) {
				best = i
			}
		}
		if it.Right[best] {
			return 1
		}
		return 0
	}
	sum := func(i int) float64 { return l[i].Sum }
	if d.Scoring == Llama {
		perToken := func(i int) float64 { return l[i].Sum / float64(l[i].Tokens) }
		if d.Kind != Winogrande {
			return Answer{AccNorm: pick(perToken)}
		}
		if perToken(0) > perToken(1) == it.Right[0] { // the second wins a draw, as in llama.cpp
			return Answer{Acc: 1}
		}
		return Answer{Acc: 0}
	}
	switch d.Kind {
	case Winogrande, MMLU:
		return Answer{Acc: pick(sum)}
	case TruthfulQA:
		a := Answer{MC1: pick(sum)}
		if it.Right2 != nil {
			a[MC2] = rightShare(it, l)
		}
		return a
	}
	return Answer{Acc: pick(sum), AccNorm: pick(func(i int) float64 { return l[i].Sum / float64(max(1, it.Choices[i].Length)) })}
}

// rightShare returns the share that mc2's right answers have in the probability of all of them.
func rightShare(it *Item, l []Likelihood) float64 {
	top := math.Inf(-1)
	for i := it.First; i < len(l); i++ {
		top = max(top, l[i].Sum)
	}
	right, all := 0.0, 0.0
	for i := it.First; i < len(l); i++ {
		p := math.Exp(l[i].Sum - top)
		all += p
		if it.Right2[i] {
			right += p
		}
	}
	return right / all
}

// Main returns the usual metric of the task.
func (d *Data) Main() string {
	switch {
	case d.Kind.Generates():
		return "pass@1"
	case d.Kind == Winogrande, d.Kind == MMLU && d.Scoring == Harness:
		return Acc
	case d.Kind == TruthfulQA && d.Scoring == Harness:
		return MC2
	}
	return AccNorm
}

// Figure is a metric over all items, with the ends of its interval of 95 % confidence.
type Figure struct {
	Value  float64 `json:"value"`
	Low    float64 `json:"low"`
	High   float64 `json:"high"`
	Method string  `json:"interval"` // "wilson" or "normal"
	N      int     `json:"n"`
}

// z95 is the normal distribution's quantile for 95 % confidence.
const z95 = 1.959963984540054

// Mean returns the figure of values. If all are 0 or 1 the interval is Wilson's, else that of the normal distribution
// by the standard error.
func Mean(values []float64) Figure {
	f := Figure{N: len(values)}
	if f.N == 0 {
		f.Low, f.High, f.Method = 0, 1, "wilson"
		return f
	}
	n := float64(f.N)
	for _, v := range values {
		f.Value += v / n
	}
	if !slices.ContainsFunc(values, func(v float64) bool { return v != 0 && v != 1 }) {
		f.Method = "wilson"
		f.Low, f.High = wilson(f.Value, n)
		return f
	}
	f.Method = "normal"
	square := 0.0
	for _, v := range values {
		square += (v - f.Value) * (v - f.Value)
	}
	half := z95 * math.Sqrt(square/max(1, n-1)/n)
	f.Low, f.High = max(0, f.Value-half), min(1, f.Value+half)
	return f
}

// wilson returns Wilson's interval of a share p of n.
func wilson(p, n float64) (low, high float64) {
	const z2 = z95 * z95
	middle, half := p+z2/(2*n), z95*math.Sqrt(p*(1-p)/n+z2/(4*n*n))
	return max(0, (middle-half)/(1+z2/n)), min(1, (middle+half)/(1+z2/n))
}

// PassAt returns the unbiased estimate of the probability that one of k programs is right, if c of n are (Chen et al.
// 2021): 1 − C(n−c, k)/C(n, k).
func PassAt(n, c, k int) float64 {
	if n-c < k {
		return 1
	}
	miss := 1.0
	for i := n - c + 1; i <= n; i++ {
		miss *= 1 - float64(k)/float64(i)
	}
	return 1 - miss
}
