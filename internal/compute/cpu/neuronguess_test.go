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
	p = guessPay{}
	if n := count(320, 32*time.Millisecond, 30*time.Millisecond); n < 290 {
		t.Errorf("guesses in %d of 320 steps, which differ by less than steps do by chance", n)
	}
	p = guessPay{}
	count(40, 2*time.Millisecond, 3*time.Millisecond)
	for p.without {
		count(1, 2*time.Millisecond, 3*time.Millisecond)
	}
	count(1, time.Minute, time.Minute)
	if n := count(160, 2*time.Millisecond, 3*time.Millisecond); n < 120 {
		t.Errorf("guesses in %d of 160 steps after one in which the machine slept", n)
	}
	if n := countFewer(); n < 290 {
		t.Errorf("guesses in %d of 320 steps, which they make faster, and fewer neurons are read from step to step", n)
	}
}

// countFewer counts the guesses of 320 steps that take two thirds of the time with guesses, while fewer and fewer
// neurons must be read.
func countFewer() (guessed int) {
	var p guessPay
	for i := range 320 {
		p.read = int64(1000 - 3*i)
		if p.took = time.Duration(p.read) * 3 * time.Microsecond; !p.without {
			p.took = p.took * 2 / 3
			guessed++
		}
		p.step()
	}
	return guessed
}
