package speculate

import (
	"math/bits"
	"sync"
)

// Cost is the cost of drafts, in times of a step without them.
type Cost struct {
	Others int       // tokens of other texts in the step, which wait for it as long
	Times  []float64 // [most+1] time of a step that checks n drafted tokens
	Once   float64   // time of a draft of any length: copying states, a draft model's reading before its first token
	Each   float64   // time of drafting one token
	Fewest int       // the shortest draft that is checked
	Step   float64   // nanoseconds of a step without drafts; 0: not known yet
	Again  bool      // after a wrong token the next step computes again the token before the draft and the accepted ones
}

// with returns the time of a step that drafts and checks n tokens.
func (c *Cost) with(n int) float64 {
	if n == 0 {
		return c.Times[0]
	}
	return c.Times[n] + c.Once + float64(n)*c.Each
}

// again returns the time that computing n tokens again adds to the next step, which drafts nothing and copies no
// states.
func (c *Cost) again(n int) float64 {
	if !c.Again {
		return 0
	}
	return c.Times[n] - c.Times[0]
}

// lost returns the cost of n drafted tokens, n >= 1, if none is accepted.
func (c *Cost) lost(n int) float64 { return c.with(n) - c.Times[0] + c.again(1) }

// Chances counts how often drafted tokens were accepted, by the length of the match that they came from. Safe for
// concurrent use.
type Chances struct {
	mu    sync.Mutex
	class [classes]chance
}

const (
	classes = 8
	// memory is the number of checked tokens after which older ones count for a third.
	memory = 64
	// priorWeight is the number of checked tokens that prior counts for.
	priorWeight = 4
	// gain is the least expected gain of a check; less cannot be measured.
	gain = 1.03
	// retry is the number of drafts passed over as not worth it before one is checked, to see whether that is still so.
	retry = 48
)

// prior returns the chance of a class before anything was checked: a match of one token says little, a long one much.
func prior(class int) float64 { return [classes]float64{0.2, 0.4, 0.6, 0.7, 0.8, 0.8, 0.8, 0.8}[class] }

type chance struct {
	tried, accepted float64
	passed          int // drafts not worth checking since the last that was checked
}

func (c *chance) of(class int) float64 {
	return (c.accepted + prior(class)*priorWeight) / (c.tried + priorWeight)
}

// classOf returns the class of drafts from a match of this length.
func classOf(length int) int { return min(bits.Len(uint(length)), classes) - 1 }

// Worth returns how many tokens of a draft of at most this length, from a match of this length, to check: the number
// with the most expected tokens per second.
func (c *Chances) Worth(length, most int, cost Cost) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	class := classOf(length)
	k := &c.class[class]
	p, tokens := k.of(class), float64(cost.Others+1)
	best, number, expected := gain*tokens, 0, 1.0
	again := 0.0 // time of computing tokens again
	most = min(most, len(cost.Times)-1)
	for n := 1; n <= most; n++ {
		again += expected * (1 - p) * cost.again(n) // n tokens, if the n-th drafted token is the first wrong one
		expected *= p
		tokens += expected
		if speed := tokens / (cost.with(n) + again); n >= cost.Fewest && speed > best {
			best, number = speed, n
		}
	}
	if least := max(1, cost.Fewest); number == 0 && most >= least {
		if k.passed++; k.passed >= retry {
			number = least
		}
	}
	if number > 0 {
		k.passed = 0
	}
	return number
}

// Note adds a check of this many tokens and how many were accepted. Tokens after the first wrong one say nothing.
func (c *Chances) Note(length, drafted, accepted int) {
	if drafted == 0 || length == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	k := &c.class[classOf(length)]
	k.tried += float64(min(accepted+1, drafted))
	k.accepted += float64(accepted)
	if k.tried > memory {
		k.accepted *= memory / k.tried
		k.tried = memory
	}
}
