package cpu

import (
	"testing"
	"time"
)

// TestGuessesPay: guesses are made in most steps where they are the faster way, and in few where they are not; a change
// is noticed.
func TestGuessesPay(t *testing.T) {
	var p guessPay
	count := func(steps int, with, without time.Duration) (guessed int) {
		for range steps {
			if p.took = without; !p.without {
				p.took = with
				guessed++
			}
			p.step()
		}
		return guessed
	}
	if n := count(320, 2*time.Millisecond, 3*time.Millisecond); n < 290 || n == 320 {
		t.Errorf("guesses in %d of 320 steps, which they make faster", n)
	}
	if n := count(320, 4*time.Millisecond, 3*time.Millisecond); n > 60 {
		t.Errorf("guesses in %d of 320 steps, which they make slower", n)
	}
	if n := count(640, 2*time.Millisecond, 3*time.Millisecond); n < 400 {
		t.Errorf("guesses in %d of 640 steps, which they make faster again", n)
	}
}
