package memlock

import (
	"unsafe"

	"golang.org/x/sys/windows"
)

const remedy = "free memory"

// overhead is the part of a working set that the system keeps for itself. [bytes]
const overhead = 1 << 20

// lock raises the working set first: a process may lock less than the set's minimum, which begins at some 200 KB.
//
// Source: Microsoft's documentation of VirtualLock.
func lock(b []byte) error {
	var least, most uintptr
	var flags uint32
	process := windows.CurrentProcess()
	windows.GetProcessWorkingSetSizeEx(process, &least, &most, &flags)
	more := uintptr(len(b)) + overhead
	if err := windows.SetProcessWorkingSetSizeEx(process, least+more, most+more, flags); err != nil {
		return err
	}
	return windows.VirtualLock(uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)))
}
