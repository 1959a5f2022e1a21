//go:build unix

package hw

import (
	"errors"

	"golang.org/x/sys/unix"
)

// FreeDisk returns how many bytes this user may still write to the file system of path, which must exist.
func FreeDisk(path string) (int64, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(path, &s); err != nil {
		return 0, err
	}
	return int64(s.Bavail) * int64(s.Bsize), nil
}

// DiskFull reports whether err came of a file system without room.
func DiskFull(err error) bool { return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) }
