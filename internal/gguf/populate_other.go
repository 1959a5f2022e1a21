//go:build unix && !linux

package gguf

import "golang.org/x/sys/unix"

// populate asks for read-ahead and then faults b in.
func populate(b []byte) error {
	_ = unix.Madvise(b, unix.MADV_WILLNEED)
	touch(b)
	return nil
}
