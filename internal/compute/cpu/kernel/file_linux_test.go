package kernel

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"unsafe"

	"github.com/powerinfer-go/powerinfer/internal/quant"
	"github.com/powerinfer-go/powerinfer/internal/testenv"
	"golang.org/x/sys/unix"
)

// Rows may end with the mapped file: a kernel that read on would end the process here.
func TestNothingIsReadBehindFileRows(t *testing.T) {
	testenv.Thorough(t)
	rng := testenv.Rand(t)
	const rows, tokens = 7, 5
	for _, k := range Variants() {
		for _, typ := range quant.Types() {
			if !typ.Quantised() {
				continue
			}
			for _, cols := range fileCases(typ) {
				w := fenced(t, randomFile(rng, typ, rows, cols))
				p := problem{rows: rows, cols: cols, tokens: tokens, x: make([]float32, tokens*cols)}
				x, stride := p.activations(k, typ)
				acts := fenced(t, unsafe.Slice((*byte)(x), tokens*stride))
				out := unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(fenced(t, make([]byte, 4*rows*tokens))))), rows*tokens)
				scratch := fenced(t, make([]byte, 2*RowBytes(typ, cols)))
				last := unsafe.Pointer(&acts[(tokens-1)*stride])
				k.MatMulFile(typ, out[(tokens-1)*rows:], rows, w, rows, cols, last, stride, 1, scratch)
				k.MatMulFile(typ, out, rows, w, rows, cols, unsafe.Pointer(&acts[0]), stride, tokens, scratch)
				k.DotFileRows(typ, out[len(out)-3:], w, []int32{0, 6, 6}, cols, last, scratch)
			}
		}
	}
}

// BenchmarkDecodeFile is BenchmarkDecode of weights in file layout, in a mapped file.
func BenchmarkDecodeFile(b *testing.B) {
	const cols, bytes = 4096, 256 << 20
	for _, k := range platform() {
		for _, typ := range quantised() {
			for _, tokens := range []int{1, 2, 4} {
				b.Run(fmt.Sprintf("%s/%s/%d", k.Name, typ, tokens), func(b *testing.B) {
					rows := bytes / typ.RowBytes(cols)
					w := mapped(b, rows*typ.RowBytes(cols))
					p := problem{rows: rows, cols: cols, tokens: tokens, x: make([]float32, tokens*cols)}
					x, stride := p.activations(k, typ)
					out, scratch := make([]float32, tokens*rows), make([]byte, 64<<10)
					b.SetBytes(int64(len(w)))
					for b.Loop() {
						k.MatMulFile(typ, out, rows, w, rows, cols, x, stride, tokens, scratch)
					}
				})
			}
		}
	}
}

// mapped is n bytes of a file.
func mapped(b *testing.B, n int) []byte {
	name := filepath.Join(b.TempDir(), "weights")
	data := make([]byte, n)
	for i := range data {
		data[i] = byte(i * 7)
	}
	if err := os.WriteFile(name, data, 0o600); err != nil {
		b.Fatal(err)
	}
	f, err := os.Open(name)
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	m, err := unix.Mmap(int(f.Fd()), 0, n, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = unix.Munmap(m) })
	_ = unix.Madvise(m, unix.MADV_POPULATE_READ)
	return m
}
