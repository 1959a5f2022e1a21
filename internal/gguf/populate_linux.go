package gguf

import (
	"errors"

	"golang.org/x/sys/unix"
)

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
