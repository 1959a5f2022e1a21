package pool

import "golang.org/x/sys/unix"

// preempted reports whether the calling thread was taken off its core although it had work, since the call that left
// last. A thread that waited for a page of a file was not. It also reports true when the goroutine has moved to another
// thread since, and for what happened between regions; a trial that begins for such a reason changes nothing.
func preempted(last *int64) bool {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_THREAD, &u) != nil {
		return false
	}
	before := *last
	*last = u.Nivcsw
	return u.Nivcsw != before
}
