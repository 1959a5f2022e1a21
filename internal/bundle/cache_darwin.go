package bundle

import (
	"os"

	"golang.org/x/sys/unix"
)

// direct opens an existing file to write it past the page cache; nil if its file system cannot do that.
func direct(path string) *os.File {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return nil
	}
	if _, err := unix.FcntlInt(f.Fd(), unix.F_NOCACHE, 1); err != nil {
		f.Close()
		return nil
	}
	return f
}

// toDisk and forget do nothing: macOS has no calls for ranges of a file.
func toDisk(*os.File, int64, int64) {}
func forget(*os.File, int64, int64) {}
