//go:build unix

package hw

import "golang.org/x/sys/unix"

// OpenFiles returns how many files, connections included, this process may have open at once; 0: no known limit.
func OpenFiles() int {
	var l unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &l) != nil || uint64(l.Cur) > 1<<30 {
		return 0
	}
	return int(l.Cur)
}
