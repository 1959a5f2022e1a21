package speculate

import "testing"

// TestBudget: guesses that never come cost at most the share of the text's time and the credit at its beginning, however many are worth checking by their chances; those that
// come are as many as there may be after a few steps.
func TestBudget(t *testing.T) {
	const token, each, steps = 1000.0, 0.25, 4000
	cost := Cost{Step: token}
	for n := range 17 {
		cost.Times = append(cost.Times, 1+each*float64(n))
	}
	var b Budget
	lost := 0.0
	for range steps {
		n := len(b.Within(cost).Times) - 1
		loss := each * token * float64(n)
		lost += loss
		b.Note(token, -loss)
	}
	if most := share*token*steps + firstCredit*token; lost > most || lost < most/2 {
		t.Errorf("guesses lost %v of %v, want at most %v and at least half of that", lost, token*steps, most)
	}
	for range 50 { // to win credit back
		b.Note(token, 0)
	}
	for range 8 {
		n := float64(len(b.Within(cost).Times) - 1)
		b.Note(token, n*token-each*n*token)
	}
	if n := len(b.Within(cost).Times) - 1; n != 16 {
		t.Errorf("%d guesses are paid for where all come, want 16", n)
	}
	if b.Begin(); len(b.Within(cost).Times)-1 > 2 {
		t.Errorf("a new text may check %d guesses at once", len(b.Within(cost).Times)-1)
	}
}
