package hybrid_test

import (
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/compute/vulkan"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// BenchmarkStage takes an expert's rows from the processor's layout into memory that a GPU copies from, as the
// goroutine does that stages experts.
func BenchmarkStage(b *testing.B) {
	const experts, rows, cols = 8, 768, 2048
	for _, typ := range []quant.Type{quant.Q4_0, quant.Q4_K, quant.Q6_K, quant.MXFP4, quant.Q8_0} {
		b.Run(typ.String(), func(b *testing.B) {
			gpu, err := vulkan.Open(vulkan.Options{Device: vulkan.Software})
			if err != nil {
				b.Skip(err)
			}
			defer gpu.Close()
			host := host(b)
			defer host.Close()
			src := compute.Source{Name: "experts", Type: typ, Rows: experts * rows, Cols: cols, Stack: experts, Data: make([]byte, experts*rows*typ.RowBytes(cols))}
			to, err := gpu.Matrix(src, compute.Rows)
			if err != nil {
				b.Fatal(err)
			}
			from, err := host.Matrix(src, compute.Rows)
			if err != nil {
				b.Fatal(err)
			}
			stage, err := gpu.RowStage(gpu.StagedBytes(to, rows))
			if err != nil {
				b.Fatal(err)
			}
			part := 64 << 10 / typ.RowBytes(cols)
			scratch := make([]byte, part*typ.RowBytes(cols))
			b.SetBytes(int64(rows * typ.RowBytes(cols)))
			for i := range b.N {
				first := i % experts * rows
				for r := 0; r < rows; r += part {
					n := min(part, rows-r)
					stage.Put(to, first+r, host.Rows(from, first+r, first+r+n, scratch))
				}
				b.StopTimer()
				for arrived := false; !arrived; {
					if _, arrived, err = stage.Send(1 << 30); err != nil {
						b.Fatal(err)
					}
				}
				b.StartTimer()
			}
		})
	}
}
