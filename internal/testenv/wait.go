package testenv

import (
	"testing"
	"time"
)

// Eventually calls is until it returns true. It continues for as long as the test may run, so that a busy machine does
// not fail the test; then it fails the test with what.
func Eventually(t testing.TB, what string, is func() bool) {
	t.Helper()
	const report = 10 * time.Second // left to report the failure before go test ends the process
	var end time.Time
	if t, ok := t.(interface{ Deadline() (time.Time, bool) }); ok {
		if last, ok := t.Deadline(); ok {
			end = last.Add(-report)
		}
	}
	for ; !is(); time.Sleep(time.Millisecond) {
		if !end.IsZero() && time.Now().After(end) {
			t.Fatalf("%s: it did not come in the time that the tests have", what)
		}
	}
}
