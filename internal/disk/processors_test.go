package disk

import (
	"runtime"
	"testing"
)

// TestProcessors: readers beside computing have two more of Go's processors, together, until the last one is closed; a
// number that others set meanwhile stays.
func TestProcessors(t *testing.T) {
	before := runtime.GOMAXPROCS(0)
	defer runtime.GOMAXPROCS(before)
	check := func(want int) {
		t.Helper()
		if n := runtime.GOMAXPROCS(0); n != want {
			t.Errorf("%d processors, want %d", n, want)
		}
	}
	a, b, other := newReader(t, 1), newReader(t, 1), newReader(t, 1)
	check(before)
	a.BesideComputing()
	a.BesideComputing()
	b.BesideComputing()
	check(before + readProcessors)
	a.Close()
	a.Close()
	other.Close()
	check(before + readProcessors)
	b.Close()
	check(before)
	c := newReader(t, 1)
	c.BesideComputing()
	runtime.GOMAXPROCS(before + 5)
	c.Close()
	check(before + 5)
}
