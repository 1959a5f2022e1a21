package sample

import "math"

// cutTopK keeps the k best tokens.
func (p *pool) cutTopK(k int) {
	if p.logits != nil {
		p.fill(k)
		return
	}
	if k >= len(p.c) {
		return
	}
	kept := p.c[:k]
	heapify(kept, worse)
	for i := k; i < len(p.c); i++ {
		if better(&p.c[i], &kept[0]) {
			kept[0] = p.c[i]
			siftDown(kept, 0, worse)
		}
	}
	p.c = kept
}

// cutTopP keeps the fewest of the best tokens with probabilities that add up to at least share, but at least least, or
// one (nucleus sampling, Holtzman et al., arXiv:1904.09751).
func (p *pool) cutTopP(share float32, least int) {
	p.fill(0)
	p.c = fewest(p.c, float64(share)*p.weigh(), least, better)
}

// fewest returns the first candidates in the order with weights that add up to at least want, but at least least, or
// one. It reorders c.
func fewest(c []candidate, want float64, least int, before order) []candidate {
	heapify(c, before)
	var sum float64
	for rest := len(c); rest > 0; {
		sum += c[0].weight
		rest--
		c[0], c[rest] = c[rest], c[0]
		if sum >= want && len(c)-rest >= least {
			return c[rest:]
		}
		siftDown(c[:rest], 0, before)
	}
	return c
}

// cutMinP keeps, in place, the tokens with at least share times the highest probability (arXiv:2407.01082), but at
// least the best least tokens.
func (p *pool) cutMinP(share float32, least int) {
	p.fill(0)
	floor := float64(p.highest) + p.temperature*math.Log(float64(share))
	n := 0
	for i := range p.c {
		if float64(p.c[i].logit) >= floor {
			n++
		}
	}
	if n < least {
		p.cutTopK(least)
		return
	}
	p.keepFrom(floor)
}

// keepFrom keeps, in place, the candidates of a logit of at least floor.
func (p *pool) keepFrom(floor float64) {
	kept := p.c[:0]
	for i := range p.c {
		if float64(p.c[i].logit) >= floor {
			kept = append(kept, p.c[i])
		}
	}
	p.c = kept
}

// cutSigma keeps the tokens with logits at most n standard deviations below the highest (arXiv:2411.07641). Banned
// tokens do not count. The temperature does not matter.
func (p *pool) cutSigma(n float32) {
	p.fill(0)
	if math.IsInf(float64(p.highest), 0) {
		return // no deviation
	}
	var count, sum, squares float64 // over distances from the highest logit, which keeps the numbers small
	for i := range p.c {
		if l := p.c[i].logit; l != negInf {
			d := float64(p.highest) - float64(l)
			count, sum, squares = count+1, sum+d, squares+d*d
		}
	}
	mean := sum / count
	deviation := math.Sqrt(max(0, squares/count-mean*mean))
	p.keepFrom(float64(p.highest) - float64(n)*deviation)
}

// cutTypical keeps the fewest tokens with probabilities that add up to at least share, in the order of the distance of
// their surprise from the entropy (locally typical sampling, Meister et al., arXiv:2202.00666).
func (p *pool) cutTypical(share float32, least int) {
	p.fill(0)
	if math.IsInf(float64(p.highest), 0) {
		return
	}
	entropy, sum := p.entropy()
	norm := math.Log(sum)
	p.c = fewest(p.c, float64(share)*sum, least, func(a, b *candidate) bool {
		x, y := math.Abs(p.surprise(a, norm)-entropy), math.Abs(p.surprise(b, norm)-entropy)
		return x < y || x == y && better(a, b)
	})
	p.findHighest()
}

// excludeTop removes, in place, all tokens of at least a threshold's probability except the least likely of them
// ("exclude top choices"). It removes none if fewer than least would stay.
func (p *pool) excludeTop(threshold float32, least int) {
	p.fill(0)
	floor := float64(threshold) * p.weigh()
	last, n := -1, 0
	for i := range p.c {
		if p.c[i].weight >= floor {
			n++
			if last < 0 || better(&p.c[last], &p.c[i]) {
				last = i
			}
		}
	}
	if n < 2 || len(p.c)-n+1 < least {
		return
	}
	kept := p.c[:0]
	for i := range p.c {
		if i == last || p.c[i].weight < floor {
			kept = append(kept, p.c[i])
		}
	}
	p.c = kept
	p.findHighest()
}

// heat divides the logits by a temperature that rises with their entropy: see Options.Temperature.
func (p *pool) heat(o *Options) {
	if o.DynamicRange <= 0 {
		p.temperature *= float64(o.Temperature)
		return
	}
	p.fill(0)
	possible := 0
	for i := range p.c {
		if p.c[i].logit != negInf {
			possible++
		}
	}
	if possible < 2 {
		return
	}
	low := max(0, float64(o.Temperature)-float64(o.DynamicRange))
	high := float64(o.Temperature) + float64(o.DynamicRange)
	entropy, _ := p.entropy()
	share := min(1, entropy/math.Log(float64(possible)))
	t := low + (high-low)*math.Pow(share, float64(o.DynamicExponent))
	if t <= 0 {
		p.keepBest()
		return
	}
	p.temperature *= t
}
