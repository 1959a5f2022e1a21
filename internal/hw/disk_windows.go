package hw

import (
	"errors"

	"golang.org/x/sys/windows"
)

// FreeDisk returns how many bytes this user may still write to the volume of path, which must exist.
func FreeDisk(path string) (int64, error) {
	name, err := windows.UTF16PtrFromString(path)
	if err != nil {
		return 0, err
	}
	var free uint64
	if err := windows.GetDiskFreeSpaceEx(name, &free, nil, nil); err != nil {
		return 0, err
	}
	return int64(free), nil
}

// DiskFull reports whether err came of a volume without room.
func DiskFull(err error) bool {
	return errors.Is(err, windows.ERROR_DISK_FULL) || errors.Is(err, windows.ERROR_HANDLE_DISK_FULL)
}
