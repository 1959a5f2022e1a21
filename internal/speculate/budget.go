package speculate

import "sync"

// Budget bounds what guesses that do not come true cost a text in time. Tokens that are computed earn a small share of
// their time; guesses gain or lose what their step took less than its tokens would have taken one by one, or more. Only
// as many are to be checked as the credit pays for if none of them comes true. It serves many goroutines.
type Budget struct {
	mu     sync.Mutex
	opened bool
	token  float64 // nanoseconds of a token of one text, as last noted: a step's time is shared by the texts whose tokens it computes
	credit float64 // nanoseconds
}

const (
	// share is what guesses may lose of the time of tokens that are computed without them.
	share = 0.02
	// firstCredit is the credit at a text's beginning, in tokens' times, and the most that tokens earn: short texts,
	// too, are to lose little.
	firstCredit = 0.5
	// mostCredit bounds the credit, in tokens' times: texts change, so that old gains say little.
	mostCredit = 4
	// mostLoss bounds the loss of one step, in tokens' times: what took longer was another program.
	mostLoss = 4
)

// Begin says that a text begins. It may spend at most firstCredit of what others gained.
func (b *Budget) Begin() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.credit = min(b.credit, firstCredit*b.token)
}

// Within returns cost without the numbers of guesses that the credit does not pay for.
func (b *Budget) Within(cost Cost) Cost {
	b.mu.Lock()
	defer b.mu.Unlock()
	credit, full := firstCredit/float64(cost.Others+1), true // in steps, also while their time is not known
	if b.opened && cost.Step > 0 {
		credit, full = b.credit/cost.Step, b.credit >= firstCredit*b.token
	}
	n := len(cost.Times) - 1
	for n > 0 && cost.lost(n) > credit && (n > 1 || !full) { // one guess is tried at full credit, even if it costs more than can be earned
		n--
	}
	cost.Times = cost.Times[:n+1]
	return cost
}

// Note takes in a step of which a token takes so many nanoseconds alone, and what guesses gained in it; nothing was
// guessed where gained is 0.
func (b *Budget) Note(token, gained float64) {
	if token <= 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.opened {
		b.opened, b.credit = true, firstCredit*token
	}
	b.token = token
	b.credit = max(b.credit, min(b.credit+share*token, firstCredit*token))
	b.credit = min(b.credit+max(gained, -mostLoss*token), mostCredit*token)
}
