//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package atomicfile

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// appending makes every write go to the end, also if a file system has no locks and another process writes.
const appending = unix.O_APPEND

// Lock locks f until it is closed. held: another process has locked it. On a file system without locks it does nothing.
func Lock(f *os.File) (held bool, err error) {
	for {
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err != unix.EINTR {
			break
		}
	}
	switch {
	case err == unix.EWOULDBLOCK:
		return true, nil
	case err == unix.ENOLCK, err == unix.EINVAL, errors.Is(err, errors.ErrUnsupported):
		return false, nil
	}
	return false, err
}
