package sample

import "math"

// candidate is a token still in the running.
type candidate struct {
	id     int32
	logit  float32 // never NaN
	weight float64 // unnormalised probability, as the last weigh set it
}

// order says whether a comes before b; a total order, so that results do not depend on the algorithm.
type order func(a, b *candidate) bool

// better puts higher logits first, and lower ids first among equal ones.
func better(a, b *candidate) bool {
	return a.logit > b.logit || a.logit == b.logit && a.id < b.id
}

func worse(a, b *candidate) bool { return better(b, a) }

// heapify makes c a heap with the first candidate in the order as its root.
func heapify(c []candidate, before order) {
	for i := len(c)/2 - 1; i >= 0; i-- {
		siftDown(c, i, before)
	}
}

func siftDown(c []candidate, i int, before order) {
	for {
		child := 2*i + 1
		if child >= len(c) {
			return
		}
		if child+1 < len(c) && before(&c[child+1], &c[child]) {
			child++
		}
		if !before(&c[child], &c[i]) {
			return
		}
		c[i], c[child] = c[child], c[i]
		i = child
	}
}

// topK appends to c the k highest logits [n_vocab], in no particular order; k <= 0 takes all. The worst of the best so
// far is a heap's root, so that nearly every logit costs one comparison.
func topK(c []candidate, logits []float32, k int) []candidate {
	if k <= 0 || k > len(logits) {
		k = len(logits)
	}
	for id, l := range logits[:k] {
		if l != l {
			l = negInf
		}
		c = append(c, candidate{id: int32(id), logit: l})
	}
	if k == len(logits) {
		return c
	}
	heapify(c, worse)
	floor := c[0].logit
	for i, l := range logits[k:] {
		if l > floor { // false for NaN, and for an equal logit of a higher id
			c[0] = candidate{id: int32(k + i), logit: l}
			siftDown(c, 0, worse)
			floor = c[0].logit
		}
	}
	return c
}

// weigh sets the weights to exp((logit - highest) / temperature) and returns their sum, at least 1: the best candidate
// has weight 1. Infinite highest logits share everything.
func weigh(c []candidate, highest float32, temperature float64) float64 {
	var sum float64
	for i := range c {
		c[i].weight = 1
		if c[i].logit != highest {
			c[i].weight = math.Exp((float64(c[i].logit) - float64(highest)) / temperature)
		}
		sum += c[i].weight
	}
	return sum
}
