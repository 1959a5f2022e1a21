package testenv

import (
	"testing"
	"time"
)

// Eventually returns once is reports true. It asks again and again for as long as the test may run, so that no busy
// machine fails it; then it fails the test with what.
func Eventually(t testing.TB, what string, is func() bool) {
	t.Helper()
	const report = 10 * time.Second // is left to say what did not come, before go test ends the process
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
