package kernel

import (
	"testing"
	"unsafe"

	"github.com/powerinfer-go/powerinfer/internal/quant"
	"github.com/powerinfer-go/powerinfer/internal/testenv"
	"golang.org/x/sys/unix"
)

// fenced returns a copy of b that ends where the process may not read.
func fenced(t *testing.T, b []byte) []byte {
	t.Helper()
	page := unix.Getpagesize()
	n := (len(b) + page - 1) / page * page
	m, err := unix.Mmap(-1, 0, n+page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Munmap(m) })
	if err := unix.Mprotect(m[n:], unix.PROT_NONE); err != nil {
		t.Fatal(err)
	}
	out := m[n-len(b) : n]
	copy(out, b)
	return out
}

// Weights may end with the mapped file, activations with an arena: a kernel that read on would end the process here.
func TestNothingIsReadBehindTheOperands(t *testing.T) {
	testenv.Thorough(t)
	rng := testenv.Rand(t)
	const rows, tokens = 7, 19
	for _, k := range Variants() {
		for _, typ := range quant.Types() {
			for _, cols := range []int{32, 33, 288, 4544, 6144, 15616} {
				if typ.Like() != typ && cols > 4544 || testing.Short() && cols > 288 {
					continue
				}
				if cols%typ.BlockElems() != 0 || typ.BlockElems() == quant.QKK && cols%quant.QKK != 0 {
					cols = quant.QKK
				}
				p := newProblem(rng, typ, rows, cols, tokens)
				w := fenced(t, p.packed)
				x, stride := p.activations(k, typ)
				acts := fenced(t, unsafe.Slice((*byte)(x), tokens*stride))
				out := unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(fenced(t, make([]byte, 4*rows*tokens))))), rows*tokens)
				for _, n := range []int{1, 2, 3, 4, 5, 8, 13, tokens} {
					from := (tokens - n) * stride
					k.MatMul(typ, out[(tokens-n)*rows:], rows, w, rows, cols, unsafe.Pointer(&acts[from]), stride, n)
				}
				k.DotRows(typ, out[len(out)-6:], w, []int32{0, 6, 5, 1, 6, 6}, cols, unsafe.Pointer(&acts[(tokens-1)*stride]))
			}
		}
	}
}
