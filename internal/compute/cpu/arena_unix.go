//go:build unix

package cpu

import "golang.org/x/sys/unix"

func mapAnonymous(n int) ([]byte, error) {
	m, err := unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return nil, err
	}
	if n >= pageAlign {
		adviseHuge(m)
	}
	return m, nil
}

func unmap(m []byte) error { return unix.Munmap(m) }
