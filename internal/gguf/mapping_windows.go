package gguf

import (
	"os"
	"unsafe"

	"golang.org/x/sys/windows"
)

func mapFile(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	st, err := file.Stat()
	if err == nil {
		err = mappable(st)
	}
	if err != nil {
		return nil, err
	}
	h, err := windows.CreateFileMapping(windows.Handle(file.Fd()), nil, windows.PAGE_READONLY, 0, 0, nil)
	if err != nil {
		return nil, err
	}
	defer windows.CloseHandle(h)
	p, err := windows.MapViewOfFile(h, windows.FILE_MAP_READ, 0, 0, 0)
	if err != nil {
		return nil, err
	}
	// The address is outside of the Go heap, so it may be an integer until here.
	return unsafe.Slice((*byte)(*(*unsafe.Pointer)(unsafe.Pointer(&p))), int(st.Size())), nil
}

func unmapFile(data []byte) error {
	return windows.UnmapViewOfFile(uintptr(unsafe.Pointer(unsafe.SliceData(data))))
}

// DontNeed does nothing: Windows drops clean pages by itself.
func (f *File) DontNeed(*Tensor) {}

// populate faults b in; Windows reads ahead by itself along sequential faults.
func populate(b []byte) error {
	touch(b)
	return nil
}

// scattered does nothing: Windows has no such advice for mapped files.
func (f *File) scattered() (end func()) { return func() {} }
