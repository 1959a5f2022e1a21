package main

import (
	"container/heap"
	"math"
	"math/rand/v2"

	"github.com/powerinfer-go/powerinfer/internal/residency"
)

// tally counts hits, misses and predictions of a cache in the steps that generate.
type tally struct {
	uses, misses float64
	guesses      float64 // units that were read for a prediction
	steps        float64
}

func (t tally) hits() float64 { return 1 - (t.misses+t.guesses)/t.uses }

// cached plays a story on the engine's cache, which holds a layer's units while the layer is computed. Meanwhile it
// predicts units of the next layer: a share right of the units that the layer uses, and as many wrong ones as are
// missing. If right is 0 it predicts none.
func cached(s *story, slots int, tuning residency.CacheTuning, right float64) (t tally) {
	c := residency.NewCache(slots, tuning)
	c.Add(s.units)
	for _, u := range s.first {
		c.Admit(u)
	}
	for _, u := range s.first {
		c.Release(u)
	}
	r := rand.New(rand.NewPCG(3, 4))
	var held, absent, guessed []int32
	var before residency.CacheUse
	for i := range s.steps {
		w := &s.steps[i]
		before = c.Counted()
		c.Step(w.tokens)
		for l, touches := range w.layers {
			absent = absent[:0]
			for _, u := range touches {
				c.Use(u.unit, int(u.tokens))
				if c.Slot(u.unit) == residency.Absent {
					absent = append(absent, u.unit)
					continue
				}
				c.Hold(u.unit)
				held = append(held, u.unit)
			}
			for _, u := range absent {
				if _, _, ok := c.Admit(u); !ok {
					for _, h := range held { // a wave of a prompt is computed
						c.Release(h)
					}
					held = held[:0]
					c.Admit(u)
				}
				held = append(held, u)
			}
			for _, h := range guessed {
				c.Release(h)
			}
			guessed = guessed[:0]
			if right > 0 && !w.prompt && l+1 < s.layers {
				guessed = guess(c, s, w, i, l+1, right, r, guessed)
			}
			for _, h := range held {
				c.Release(h)
			}
			held = held[:0]
		}
		if i >= s.after && !w.prompt {
			use := c.Counted().Since(before)
			t.steps++
			t.uses += float64(use.Uses())
			t.misses += float64(use.Misses)
			t.guesses += float64(use.Guessed)
		}
	}
	return t
}

// guess predicts a layer's units like a predictor: a share right of its units, and in place of the others units that
// the previous token used in the layer, or random ones.
func guess(c *residency.Cache, s *story, w *work, i, l int, right float64, r *rand.Rand, held []int32) []int32 {
	var wrong []touch
	if i > 0 {
		wrong = s.steps[i-1].layers[l]
	}
	per := s.units / s.layers
	for k, u := range w.layers[l] {
		unit := u.unit
		if r.Float64() >= right {
			unit = int32(l*per + r.IntN(per))
			if len(wrong) > k && r.IntN(2) == 0 {
				unit = wrong[k].unit
			}
		}
		if c.Slot(unit) != residency.Absent {
			continue
		}
		if _, _, ok := c.Guess(unit); ok {
			held = append(held, unit)
		}
	}
	return held
}

// A rival evicts the unit of the least key; keys change when units are used.
type rival struct {
	key   []float64 // [units]
	in    []bool    // [units]
	n     int
	order keyed // has each unit with its last key, and with earlier ones
}

type key struct {
	key  float64
	unit int32
}

type keyed []key

func (k keyed) Len() int { return len(k) }

func (k keyed) Less(i, j int) bool {
	return k[i].key < k[j].key || k[i].key == k[j].key && k[i].unit < k[j].unit
}

func (k keyed) Swap(i, j int) { k[i], k[j] = k[j], k[i] }

func (k *keyed) Push(v any) { *k = append(*k, v.(key)) }

func (k *keyed) Pop() any {
	last := (*k)[len(*k)-1]
	*k = (*k)[:len(*k)-1]
	return last
}

// use uses a unit, which has the key from now on, and reports whether it was there.
func (r *rival) use(unit int32, k float64, slots int) (hit bool) {
	hit = r.in[unit]
	if !hit && r.n == slots {
		for {
			out := heap.Pop(&r.order).(key)
			if r.in[out.unit] && r.key[out.unit] == out.key {
				r.in[out.unit] = false
				break
			}
		}
	} else if !hit {
		r.n++
	}
	r.key[unit], r.in[unit] = k, true
	heap.Push(&r.order, key{k, unit})
	return hit
}

// rivalled plays a story on a cache that evicts the unit with the least key. rank returns the key of a use from the
// unit, the number of the use, and the number of tokens.
func rivalled(s *story, slots int, rank func(unit int32, use int, tokens int32) float64) (t tally) {
	r := rival{key: make([]float64, s.units), in: make([]bool, s.units)}
	n := 0
	for i := range s.steps {
		w := &s.steps[i]
		counted := i >= s.after && !w.prompt
		if counted {
			t.steps++
		}
		for _, touches := range w.layers {
			for _, u := range touches {
				hit := r.use(u.unit, rank(u.unit, n, u.tokens), slots)
				n++
				if counted {
					t.uses++
					if !hit {
						t.misses++
					}
				}
			}
		}
	}
	return t
}

// leastRecently evicts the least recently used unit.
func leastRecently(s *story, slots int) tally {
	return rivalled(s, slots, func(_ int32, use int, _ int32) float64 { return float64(use) })
}

// leastOften evicts the unit that tokens used least since the beginning.
func leastOften(s *story, slots int) tally {
	counts := make([]float64, s.units)
	return rivalled(s, slots, func(unit int32, _ int, tokens int32) float64 {
		counts[unit] += float64(tokens)
		return counts[unit]
	})
}

// clairvoyant evicts the unit with the next use furthest in the future: Belady's optimum.
func clairvoyant(s *story, slots int) tally {
	var next []int
	var all []int32
	for i := range s.steps {
		for _, touches := range s.steps[i].layers {
			for _, u := range touches {
				all = append(all, u.unit)
			}
		}
	}
	next = make([]int, len(all))
	last := make([]int, s.units)
	for u := range last {
		last[u] = math.MaxInt32
	}
	for i := len(all) - 1; i >= 0; i-- {
		next[i] = last[all[i]]
		last[all[i]] = i
	}
	return rivalled(s, slots, func(_ int32, use int, _ int32) float64 { return -float64(next[use]) })
}
