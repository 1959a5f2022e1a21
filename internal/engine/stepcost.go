package engine

import "time"

// stepCosts are the times of steps without prompts, by their number of tokens. They give the cost of checking a draft
// token.
type stepCosts struct {
	step int64 // steps that were observed
	of   [mostCosts]stepCost
}

type stepCost struct {
	time float64 // nanoseconds, averaged
	step int64   // when it was last observed; 0: never
}

const (
	mostCosts = 65
	// costMemory is the weight of the newest time in the averages.
	costMemory = 0.2
	// costAge is the number of steps after which a time no longer counts: texts grow, and other programs come and go.
	costAge = 512
	// usualCost is the assumed time that each further token adds to a step of one, as a share of it, before times are
	// known.
	usualCost = 0.1
)

// observe learns from a step of n tokens.
func (c *stepCosts) observe(n int, took time.Duration) {
	if n < 1 || n >= mostCosts {
		return
	}
	c.step++
	o := &c.of[n]
	if o.step == 0 || c.step-o.step > costAge {
		o.time = float64(took)
	}
	o.time += costMemory * (float64(took) - o.time)
	o.step = c.step
}

// time returns the expected time of a step of n tokens, in nanoseconds or, before the first observation, in steps of
// one token. It interpolates between observed numbers of tokens.
func (c *stepCosts) time(n int) float64 {
	n = min(n, mostCosts-1)
	below, above := c.near(n, -1), c.near(n, 1)
	switch {
	case below == 0 && above == 0:
		return 1 + usualCost*float64(n-1)
	case below == 0:
		return c.of[above].time * (1 + usualCost*float64(n-1)) / (1 + usualCost*float64(above-1))
	case above == 0:
		each := usualCost * c.of[below].time
		if less := c.near(below-1, -1); less > 0 { // as much as the last tokens that were observed
			each = max(0, (c.of[below].time-c.of[less].time)/float64(below-less))
		}
		return c.of[below].time + each*float64(n-below)
	case above == below:
		return c.of[n].time
	}
	part := float64(n-below) / float64(above-below)
	return c.of[below].time + part*(c.of[above].time-c.of[below].time)
}

// widest returns the largest number of tokens that was observed; 0: none was.
func (c *stepCosts) widest() int { return c.near(mostCosts-1, -1) }

// near returns the nearest observed number of tokens, from n on with stride by; 0: none.
func (c *stepCosts) near(n, by int) int {
	for ; n > 0 && n < mostCosts; n += by {
		if o := &c.of[n]; o.step > 0 && c.step-o.step <= costAge {
			return n
		}
	}
	return 0
}
