//go:build unix

package testenv

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// ProcessorTime returns the processor time of the process so far, garbage collection included. Unlike the clock it does
// not count what other programs do meanwhile.
func ProcessorTime(t testing.TB) time.Duration {
	t.Helper()
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
