package sample

import (
	"math"
	"slices"
)

// choose returns one of the tokens left in the pool.
func (s *Sampler) choose() int32 {
	p := &s.pool
	if s.choice == takesBest {
		return p.best()
	}
	r := s.uniform()
	p.fill(0)
	if p.highest == negInf {
		return 0
	}
	switch s.choice {
	case mirostats:
		return s.mirostat(r)
	case adapts:
		return s.adapt(r)
	}
	return p.c[draw(p.c, r*p.weigh())].id
}

// uniform returns a number in [0, 1) with every bit of a float64's 53.
func (s *Sampler) uniform() float64 { return float64(s.rng.Uint64()>>11) / (1 << 53) }

// draw returns the index of the candidate at target along the cumulative weights, target in [0, sum of weights].
func draw(c []candidate, target float64) int {
	var sum float64
	for i := range c {
		if sum += c[i].weight; target < sum {
			return i
		}
	}
	// Rounding took target to the sum itself: the best candidate is never of weight zero.
	best := 0
	for i := range c {
		if better(&c[i], &c[best]) {
			best = i
		}
	}
	return best
}

// feedback holds what mirostat and adaptive-p remember about the tokens that they chose and that were accepted.
type feedback struct {
	limit       float64 // mirostat's mu, in bits
	sum, weight float64 // adaptive-p's average probability is sum / weight
	chosen      int32   // not yet accepted; -1: none
	probability float64 // probability of chosen, before the choice changed any
}

func (s *Sampler) resetFeedback() {
	memory := 1 / (1 - float64(s.options.Adaptive.Decay))
	s.feedback = feedback{
		limit: 2 * float64(s.options.Mirostat.Tau), sum: float64(s.options.Adaptive.Target) * memory, weight: memory, chosen: -1,
	}
}

// learn takes a chosen token's probability into account once it is accepted.
func (s *Sampler) learn(id int32) {
	f, o := &s.feedback, &s.options
	if id != f.chosen {
		return
	}
	f.chosen = -1
	switch s.choice {
	case mirostats:
		f.limit -= float64(o.Mirostat.Eta) * (-math.Log2(f.probability) - float64(o.Mirostat.Tau))
	case adapts:
		f.sum = f.probability + float64(o.Adaptive.Decay)*f.sum
		f.weight = 1 + float64(o.Adaptive.Decay)*f.weight
	}
}

// mirostat draws from the best tokens, and chooses their number so that the surprise approaches its target (Basu et
// al., arXiv:2007.14966). Version 2 keeps the tokens with a surprise of at most the limit. Version 1 keeps a number
// that follows from the limit and an estimate of Zipf's exponent. The limit moves by the error of the surprise under
// the model's own probabilities, as in the paper; llama.cpp takes the probabilities after the cut.
func (s *Sampler) mirostat(r float64) int32 {
	p := &s.pool
	all := p.weigh()
	if s.options.Mirostat.Version == 1 {
		p.c = zipf(p.c, s.feedback.limit, s.nVocab)
	} else if floor := all * math.Exp2(-s.feedback.limit); floor > 1 {
		p.keepBest()
	} else {
		p.c = slices.DeleteFunc(p.c, func(c candidate) bool { return c.weight < floor })
	}
	var kept float64
	for i := range p.c {
		kept += p.c[i].weight
	}
	chosen := &p.c[draw(p.c, r*kept)]
	s.feedback.chosen, s.feedback.probability = chosen.id, chosen.weight/all
	return chosen.id
}

// zipfTokens is the number of best tokens that the exponent is estimated from, as in the paper and in llama.cpp.
const zipfTokens = 100

// zipf returns the best tokens, as many as mirostat 1 keeps for a limit in bits. It reorders c, which has weights.
func zipf(c []candidate, limit float64, nVocab int) []candidate {
	heapify(c, better)
	rest := len(c) // c[rest:] are the best ones, the very best last
	next := func() {
		rest--
		c[0], c[rest] = c[rest], c[0]
		siftDown(c[:rest], 0, better)
	}
	var tb, tt float64
	for i := 0; i < zipfTokens && rest > 0; i++ {
		next()
		if i == 0 {
			continue
		}
		if c[rest].weight == 0 {
			break
		}
		t := math.Log(float64(i+1) / float64(i))
		tb += t * math.Log(c[rest+1].weight/c[rest].weight)
		tt += t * t
	}
	exponent := tb / tt
	above := exponent - 1
	k := math.Pow(above*math.Exp2(limit)/(1-math.Pow(float64(nVocab), -above)), 1/exponent)
	if !(k >= 1) { // also NaN, of a single token
		k = 1
	}
	want := int(math.Min(k, float64(len(c))))
	for len(c)-rest < want {
		next()
	}
	return c[len(c)-want:]
}

// The transformation of adaptive-p: logits fall from the target as distance^2 / (1 + distance), in units of
// adaptiveWidth of probability.
const (
	adaptiveWidth     = 0.3
	adaptiveSharpness = 10
)

// adapt draws near the probability that brings the average of the chosen ones to the target (llama.cpp pull request
// 17927).
func (s *Sampler) adapt(r float64) int32 {
	p, f := &s.pool, &s.feedback
	target := 2*float64(s.options.Adaptive.Target) - f.sum/f.weight
	target = min(1, max(0, target))
	all := p.weigh()
	var sum float64
	for i := range p.c {
		c := &p.c[i]
		if c.logit == negInf {
			c.weight = 0
			continue
		}
		distance := math.Abs(c.weight/all-target) / adaptiveWidth
		c.weight = math.Exp(-adaptiveSharpness * distance * distance / (1 + distance))
		sum += c.weight
	}
	chosen := &p.c[draw(p.c, r*sum)]
	f.chosen, f.probability = chosen.id, math.Exp(-p.surprise(chosen, math.Log(all)))
	return chosen.id
}
