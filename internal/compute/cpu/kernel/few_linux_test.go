package kernel

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/powerinfer-go/powerinfer/internal/quant"
	"golang.org/x/sys/unix"
)

// BenchmarkFew streams weights far beyond the caches past the tokens of a few sequences, in the device's chunks;
// tokens/s, of the processor's time, are for a matrix of a million weights.
func BenchmarkFew(b *testing.B) {
	const bytes, chunk = 64 << 20, 128 << 10
	k := Variants()[0]
	for _, typ := range quant.Computed() {
		for _, tokens := range []int{1, 2, 3, 4, 5, 6, 8, 9, 12, 13, 16, 17, 20, 24, 31, 32, 128} {
			for _, cols := range []int{768, 2048} {
				b.Run(fmt.Sprintf("%s/%s/%d/%d", k.Name, typ, tokens, cols), func(b *testing.B) {
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
							next := w[min(r+step, rows)*size:]
							k.MatMulBefore(Next{Weights: next[:min(len(next), step*size)]}, typ, out[r:], rows, w[r*size:][:n*size], n, cols, x, stride, tokens)
						}
					}
					took := threadTime(b) - begin
					b.ReportMetric(float64(tokens)*float64(b.N)*float64(rows)*float64(cols)/1e6/took.Seconds(), "tokens/s")
				})
			}
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
