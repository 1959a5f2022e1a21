package speculate

import "testing"

// TestBudget: drafts that are never right cost at most their share of the text's time and the initial credit, whatever
// their chances promise. Right drafts reach the maximum after a few steps.
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

// TestBudgetOfManyTexts: a step with other texts' tokens takes several times as long as one text's share of it. With
// full credit, one draft is tried whatever it costs, and drafts that are never accepted cost no more than allowed.
func TestBudgetOfManyTexts(t *testing.T) {
	const step, others, each, steps = 4000.0, 3, 0.3, 4000
	const token = step / (others + 1)
	cost := Cost{Step: step, Others: others, Times: []float64{1, 1 + each, 1 + 2*each}}
	var b Budget
	b.Note(token, 0)
	if n := len(b.Within(cost).Times) - 1; n != 1 {
		t.Errorf("%d guesses are paid for at full credit, want 1", n)
	}
	lost := 0.0
	for range steps {
		n := len(b.Within(cost).Times) - 1
		loss := each * step * float64(n)
		lost += loss
		b.Note(token, -loss)
	}
	if most := share*token*steps + firstCredit*token + each*step; lost > most || lost < most/2 {
		t.Errorf("guesses lost %v of a text's %v, want at most %v and at least half of that", lost, token*steps, most)
	}
}

// TestCopyCostsOnce: the time of copying states counts for the step with drafts, not for the one that computes tokens
// again.
func TestCopyCostsOnce(t *testing.T) {
	const token, each, states = 1000.0, 0.1, 0.15
	cost := Cost{Step: token, Again: true, Once: states}
	for n := range 5 {
		cost.Times = append(cost.Times, 1+each*float64(n))
	}
	var b Budget
	b.Note(token, 0)
	// Two drafts take 0.2 and the copy 0.15 of a step, and the token that is computed again 0.1. Of half a step of
	// credit, that leaves nothing for a third.
	if n := len(b.Within(cost).Times) - 1; n != 2 {
		t.Errorf("half a step pays for %d guesses, want 2", n)
	}
	// By their prior chance of 0.8, eight drafts and the token before them give 4.3 tokens, in 1.16 steps, a copy's 1.9
	// and 0.1 of tokens computed again: 1.4 times as many by time.
	cost = Cost{Step: token, Again: true, Once: 1.9}
	for n := range 9 {
		cost.Times = append(cost.Times, 1+0.02*float64(n))
	}
	if n := new(Chances).Worth(64, 8, cost); n != 8 {
		t.Errorf("%d guesses are worth a copy, want 8", n)
	}
}

// TestFewest: if two drafts are worth most, a minimum of three checks three, as long as three are worth more than none.
func TestFewest(t *testing.T) {
	cheap, dear := []float64{1, 1.1, 1.2, 1.6, 3}, []float64{1, 1.1, 1.2, 4, 5}
	for _, c := range []struct {
		times              []float64
		fewest, most, want int
	}{{cheap, 0, 4, 2}, {cheap, 2, 4, 2}, {cheap, 3, 4, 3}, {cheap, 3, 2, 0}, {dear, 3, 4, 0}} {
		if n := new(Chances).Worth(64, c.most, Cost{Times: c.times, Fewest: c.fewest}); n != c.want {
			t.Errorf("times %v, %d guesses at least, %d at most: %d are checked, want %d", c.times, c.fewest, c.most, n, c.want)
		}
	}
}
