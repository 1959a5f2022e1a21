//go:build unix

package disk

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Device names the file system of path, which must exist: its type, number and size.
func Device(path string) (string, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(path, &s); err != nil {
		return "", &os.PathError{Op: "statfs", Path: path, Err: err}
	}
	return fmt.Sprintf("%x %v %d", s.Type, s.Fsid, uint64(s.Blocks)*uint64(s.Bsize)), nil
}
