package sample

import (
	"math"
	"slices"
)

// pool is the tokens still in the running. While none was dropped they are logits; later, or where a stage needs them
// one by one, candidates. What stages see is a logit divided by temperature.
type pool struct {
	logits      []float32   // [n_vocab]; nil once c has the tokens
	c           []candidate // in no particular order
	highest     float32     // logit in c
	temperature float64
}

// fill turns logits into candidates, only the k highest if k > 0.
func (p *pool) fill(k int) {
	if p.logits == nil {
		return
	}
	p.c = topK(p.c[:0], p.logits, k)
	p.logits = nil
	p.findHighest()
}

func (p *pool) findHighest() {
	p.highest = p.c[0].logit
	for i := range p.c {
		p.highest = max(p.highest, p.c[i].logit)
	}
}

// settle divides the logits by the temperature, for stages that add to them.
func (p *pool) settle() {
	if p.temperature == 1 {
		return
	}
	for i, l := range p.logits {
		p.logits[i] = float32(float64(l) / p.temperature)
	}
	if p.logits == nil {
		for i := range p.c {
			p.c[i].logit = float32(float64(p.c[i].logit) / p.temperature)
		}
		p.findHighest()
	}
	p.temperature = 1
}

// weigh sets the weights of the candidates, the best one's to 1, and returns their sum.
func (p *pool) weigh() float64 { return weigh(p.c, p.highest, p.temperature) }

// surprise returns the negative natural logarithm of a candidate's probability. norm is the logarithm of the weights'
// sum.
func (p *pool) surprise(c *candidate, norm float64) float64 {
	if c.logit == p.highest {
		return norm
	}
	return norm - (float64(c.logit)-float64(p.highest))/p.temperature
}

// entropy returns the entropy of the candidates in nats, and the sum of their weights.
func (p *pool) entropy() (entropy, sum float64) {
	sum = p.weigh()
	norm := math.Log(sum)
	for i := range p.c {
		if w := p.c[i].weight; w > 0 {
			entropy += w / sum * p.surprise(&p.c[i], norm)
		}
	}
	return entropy, sum
}

// keepBest drops all but the best token.
func (p *pool) keepBest() {
	id := p.best()
	for _, c := range p.c {
		if c.id == id {
			p.c = append(p.c[:0], c)
			return
		}
	}
}

// best returns the token of the highest logit, of several the lowest; 0 if every token is banned.
func (p *pool) best() int32 {
	if p.logits != nil {
		return argmax(p.logits)
	}
	best := p.c[0]
	for i := range p.c {
		if better(&p.c[i], &best) {
			best = p.c[i]
		}
	}
	if best.logit == negInf {
		return 0
	}
	return best.id
}

// argmax returns the lowest id of the highest logit; NaN is never higher. The search goes by value first: carrying the
// index along would take twice as long.
func argmax(logits []float32) int32 {
	highest := negInf
	for _, l := range logits {
		if l > highest {
			highest = l
		}
	}
	if highest == negInf {
		return 0
	}
	return int32(slices.Index(logits, highest))
}
