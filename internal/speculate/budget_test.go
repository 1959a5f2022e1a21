package speculate

import "testing"

// TestBudget: guesses that never come cost at most the share of the text's time and what there was of credit; those that gain are never refused.
func TestBudget(t *testing.T) {
	const token, loss, steps = 1000.0, 250.0, 4000
	var b Budget
	lost := 0.0
	for range steps {
		if b.Open() {
			lost += loss
			b.Note(token, -loss)
		} else {
			b.Note(token, 0)
		}
	}
	if most := share*token*steps + mostCredit*token + loss; lost > most || lost < most/2 {
		t.Errorf("guesses lost %v of %v, want at most %v and at least half of that", lost, token*steps, most)
	}
	for range 200 { // to win credit back
		b.Note(token, 0)
	}
	for range steps {
		if !b.Open() {
			t.Fatal("guesses that gain are refused")
		}
		b.Note(token, loss)
	}
}
