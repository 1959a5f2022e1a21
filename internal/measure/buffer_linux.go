package measure

import "golang.org/x/sys/unix"

// buffer is n bytes in huge pages, as the device stores weights, so that the TLB is no limit. Otherwise it is in small
// pages, as a mapped file is.
func buffer(n int, huge bool) (b []byte, release func(), err error) {
	b, err = unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return nil, nil, err
	}
	advice := unix.MADV_NOHUGEPAGE
	if huge {
		advice = unix.MADV_HUGEPAGE
	}
	_ = unix.Madvise(b, advice)
	return b, func() { _ = unix.Munmap(b) }, nil
}
