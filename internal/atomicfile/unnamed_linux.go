package atomicfile

import (
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// createUnnamed creates a file in dir without a name, until nameIt gives it one, so that nothing is left however the
// process ends. nil: the file system or the kernel has no such files.
func createUnnamed(dir string, mode uint32) *os.File {
	if _, err := os.Stat("/proc/self/fd"); err != nil {
		return nil // a name is given through it
	}
	fd, err := unix.Open(dir, unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, mode)
	if err != nil {
		return nil
	}
	return os.NewFile(uintptr(fd), filepath.Join(dir, "(unnamed)"))
}

// nameIt gives an unnamed file a name. The name must be free.
func nameIt(f *os.File, name string) error {
	for {
		err := unix.Linkat(unix.AT_FDCWD, fmt.Sprintf("/proc/self/fd/%d", f.Fd()), unix.AT_FDCWD, name, unix.AT_SYMLINK_FOLLOW)
		if err != unix.EINTR {
			return err
		}
	}
}
