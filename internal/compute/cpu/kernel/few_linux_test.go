package kernel

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/powerinfer-go/powerinfer/internal/quant"
	"golang.org/x/sys/unix"
)

// BenchmarkFew streams weights far beyond the caches past the tokens of a few sequences, in the device's chunks; tokens/s, of the processor's
// time, are for a matrix of a million weights.
func BenchmarkFew(b *testing.B) {
	const cols, bytes, chunk = 2048, 64 << 20, 256 << 10
	k := Variants()[0]
	for _, typ := range []quant.Type{quant.Q4_0, quant.Q8_0, quant.Q4_K, quant.F16} {
		for _, tokens := range []int{1, 2, 3, 4, 6, 8, 16, 32} {
			b.Run(fmt.Sprintf("%s/%s/%d", k.Name, typ, tokens), func(b *testing.B) {
				runtime.LockOSThread()
				defer runtime.UnlockOSThread()
				size := RowBytes(typ, cols)
				rows := bytes / size
				w := bigWeights(b, rows*size)
				p := problem{rows: rows, cols: cols, tokens: tokens, x: make([]float32, cols*tokens), packed: w}
				x, stride := p.activations(k, typ)
				out := make([]float32, rows*tokens)
				step := chunk / size / 12 * 12
				begin := threadTime(b)
				for b.Loop() {
					for r := 0; r < rows; r += step {
						n := min(step, rows-r)
						k.MatMul(typ, out[r:], rows, w[r*size:][:n*size], n, cols, x, stride, tokens)
					}
				}
				took := threadTime(b) - begin
				b.ReportMetric(float64(tokens)*float64(b.N)*float64(rows)*cols/1e6/took.Seconds(), "tokens/s")
			})
		}
	}
}

// threadTime returns the processor time of the thread so far, which other programs do not count in.
func threadTime(b *testing.B) time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_THREAD, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
