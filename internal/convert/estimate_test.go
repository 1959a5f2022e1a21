package convert

import (
	"testing"
	"time"
)

// TestEstimateDone compares the estimate after some bytes with sums by hand, and the total with the sum over all
// tensors.
func TestEstimateDone(t *testing.T) {
	e := Estimate{Time: 111 * time.Second, steps: []step{{100, 10 * time.Second}, {50, 100 * time.Second}, {0, 0}, {1000, time.Second}}}
	for bytes, want := range map[int64]time.Duration{
		0: 0, 50: 5 * time.Second, 100: 10 * time.Second, 101: 12 * time.Second, 150: 110 * time.Second, 650: 110*time.Second + 500*time.Millisecond, 1150: e.Time, 9999: e.Time,
	} {
		if got := e.Done(bytes); got != want {
			t.Errorf("%d bytes: %s, want %s", bytes, got, want)
		}
	}
}
