//go:build unix

package disk

import (
	"errors"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// opened is a file by its descriptor.
type opened struct {
	*os.File
	conn syscall.RawConn
	read func(fd int, b []byte, offset int64) (int, error)
	fd   int // for an io_uring; -1: it cannot read the file
}

func newOpened(f *os.File) (*opened, error) {
	conn, err := f.SyscallConn()
	return &opened{f, conn, unix.Pread, -1}, err
}

func (o *opened) readAt(b []byte, offset int64) (n int, err error) {
	if failed := o.conn.Control(func(fd uintptr) { n, err = o.read(int(fd), b, offset) }); failed != nil {
		return 0, failed
	}
	return max(n, 0), err
}

// passes reports whether a read that failed with err may succeed if it is tried again at once.
func passes(err error) bool { return errors.Is(err, unix.EINTR) || errors.Is(err, unix.EAGAIN) }

func allocate(bytes int) ([]byte, error) {
	b, err := unix.Mmap(-1, 0, bytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err == nil {
		hugePages(b)
	}
	return b, err
}

func free(b []byte) { _ = unix.Munmap(b) }
