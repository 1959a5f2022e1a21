package disk

import (
	"os"

	"golang.org/x/sys/unix"
)

// direct has f read past the page cache if its file system can do that.
func direct(f *os.File) (s source, align int64, ok bool, err error) {
	o, err := newOpened(f)
	if err != nil {
		return nil, 0, false, err
	}
	err = o.conn.Control(func(fd uintptr) {
		if align, ok = setDirect(int(fd)); ok {
			o.fd = int(fd)
			return
		}
		// The page cache is used. Nothing is read ahead into it, and what was read is removed from it, page by page.
		_ = unix.Fadvise(int(fd), 0, 0, unix.FADV_RANDOM)
		align, o.read = int64(max(usualAlign, os.Getpagesize())), readAndForget
	})
	return o, align, ok, err
}

// readAndForget is pread that removes what it read from the page cache.
func readAndForget(fd int, b []byte, offset int64) (int, error) {
	n, err := unix.Pread(fd, b, offset)
	_ = unix.Fadvise(fd, offset, int64(len(b)), unix.FADV_DONTNEED)
	return n, err
}

// setDirect sets O_DIRECT and returns the alignment that reads need; ok is false if the file system refuses it. Some
// refuse it only when they read.
func setDirect(fd int) (align int64, ok bool) {
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
	if err != nil {
		return 0, false
	}
	align, memory := alignment(fd)
	if align == 0 || memory > int64(os.Getpagesize()) {
		return 0, false
	}
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_SETFL, flags|unix.O_DIRECT); err != nil {
		return 0, false
	}
	for _, align := range []int64{align, max(align, usualAlign)} {
		if tried(fd, align) {
			return align, true
		}
	}
	_, _ = unix.FcntlInt(uintptr(fd), unix.F_SETFL, flags)
	return 0, false
}

// mostAlign bounds the alignment; a larger one would read too much around each piece.
const mostAlign = 64 << 10

// alignment returns the file system's alignment of offsets and addresses; 0: it cannot read past the page cache.
//
// Source: statx(2), STATX_DIOALIGN since Linux 6.1, STATX_DIO_READ_ALIGN since 6.14.
func alignment(fd int) (offset, memory int64) {
	const readAlign = 0x20000 // STATX_DIO_READ_ALIGN, which x/sys lacks
	var s unix.Statx_t
	if err := unix.Statx(fd, "", unix.AT_EMPTY_PATH, unix.STATX_DIOALIGN|readAlign, &s); err != nil || s.Mask&unix.STATX_DIOALIGN == 0 {
		return usualAlign, usualAlign
	}
	offset, memory = int64(s.Dio_offset_align), int64(s.Dio_mem_align)
	if r := int64(s.Dio_read_offset_align); s.Mask&readAlign != 0 && r != 0 {
		offset = r
	}
	if offset&(offset-1) != 0 || offset > mostAlign {
		return 0, 0
	}
	return offset, memory
}

// tried reports whether the file can be read with this alignment.
func tried(fd int, align int64) bool {
	b, err := allocate(int(align))
	if err != nil {
		return false
	}
	defer free(b)
	for {
		if _, err = unix.Pread(fd, b, 0); err != unix.EINTR {
			return err != unix.EINVAL
		}
	}
}

// uncache takes a file that was synced out of the page cache.
func uncache(f *os.File) { _ = unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED) }

// hugePages asks for huge pages if b is long enough for some.
func hugePages(b []byte) { _ = unix.Madvise(b, unix.MADV_HUGEPAGE) }
