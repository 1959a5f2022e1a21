package gguf

import (
	"errors"

	"golang.org/x/sys/unix"
)

// willNeed has the system begin to read b, in large parts.
func willNeed(b []byte) {
	if b = wholePages(b); len(b) > 0 {
		_ = unix.Madvise(b, unix.MADV_WILLNEED)
	}
}

// letGo takes b out of memory, or has the system take it before anything else where it may not be done at once.
func letGo(b []byte) {
	if b = wholePages(b); len(b) == 0 {
		return
	}
	if unix.Madvise(b, unix.MADV_PAGEOUT) != nil {
		_ = unix.Madvise(b, unix.MADV_COLD)
	}
}

// populate faults b in; a failing disk is an error here, and a signal where pages are touched.
func populate(b []byte) error {
	for {
		err := unix.Madvise(b, unix.MADV_POPULATE_READ)
		switch {
		case errors.Is(err, unix.EINTR), errors.Is(err, unix.EAGAIN):
			continue
		case errors.Is(err, unix.EINVAL): // before Linux 5.14
			_ = unix.Madvise(b, unix.MADV_WILLNEED)
			touch(b)
			return nil
		}
		return err
	}
}
