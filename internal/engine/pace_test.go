package engine

import (
	"testing"
	"time"
)

// TestSleep: a step in which the machine slept for an hour hardly changes what is expected of later ones.
func TestSleep(t *testing.T) {
	var p pace
	var c stepCosts
	for range 40 {
		p.observe(1, 0, 30*time.Millisecond)
		p.observe(1, 16, 60*time.Millisecond)
		p.observe(0, 512, 900*time.Millisecond)
		c.observe(1, 30*time.Millisecond)
		c.observe(5, 40*time.Millisecond)
	}
	const most = 512
	usual := p.chunk(most)
	for _, step := range [][2]int{{1, 0}, {1, 16}, {0, 512}} {
		slept := p
		slept.observe(step[0], step[1], time.Hour)
		if n := slept.chunk(most); n < usual/3 || n > 3*usual {
			t.Errorf("after a step of %d single tokens and %d of a prompt: %d tokens of a prompt at a time, before %d", step[0], step[1], n, usual)
		}
	}
	for _, n := range []int{1, 5} {
		slept := c
		slept.observe(n, time.Hour)
		if took := slept.time(n); took > 2*c.time(n) {
			t.Errorf("a step of %d tokens is expected to take %v, before %v", n, time.Duration(took), time.Duration(c.time(n)))
		}
	}
}
