package cpu

import (
	"errors"
	"fmt"
	"unsafe"

	packed "github.com/powerinfer-go/powerinfer/internal/compute/cpu/layout"
	"github.com/powerinfer-go/powerinfer/internal/memlock"
)

// arena owns the device's memory: page-aligned anonymous mappings outside the Go heap, in
// huge pages where the system has them. It lives until the device is closed.
type arena struct {
	lock     bool // keep out of swap
	mappings [][]byte
}

// pageAlign is the alignment that huge pages want. [bytes]
const pageAlign = packed.HugePage

// bytes returns n zeroed bytes, 64-byte aligned.
func (a *arena) bytes(n int) ([]byte, error) {
	if n == 0 {
		return nil, nil
	}
	if n < 0 {
		return nil, errors.New("more memory than addresses")
	}
	size := n
	if n >= pageAlign { // to begin at a huge page; memory that is not touched costs nothing
		size = (n+pageAlign-1)/pageAlign*pageAlign + pageAlign
	}
	m, err := mapAnonymous(size)
	if err != nil {
		return nil, fmt.Errorf("%d MiB of memory: %w", n>>20, err)
	}
	a.mappings = append(a.mappings, m)
	if n >= pageAlign {
		m = m[int(-uintptr(unsafe.Pointer(unsafe.SliceData(m)))%pageAlign):]
	}
	m = m[:n]
	if a.lock {
		if err := memlock.Lock(m); err != nil {
			return nil, err
		}
	}
	return m[:n:n], nil
}

func (a *arena) floats(n int) ([]float32, error) {
	b, err := a.bytes(n * 4)
	if err != nil || n == 0 {
		return nil, err
	}
	return unsafe.Slice((*float32)(unsafe.Pointer(&b[0])), n), nil
}

func (a *arena) free() error {
	var first error
	for _, m := range a.mappings {
		if err := unmap(m); err != nil && first == nil {
			first = err
		}
	}
	a.mappings = nil
	return first
}
