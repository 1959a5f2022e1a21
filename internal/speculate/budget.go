package speculate

import "sync"

// Budget bounds the time that a text loses to wrong drafts. Each computed token earns a small share of its time. A step
// with drafts adds what it gained, compared with computing its tokens one by one, or subtracts what it lost. Only as
// many tokens are checked as the credit pays for if all of them are wrong. Safe for concurrent use.
type Budget struct {
	mu     sync.Mutex
	opened bool
	token  float64 // nanoseconds of a token of one text, as last noted; a step's time is shared by the texts in it
	credit float64 // nanoseconds
}

const (
	// share is the part of the time of tokens that wrong drafts may cost.
	share = 0.02
	// firstCredit is the credit at the beginning of a text, in times of a token, and the most that tokens earn, so that
	// short texts lose little, too.
	firstCredit = 0.5
	// mostCredit bounds the credit, in times of a token: texts change, so old gains say little.
	mostCredit = 4
	// mostLoss bounds the loss of one step, in times of a token: a longer delay comes from another program.
	mostLoss = 4
)

// Begin starts a text. It may spend at most firstCredit of what others gained.
func (b *Budget) Begin() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.credit = min(b.credit, firstCredit*b.token)
}

// Within returns cost without the draft lengths that the credit does not pay for.
func (b *Budget) Within(cost Cost) Cost {
	b.mu.Lock()
	defer b.mu.Unlock()
	credit, full := firstCredit/float64(cost.Others+1), true // in steps; used while the time of a step is unknown
	if b.opened && cost.Step > 0 {
		credit, full = b.credit/cost.Step, b.credit >= firstCredit*b.token
	}
	n := len(cost.Times) - 1
	for n > 0 && cost.lost(n) > credit && (n > 1 || !full) { // one drafted token is tried at full credit, even if it costs more than can be earned
		n--
	}
	cost.Times = cost.Times[:n+1]
	return cost
}

// Note adds a step: the nanoseconds of a token alone, and the gain by drafts in the step; 0 without drafts.
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
