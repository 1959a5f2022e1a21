package speculate

import (
	"math/bits"
	"sync"
)

// Cost says what guesses cost, in the time of a step with none.
type Cost struct {
	Others int       // tokens of other texts that a step computes besides, which wait for it as long
	Times  []float64 // [most+1] of a step with n tokens more than one without guesses has
	Once   float64   // what guesses take besides, however many: a copy of states, what a draft model reads before the first
	Each   float64   // what making one of them takes
	Fewest int       // guesses below which none are checked
	Step   float64   // nanoseconds of a step with none; 0: not known yet
	Again  bool      // after a wrong guess, the next step computes again the token before the guesses and those that were right
}

// with returns the time of a step that makes and checks n guesses.
func (c *Cost) with(n int) float64 {
	if n == 0 {
		return c.Times[0]
	}
	return c.Times[n] + c.Once + float64(n)*c.Each
}

// again returns what n tokens that are computed again add to the next step, which makes no guesses and copies no
// states.
func (c *Cost) again(n int) float64 {
	if !c.Again {
		return 0
	}
	return c.Times[n] - c.Times[0]
}

// lost returns what n guesses, one at least, cost if none comes.
func (c *Cost) lost(n int) float64 { return c.with(n) - c.Times[0] + c.again(1) }

// Chances say how often guesses came true, by the length of what they were guessed from. They serve many goroutines.
type Chances struct {
	mu    sync.Mutex
	class [classes]chance
}

const (
	classes = 8
	// memory is the number of checked guesses after which older ones count for a third.
	memory = 64
	// priorWeight is for how many guesses prior counts.
	priorWeight = 4
	// gain is what checking guesses must be expected to gain: less is within what cannot be measured.
	gain = 1.03
	// retry is how often guesses that seem not worth it are passed over before one is checked, which tells whether this
	// is still so.
	retry = 48
)

// prior returns the chance of guesses of a class before any was checked: a single token that stood before says little,
// many tokens much.
func prior(class int) float64 { return [classes]float64{0.2, 0.4, 0.6, 0.7, 0.8, 0.8, 0.8, 0.8}[class] }

type chance struct {
	tried, accepted float64
	passed          int // guesses that were not worth checking since the last that was checked
}

func (c *chance) of(class int) float64 {
	return (c.accepted + prior(class)*priorWeight) / (c.tried + priorWeight)
}

// classOf returns the class of guesses from so many tokens.
func classOf(length int) int { return min(bits.Len(uint(length)), classes) - 1 }

// Worth returns how many of at most so many guesses that were taken from so many tokens are to be checked: the number
// with which most tokens are expected by time.
func (c *Chances) Worth(length, most int, cost Cost) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	class := classOf(length)
	k := &c.class[class]
	p, tokens := k.of(class), float64(cost.Others+1)
	best, number, expected := gain*tokens, 0, 1.0
	again := 0.0 // steps' time for what is computed again
	most = min(most, len(cost.Times)-1)
	for n := 1; n <= most; n++ {
		again += expected * (1 - p) * cost.again(n) // n tokens, if the n-th guess is the first that is wrong
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

// Note takes in that so many guesses were checked and so many of them came true. Behind the first that does not, none
// tells anything.
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
