package bundle

import (
	"os"

	"golang.org/x/sys/unix"
)

// direct opens an existing file to write it past the page cache; nil if its file system cannot do that.
func direct(path string) *os.File {
	f, err := os.OpenFile(path, os.O_WRONLY|unix.O_DIRECT, 0)
	if err != nil {
		return nil
	}
	return f
}

// toDisk has bytes that were written go to the disk, without waiting for that.
func toDisk(f *os.File, at, n int64) {
	_ = unix.SyncFileRange(int(f.Fd()), at, n, unix.SYNC_FILE_RANGE_WRITE)
}

// forget lets the page cache's copy of bytes go that were written, once they are on the disk.
func forget(f *os.File, at, n int64) {
	if n == 0 { // it would mean everything that follows
		return
	}
	_ = unix.SyncFileRange(int(f.Fd()), at, n, unix.SYNC_FILE_RANGE_WAIT_BEFORE|unix.SYNC_FILE_RANGE_WRITE|unix.SYNC_FILE_RANGE_WAIT_AFTER)
	_ = unix.Fadvise(int(f.Fd()), at, n, unix.FADV_DONTNEED)
}
