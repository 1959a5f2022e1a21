package cpu

import (
	"unsafe"

	"golang.org/x/sys/windows"
)

func mapAnonymous(n int) ([]byte, error) {
	p, err := windows.VirtualAlloc(0, uintptr(n), windows.MEM_COMMIT|windows.MEM_RESERVE, windows.PAGE_READWRITE)
	if err != nil {
		return nil, err
	}
	// The address lies outside the Go heap, so it may be kept as an integer until here.
	return unsafe.Slice((*byte)(*(*unsafe.Pointer)(unsafe.Pointer(&p))), n), nil
}

// lockOverhead is what the system keeps of a working set beyond what is locked.
const lockOverhead = 1 << 20

// lockMemory raises the working set first: a process may lock less than the set's least size, which begins at some 200 KB.
//
// Source: Microsoft's documentation of VirtualLock.
func lockMemory(m []byte) error {
	var least, most uintptr
	var flags uint32
	process := windows.CurrentProcess()
	windows.GetProcessWorkingSetSizeEx(process, &least, &most, &flags)
	more := uintptr(len(m)) + lockOverhead
	if err := windows.SetProcessWorkingSetSizeEx(process, least+more, most+more, flags); err != nil {
		return err
	}
	return windows.VirtualLock(uintptr(unsafe.Pointer(&m[0])), uintptr(len(m)))
}

// lockAdvice is what a user can do where memory cannot be locked.
const lockAdvice = "free memory or leave --mlock out"

func unmap(m []byte) error {
	return windows.VirtualFree(uintptr(unsafe.Pointer(&m[0])), 0, windows.MEM_RELEASE)
}
