package sample

import "slices"

// A Chance is a token with its probability after all stages of the chain.
type Chance struct {
	ID          int32
	Probability float64
}

// Chances returns the probability after the chain of id, the token that Sample returned last. It also returns the n
// likeliest tokens, likeliest first, or fewer if the chain left fewer. If Sample takes the highest logit, its token is
// the only one.
func (s *Sampler) Chances(id int32, n int) (float64, []Chance) {
	if s.choice == takesBest {
		return 1, []Chance{{id, 1}}[:min(n, 1)]
	}
	var sum float64
	for i := range s.pool.c {
		sum += s.pool.c[i].weight
	}
	if sum == 0 { // every token is banned
		return 1, nil
	}
	chance := 0.0
	var top []Chance
	for i := range s.pool.c {
		c := &s.pool.c[i]
		p := c.weight / sum
		if c.id == id {
			chance = p
		}
		if p == 0 || n <= 0 || len(top) == n && p <= top[n-1].Probability {
			continue
		}
		at, _ := slices.BinarySearchFunc(top, p, func(t Chance, p float64) int {
			if t.Probability >= p {
				return -1
			}
			return 1
		})
		top = slices.Insert(top, at, Chance{c.id, p})
		top = top[:min(len(top), n)]
	}
	return chance, top
}
