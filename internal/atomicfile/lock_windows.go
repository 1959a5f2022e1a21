package atomicfile

import (
	"os"

	"golang.org/x/sys/windows"
)

// appending is nothing: an append handle cannot cut a file, and Windows has locks on every file system.
const appending = 0

// Lock locks f until it is closed. held: another process has locked it. The locked byte is far beyond the file's end,
// because nobody else may read locked bytes.
func Lock(f *os.File) (held bool, err error) {
	far := windows.Overlapped{OffsetHigh: 1<<31 - 1}
	err = windows.LockFileEx(windows.Handle(f.Fd()), windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, &far)
	if err == windows.ERROR_LOCK_VIOLATION || err == windows.ERROR_IO_PENDING {
		return true, nil
	}
	return false, err
}
