package monotime

import (
	"testing"
	"time"
)

// finest is what a reading must resolve: a hand-off to a GPU takes tens of microseconds.
const finest = 10 * time.Microsecond

// TestFine: readings never go back, and some differ by less than finest, although package time's may be equal.
func TestFine(t *testing.T) {
	least := time.Hour
	for last, n := Now(), 0; n < 100_000; n++ {
		now := Now()
		if now < last {
			t.Fatalf("%v after %v", now, last)
		}
		if now > last {
			least = min(least, now-last)
		}
		last = now
	}
	if least > finest {
		t.Errorf("two readings differ by %v or not at all; want %v or less", least, finest)
	}
}

// coarse is what package time may be wrong by on Windows.
const coarse = 16 * time.Millisecond

// TestUnit: seconds are the system's: each clock's reading of a sleep is within the other's reading of a slightly
// longer time.
func TestUnit(t *testing.T) {
	const slept = 3 * coarse
	ours, theirs := Now(), time.Now()
	inner := Now()
	time.Sleep(slept)
	within := Since(inner)
	system := time.Since(theirs)
	around := Since(ours)
	if within > system+coarse || system > around+coarse || within < slept-coarse {
		t.Errorf("%v, then %v by package time, then %v; slept %v", within, system, around, slept)
	}
}
