package cpu_test

import (
	"strings"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/compute/cpu"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

func TestOptions(t *testing.T) {
	for _, c := range []struct {
		o   cpu.Options
		err string
	}{
		{cpu.Options{}, "0 threads"},
		{cpu.Options{Threads: -1}, "threads"},
		{cpu.Options{Threads: 1, ThreadsBatch: 1 << 20}, "1048576 threads"},
		{cpu.Options{Threads: 1, Kernels: "abacus"}, `kernels "abacus" do not run here`},
	} {
		if d, err := cpu.New(c.o); err == nil || !strings.Contains(err.Error(), c.err) {
			t.Errorf("%+v: %v, error %v, want one with %q", c.o, d, err, c.err)
		}
	}
	for o, name := range map[cpu.Options]string{
		{Threads: 3, Kernels: "generic"}:                  "CPU generic, 3 threads",
		{Threads: 1, ThreadsBatch: 2, Kernels: "generic"}: "CPU generic, 1 threads (2 for prompts)",
	} {
		d, err := cpu.New(o)
		if err != nil {
			t.Fatal(err)
		}
		if d.Name() != name {
			t.Errorf("%+v is called %q, want %q", o, d.Name(), name)
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestOrderOfColumns: neurons that share scales in blocks cannot change places one by one.
func TestOrderOfColumns(t *testing.T) {
	d, err := cpu.New(cpu.Options{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	order := make([]int32, 256)
	for i := range order {
		order[i] = int32(255 - i)
	}
	for _, typ := range []quant.Type{quant.Q4_0, quant.Q8_0, quant.Q4_K, quant.Q6_K} {
		src := compute.Source{Name: "blk.3.ffn_down.weight", Type: typ, Rows: 2, Cols: 256, Data: make([]byte, 2*typ.RowBytes(256)), Order: order}
		if _, err := d.Matrix(src, compute.Columns); err == nil || !strings.Contains(err.Error(), src.Name) || !strings.Contains(err.Error(), "share scales") {
			t.Errorf("%s: error %v does not say which tensor cannot be reordered, and why", typ, err)
		}
	}
}

// TestNothingToCompute: a step without tokens writes nothing.
func TestNothingToCompute(t *testing.T) {
	d, err := cpu.New(cpu.Options{Threads: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	w, err := d.Matrix(compute.Source{Name: "w", Type: quant.F32, Rows: 4, Cols: 4, Data: make([]byte, 64)}, compute.Rows)
	if err != nil {
		t.Fatal(err)
	}
	x, err := d.Tensor(1, 4)
	if err != nil {
		t.Fatal(err)
	}
	copy(d.Read(x, 0), []float32{1, 2, 3, 4})
	none := x.First(0)
	err = d.Run(compute.Segment{}, &compute.Params{}, func(v compute.Verbs) {
		v.MatMul(none, compute.Products{{Out: none, W: w}})
		v.SparseFFN(none, none, compute.Set{N: 4}, compute.SparseWeights{Up: w, Down: w, Act: compute.Activation{Kind: compute.ReLU}})
		v.Add(none, none)
		v.Activate(none, none, compute.Tensor{}, compute.Activation{Kind: compute.ReLU})
	})
	if err != nil {
		t.Fatal(err)
	}
	for i, v := range d.Read(x, 0) {
		if v != float32(i+1) {
			t.Errorf("element %d became %g", i, v)
		}
	}
}
