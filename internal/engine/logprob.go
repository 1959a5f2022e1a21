package engine

import (
	"cmp"
	"math"
	"slices"
)

// likeliest returns the natural logarithm of id's probability by logits [n_vocab], and the n likeliest tokens, likeliest first.
func likeliest(logits []float32, id int32, n int) (float32, []Likely) {
	top := slices.Max(logits)
	sum := 0.0
	for _, v := range logits {
		sum += math.Exp(float64(v - top))
	}
	norm := float64(top) + math.Log(sum)
	of := func(id int32) float32 { return float32(float64(logits[id]) - norm) }
	var best []Likely
	for i := range logits {
		if n <= 0 || len(best) == n && logits[i] <= logits[best[n-1].ID] {
			continue
		}
		l := Likely{int32(i), of(int32(i))}
		at, _ := slices.BinarySearchFunc(best, l, func(a, b Likely) int { return cmp.Or(cmp.Compare(b.Logprob, a.Logprob), cmp.Compare(a.ID, b.ID)) })
		best = slices.Insert(best, at, l)
		best = best[:min(len(best), n)]
	}
	return of(id), best
}
