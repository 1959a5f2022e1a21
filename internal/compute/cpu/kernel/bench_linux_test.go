package kernel

import (
	"fmt"
	"runtime"
	"testing"
	"unsafe"

	"github.com/powerinfer-go/powerinfer/internal/quant"
	"github.com/powerinfer-go/powerinfer/internal/testenv"
	"golang.org/x/sys/unix"
)

// BenchmarkDecode streams weights far beyond the caches; MB/s is bytes of packed weights.
func BenchmarkDecode(b *testing.B) {
	const cols, bytes = 4096, 256 << 20
	for _, k := range platform() {
		for _, typ := range append(quantised(), quant.F16, quant.BF16) {
			b.Run(fmt.Sprintf("%s/%s", k.Name, typ), func(b *testing.B) {
				rows := bytes / RowBytes(typ, cols)
				w := bigWeights(b, rows*RowBytes(typ, cols))
				p := problem{rows: rows, cols: cols, tokens: 1, x: make([]float32, cols), packed: w}
				x, stride := p.activations(k, typ)
				out := make([]float32, rows)
				b.SetBytes(int64(len(w)))
				for b.Loop() {
					k.MatMul(typ, out, rows, w, rows, cols, x, stride, 1)
				}
			})
		}
	}
}

// BenchmarkWays is BenchmarkDecode of every kernel that rows may go by.
func BenchmarkWays(b *testing.B) {
	const cols, bytes = 2048, 256 << 20
	k := platform()[0]
	for _, typ := range append(quantised(), quant.F16, quant.BF16) {
		rows := bytes / RowBytes(typ, cols)
		w := bigWeights(b, rows*RowBytes(typ, cols))
		p := problem{rows: rows, cols: cols, tokens: 1, x: make([]float32, cols), packed: w}
		x, stride := p.activations(k, typ)
		out := make([]float32, rows)
		for _, name := range k.Ways(typ, Consecutive) {
			b.Run(fmt.Sprintf("%s/%s", typ, name), func(b *testing.B) {
				if err := k.Go(typ, Consecutive, k.ClassOf(typ, Consecutive, cols), name); err != nil {
					b.Fatal(err)
				}
				b.SetBytes(int64(len(w)))
				for b.Loop() {
					k.MatMul(typ, out, rows, w, rows, cols, x, stride, 1)
				}
			})
		}
	}
}

// BenchmarkScattered computes every eighth row, as for the neurons that a token needs, out of weights far beyond the
// caches, by each of the kernels there are; MB/s is bytes of the rows computed.
func BenchmarkScattered(b *testing.B) {
	const cols, bytes, stride = 4096, 256 << 20, 8
	k := platform()[0]
	for _, typ := range append(quantised(), quant.F16, quant.BF16) {
		rows := bytes / RowBytes(typ, cols)
		w := bigWeights(b, rows*RowBytes(typ, cols))
		p := problem{rows: rows, cols: cols, tokens: 1, x: make([]float32, cols), packed: w}
		x, _ := p.activations(k, typ)
		rng := testenv.Rand(b)
		var index []int32
		for r := 0; r+stride <= rows; r += stride {
			index = append(index, int32(r+rng.IntN(stride)))
		}
		out := make([]float32, len(index))
		for _, name := range k.Ways(typ, Scattered) {
			b.Run(fmt.Sprintf("%s/%s", typ, name), func(b *testing.B) {
				if err := k.Go(typ, Scattered, 0, name); err != nil {
					b.Fatal(err)
				}
				b.SetBytes(int64(len(index) * RowBytes(typ, cols)))
				for b.Loop() {
					k.DotRows(typ, out, w, index, cols, x)
				}
			})
		}
	}
}

// bigWeights is n bytes in huge pages, as the device holds weights.
func bigWeights(b *testing.B, n int) []byte {
	m, err := unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = unix.Munmap(m) })
	_ = unix.Madvise(m, unix.MADV_HUGEPAGE)
	for i := range m {
		m[i] = byte(i * 7)
	}
	return m
}

// BenchmarkPrompt is a 256-row chunk against 512 tokens, as the device cuts a prompt; GFLOPS counts multiply and add, in a
// second of the processor.
func BenchmarkPrompt(b *testing.B) {
	const cols, rows, tokens = 2048, 256, 512
	for _, k := range platform() {
		for _, typ := range append(quantised(), quant.F16, quant.BF16) {
			b.Run(fmt.Sprintf("%s/%s", k.Name, typ), func(b *testing.B) {
				p := problem{rows: rows, cols: cols, tokens: tokens, x: make([]float32, cols*tokens), packed: make([]byte, rows*RowBytes(typ, cols))}
				var x unsafe.Pointer
				var stride int
				if form := k.PromptForm(typ); form.Tiled() {
					acts, share := p.tiled(k, typ)
					x, stride = unsafe.Pointer(&acts[0]), share
				} else {
					x, stride = p.activationsAs(k, form)
				}
				out := make([]float32, rows*tokens)
				runtime.LockOSThread()
				defer runtime.UnlockOSThread()
				begin := processorTime(b)
				for b.Loop() {
					k.MatMulPrompt(Next{}, typ, out, rows, p.packed, rows, cols, x, stride, tokens)
				}
				b.ReportMetric(2*rows*cols*tokens*float64(b.N)/(processorTime(b)-begin).Seconds()/1e9, "GFLOPS")
			})
		}
	}
}

// BenchmarkRowSum adds every eighth row, as the down projection of active neurons does, out of weights far beyond the
// caches; MB/s is bytes of the rows added.
func BenchmarkRowSum(b *testing.B) {
	const cols, bytes, stride = 4096, 256 << 20, 8
	k := Variants()[0]
	for _, typ := range []quant.Type{quant.Q4_0, quant.Q8_0, quant.F16, quant.BF16} {
		b.Run(typ.String(), func(b *testing.B) {
			rowBytes := RowBytes(typ, cols)
			rows := bytes / rowBytes
			w := bigWeights(b, rows*rowBytes)
			rng := testenv.Rand(b)
			var index []int
			for r := 0; r+stride <= rows; r += stride {
				index = append(index, r+rng.IntN(stride))
			}
			sum := make([]float32, Sums(cols))
			var s RowSum
			b.SetBytes(int64(len(index) * rowBytes))
			for b.Loop() {
				s.Begin(k, typ, cols, sum)
				for _, r := range index {
					s.Add(w[r*rowBytes:][:rowBytes], 0.5)
				}
				s.Finish()
			}
		})
	}
}
