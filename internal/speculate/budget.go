package speculate

import "sync"

// Budget bounds what guesses that do not come true cost a text in time. Tokens that are computed earn a small share of their time; guesses gain or
// lose what their step took less than its tokens would have taken one by one, or more. While there is no credit, nothing is to be guessed. It serves many goroutines.
type Budget struct {
	mu     sync.Mutex
	opened bool
	credit float64 // nanoseconds
}

const (
	// share is what guesses may lose of the time of tokens that are computed without them.
	share = 0.02
	// mostCredit bounds the credit, in tokens' times, and is what there is of it at the beginning: texts change, so that old gains say little.
	mostCredit = 2
	// mostLoss bounds the loss of one step, in tokens' times: what took longer was another program.
	mostLoss = 4
)

// Open reports whether guesses may be checked.
func (b *Budget) Open() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return !b.opened || b.credit > 0
}

// Note takes in a step of which a token takes so many nanoseconds alone, and what guesses gained in it; nothing was guessed where gained is 0.
func (b *Budget) Note(token, gained float64) {
	if token <= 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.opened {
		b.opened, b.credit = true, mostCredit*token
	}
	b.credit = min(b.credit+share*token+max(gained, -mostLoss*token), mostCredit*token)
}
