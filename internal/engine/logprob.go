package engine

import (
	"cmp"
	"math"
	"slices"

	"github.com/powerinfer-go/powerinfer/internal/sample"
)

// likeliest returns Token.Logprob and Token.Top for the token id that was just chosen.
func (st *Stream) likeliest(row []float32, id int32) (float32, []Likely) {
	s, ok := st.r.Sampler.(interface {
		Chances(id int32, n int) (float64, []sample.Chance)
	})
	if !st.r.Chances || !ok {
		return likeliest(row, id, st.r.TopLogprobs)
	}
	p, top := s.Chances(id, st.r.TopLogprobs)
	var all []Likely
	for _, c := range top {
		all = append(all, Likely{c.ID, float32(math.Log(c.Probability))})
	}
	return float32(math.Log(p)), all
}

// likeliest returns the natural logarithm of id's probability by logits [n_vocab], and the n likeliest tokens,
// likeliest first.
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
