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
	// The address is outside the Go heap, so it may be kept as an integer until here.
	return unsafe.Slice((*byte)(*(*unsafe.Pointer)(unsafe.Pointer(&p))), n), nil
}

func unmap(m []byte) error {
	return windows.VirtualFree(uintptr(unsafe.Pointer(&m[0])), 0, windows.MEM_RELEASE)
}
