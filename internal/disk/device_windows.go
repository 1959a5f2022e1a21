package disk

import (
	"fmt"
	"os"

	"golang.org/x/sys/windows"
)

// Device names the volume of path, which must exist: its serial number and size.
func Device(path string) (string, error) {
	name, err := windows.UTF16PtrFromString(path)
	if err != nil {
		return "", err
	}
	root := make([]uint16, windows.MAX_LONG_PATH)
	if err := windows.GetVolumePathName(name, &root[0], uint32(len(root))); err != nil {
		return "", &os.PathError{Op: "GetVolumePathName", Path: path, Err: err}
	}
	var serial, length, flags uint32
	if err := windows.GetVolumeInformation(&root[0], nil, 0, &serial, &length, &flags, nil, 0); err != nil {
		return "", &os.PathError{Op: "GetVolumeInformation", Path: path, Err: err}
	}
	var total uint64
	if err := windows.GetDiskFreeSpaceEx(&root[0], nil, &total, nil); err != nil {
		return "", &os.PathError{Op: "GetDiskFreeSpaceEx", Path: path, Err: err}
	}
	return fmt.Sprintf("%08x %d", serial, total), nil
}
