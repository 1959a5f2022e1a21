//go:build unix

package gguf

import (
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

func mapFile(path string) ([]byte, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0) // a FIFO must be refused, not waited for
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
	return unix.Mmap(int(file.Fd()), 0, int(st.Size()), unix.PROT_READ, unix.MAP_SHARED)
}

func unmapFile(data []byte) error { return unix.Munmap(data) }

// DontNeed lets the whole pages of t's data go, after it was copied elsewhere.
func (f *File) DontNeed(t *Tensor) {
	if len(f.mappings) == 0 || len(t.Data) == 0 {
		return
	}
	page := uintptr(os.Getpagesize())
	from := uintptr(unsafe.Pointer(unsafe.SliceData(t.Data)))
	skip := int(-from % page)
	n := (len(t.Data) - skip) &^ (int(page) - 1)
	if n > 0 {
		_ = unix.Madvise(t.Data[skip:skip+n], unix.MADV_DONTNEED)
	}
}

// scattered makes the system read only the touched pages of the file, until the returned function is called. Reading
// ahead may take megabytes for each page.
func (f *File) scattered() (end func()) {
	advise := func(how int) {
		for _, m := range f.mappings {
			_ = unix.Madvise(m, how)
		}
	}
	advise(unix.MADV_RANDOM)
	return func() { advise(unix.MADV_NORMAL) }
}
