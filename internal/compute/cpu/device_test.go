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
		{cpu.Options{Threads: 1, Set: "abacus"}, `kernels "abacus" do not run here`},
		{cpu.Options{Threads: 1, Kernels: "abacus"}, `kernels "abacus" are not among those of this processor: auto, usual`},
	} {
		if d, err := cpu.New(c.o); err == nil || !strings.Contains(err.Error(), c.err) {
			t.Errorf("%+v: %v, error %v, want one with %q", c.o, d, err, c.err)
		}
	}
	for _, c := range []struct {
		o    cpu.Options
		name string
	}{
		{cpu.Options{Threads: 3, Set: "generic"}, "CPU generic, 3 threads"},
		{cpu.Options{Threads: 1, ThreadsBatch: 2, Set: "generic"}, "CPU generic, 1 thread (2 for prompts)"},
	} {
		o, name := c.o, c.name
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
	for _, typ := range quant.Types() {
		if !typ.Quantised() {
			continue
		}
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
	copy(must(d.Read(x, 0)), []float32{1, 2, 3, 4})
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
	for i, v := range must(d.Read(x, 0)) {
		if v != float32(i+1) {
			t.Errorf("element %d became %g", i, v)
		}
	}
}

// TestBytesRead: what a layer by neuron counts as read are the gate rows, the up rows of open gates, and the down rows
// of active neurons.
func TestBytesRead(t *testing.T) {
	const embd, ff = 1024, 64 // rows of all types are whole cache lines
	for _, typ := range []quant.Type{quant.F32, quant.F16, quant.Q4_0, quant.Q8_0} {
		d, err := cpu.New(cpu.Options{Threads: 2})
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		row := int64(typ.RowBytes(embd))
		rows := func(positive func(i int) bool) *compute.Matrix {
			values, data := make([]float32, embd), make([]byte, ff*int(row))
			for i := range ff {
				for j := range values {
					values[j] = -1
					if positive(i) {
						values[j] = 1
					}
				}
				quant.Imitate(typ, data[i*int(row):][:row], values)
			}
			m, err := d.Matrix(compute.Source{Name: "w", Type: typ, Rows: ff, Cols: embd, Data: data}, compute.Rows)
			if err != nil {
				t.Fatal(err)
			}
			return m
		}
		x, err := d.Tensor(2, embd)
		if err != nil {
			t.Fatal(err)
		}
		for i := range 2 {
			for j := range embd {
				must(d.Read(x, i))[j] = 1
			}
		}
		out, err := d.Tensor(2, embd)
		if err != nil {
			t.Fatal(err)
		}
		var count compute.NeuronCount
		w := compute.SparseWeights{ // of 64 neurons 8 gates are open, and of these 4 are active
			Gate: rows(func(i int) bool { return i%8 == 0 }), Up: rows(func(i int) bool { return i%16 == 0 }),
			Down: rows(func(int) bool { return true }), Act: compute.Activation{Kind: compute.DReLU}, Count: &count,
		}
		for n := range int64(2) { // a row that both tokens need is read once
			count = compute.NeuronCount{}
			tokens := int(n + 1)
			err = d.Run(compute.Segment{}, &compute.Params{Tokens: make([]int32, tokens), Decode: tokens}, func(v compute.Verbs) {
				v.SparseFFN(out.First(tokens), x.First(tokens), compute.Set{Rows: tokens, N: ff}, w)
			})
			want := compute.NeuronCount{Steps: 1, Tokens: n + 1, Predicted: 64 * (n + 1), Gated: 8 * (n + 1), Active: 4 * (n + 1), Bytes: (64 + 8 + 4) * row, RAM: (64 + 8 + 4) * row, PredictedRAM: 64 * (n + 1), ActiveRAM: 4 * (n + 1)}
			if err != nil || count != want {
				t.Errorf("%s, %d tokens: counted %+v, want %+v (%v)", typ, tokens, count, want, err)
			}
		}
	}
}

// must returns v; an error of a device that tests have to themselves ends them.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
