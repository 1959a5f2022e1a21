package disk

import (
	"os"

	"golang.org/x/sys/unix"
)

// direct has f read past the page cache: F_NOCACHE needs no alignment, and aligned reads are not copied.
func direct(f *os.File) (s source, align int64, ok bool, err error) {
	o, err := newOpened(f)
	if err != nil {
		return nil, 0, false, err
	}
	err = o.conn.Control(func(fd uintptr) {
		_, failed := unix.FcntlInt(fd, unix.F_NOCACHE, 1)
		ok = failed == nil
		_, _ = unix.FcntlInt(fd, unix.F_RDAHEAD, 0)
	})
	return o, usualAlign, ok, err
}

// uncache keeps written data out of the page cache, because reads past it look there first.
func uncache(f *os.File) { _, _ = unix.FcntlInt(f.Fd(), unix.F_NOCACHE, 1) }

func hugePages([]byte) {}
