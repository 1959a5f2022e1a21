//go:build unix && !linux

package gguf

import "golang.org/x/sys/unix"

// willNeed has the system begin to read b.
func willNeed(b []byte) {
	if b = wholePages(b); len(b) > 0 {
		_ = unix.Madvise(b, unix.MADV_WILLNEED)
	}
}

// letGo says that b is not needed for now.
func letGo(b []byte) {
	if b = wholePages(b); len(b) > 0 {
		_ = unix.Madvise(b, unix.MADV_DONTNEED)
	}
}

// populate asks for read-ahead and then faults b in.
func populate(b []byte) error {
	_ = unix.Madvise(b, unix.MADV_WILLNEED)
	touch(b)
	return nil
}
