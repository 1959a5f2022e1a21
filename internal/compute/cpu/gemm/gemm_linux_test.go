package gemm

import (
	"testing"
	"unsafe"

	"github.com/powerinfer-go/powerinfer/internal/testenv"
	"golang.org/x/sys/unix"
)

// fenced returns a copy of x that ends where the process may not read.
func fenced(t *testing.T, x []float32) []float32 {
	t.Helper()
	page := unix.Getpagesize()
	n := (4*len(x) + page - 1) / page * page
	m, err := unix.Mmap(-1, 0, n+page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Munmap(m) })
	if err := unix.Mprotect(m[n:], unix.PROT_NONE); err != nil {
		t.Fatal(err)
	}
	out := unsafe.Slice((*float32)(unsafe.Pointer(&m[n-4*len(x)])), len(x))
	copy(out, x)
	return out
}

// A kernel that read or wrote behind a tile, a panel or an operand would end the process here.
func TestNothingBehindTheOperandsIsTouched(t *testing.T) {
	rng := testenv.Rand(t)
	for _, s := range variants() {
		for _, k := range []int{1, 3, 4, 7, 130} {
			a, b, c := fenced(t, make([]float32, (k-1)*panelRows+s.rows)), fenced(t, make([]float32, k*s.cols)), fenced(t, make([]float32, s.rows*s.cols))
			for add := range uintptr(2) {
				s.tile(&c[0], uintptr(4*s.cols), &a[0], &b[0], uintptr(k), 1, add)
			}
			src, dst := fenced(t, make([]float32, 8*k)), fenced(t, make([]float32, 8*k))
			s.transpose(dst, 8, src, k, k)
		}
		for variant := range 4 {
			const m, n, k = 67, 149, 37
			a, b, c := random(rng, m, k, 0, variant&1 != 0), random(rng, k, n, 0, variant&2 != 0), random(rng, m, n, 0, false)
			a.Data, b.Data, c.Data = fenced(t, a.Data), fenced(t, b.Data), fenced(t, c.Data)
			newMultiplier(t, 2, s.name).Mul(c, 1, a, b, true)
		}
	}
}
