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
	if b := wholePages(t.Data); len(b) > 0 {
		_ = unix.Madvise(b, unix.MADV_DONTNEED)
	}
}

// wholePages returns the part of mapped memory that is whole pages.
func wholePages(b []byte) []byte {
	page := uintptr(os.Getpagesize())
	from := uintptr(unsafe.Pointer(unsafe.SliceData(b)))
	skip := int(-from % page)
	if n := (len(b) - skip) &^ (int(page) - 1); n > 0 {
		return b[skip : skip+n]
	}
	return nil
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
