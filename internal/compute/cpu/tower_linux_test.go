package cpu_test

import (
	"runtime"
	"testing"
	"time"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/compute/cpu"
	"github.com/powerinfer-go/powerinfer/internal/compute/cpu/kernel"
	"github.com/powerinfer-go/powerinfer/internal/quant"
	"github.com/powerinfer-go/powerinfer/internal/testenv"
	"golang.org/x/sys/unix"
)

// BenchmarkTower times the parts of a layer of SigLIP so400m over 4096 patches: attention in which all see each other is
// 77 GFLOP, products with weights in F16 are 125. Processor time counts, of all threads.
func BenchmarkTower(b *testing.B) {
	for _, set := range kernel.Names()[:2] {
		b.Run(set, func(b *testing.B) { tower(b, set) })
	}
}

func tower(b *testing.B, set string) {
	const n, width, ff, heads, dim = 4096, 1152, 4304, 16, 72
	d, err := cpu.New(cpu.Options{Threads: runtime.NumCPU(), Set: set})
	if err != nil {
		b.Fatal(err)
	}
	defer d.Close()
	rng := testenv.Rand(b)
	tensor := func(cols int) compute.Tensor {
		t, err := d.Tensor(n, cols)
		if err != nil {
			b.Fatal(err)
		}
		x := d.Data(t)
		for i := range x {
			x[i] = float32(rng.NormFloat64())
		}
		return t
	}
	matrix := func(rows, cols int, use compute.Use) *compute.Matrix {
		values, row := make([]float32, cols), quant.F16.RowBytes(cols)
		data := make([]byte, rows*row)
		for r := range rows {
			for i := range values {
				values[i] = float32(rng.NormFloat64()) / 32
			}
			quant.Encode(quant.F16, data[r*row:][:row], values)
		}
		m, err := d.Matrix(compute.Source{Name: "w", Type: quant.F16, Rows: rows, Cols: cols, Data: data}, use)
		if err != nil {
			b.Fatal(err)
		}
		return m
	}
	pages := n / compute.PagePositions
	cache, err := d.Cache(compute.CacheSpec{Layers: []compute.KVShape{{Heads: heads, Key: dim, Value: dim, KeyType: compute.KVF32, ValueType: compute.KVF32}}, Pages: pages})
	if err != nil {
		b.Fatal(err)
	}
	p := &compute.Params{Tokens: make([]int32, n), Pos: make([]int32, n), Seq: make([]int32, n), Pages: [][]int32{make([]int32, pages)}}
	for i := range p.Pos {
		p.Pos[i] = int32(i)
	}
	for i := range p.Pages[0] {
		p.Pages[0][i] = int32(i)
	}
	x, q, k, v, wide := tensor(width), tensor(width), tensor(width), tensor(width), tensor(ff)
	attention, up, down := matrix(width, width, compute.Precise), matrix(ff, width, compute.Dense), matrix(width, ff, compute.Dense)
	product := func(w *compute.Matrix, x, y compute.Tensor) func(compute.Verbs) {
		return func(v compute.Verbs) { v.MatMul(x, compute.Products{{W: w, Out: y}}) }
	}
	for _, c := range []struct {
		name  string
		flops float64
		body  func(compute.Verbs)
	}{
		{"attention", 4 * n * n * width, func(verbs compute.Verbs) {
			verbs.StoreKV(cache, 0, k, v)
			verbs.Attend(x, q, cache, 0, compute.Attention{Scale: 0.118, Later: true})
		}},
		{"product of attention", 2 * n * width * width, product(attention, x, q)},
		{"up", 2 * n * width * ff, product(up, x, wide)},
		{"down", 2 * n * width * ff, product(down, wide, q)},
		{"quick GELU", 0, func(verbs compute.Verbs) {
			verbs.Activate(wide, wide, compute.Tensor{}, compute.Activation{Kind: compute.GELUQuick})
		}},
		{"GELU by erf", 0, func(verbs compute.Verbs) {
			verbs.Activate(wide, wide, compute.Tensor{}, compute.Activation{Kind: compute.GELUErf})
		}},
		{"GELU", 0, func(verbs compute.Verbs) {
			verbs.Activate(wide, wide, compute.Tensor{}, compute.Activation{Kind: compute.GELU})
		}},
	} {
		b.Run(c.name, func(b *testing.B) {
			begin := used(b)
			for b.Loop() {
				if err := d.Run(p.Segment(c.name), p, c.body); err != nil {
					b.Fatal(err)
				}
			}
			took := (used(b) - begin).Seconds() / float64(b.N)
			b.ReportMetric(took, "cpu-s/op")
			if c.flops > 0 {
				b.ReportMetric(c.flops/took/1e9, "GFLOPS/cpu")
			}
		})
	}
}

// used returns the time that the process has had of processors.
func used(b *testing.B) time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &t); err != nil {
		b.Fatal(err)
	}
	return time.Duration(t.Nano())
}
