package monotime

import (
	"testing"
	"time"
)

// finest is what a reading must resolve: a hand-off to a GPU takes tens of microseconds.
const finest = 10 * time.Microsecond

// Readings never go back, and while any two of package time's may be the same, some of many lie less than finest apart.
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

// A second is the system's: each clock's reading of a sleep lies within the other's reading of a little more.
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
