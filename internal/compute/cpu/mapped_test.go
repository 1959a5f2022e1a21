package cpu

import (
	"testing"
	"unsafe"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// TestMappedTakesNothing: a pinned weight stays where it is mapped, takes no memory of the device's, and steps with it
// allocate nothing. That products have the bytes of packed weights is the conformance suite's.
func TestMappedTakesNothing(t *testing.T) {
	const rows, cols, most = 96, 1024, 40
	d, err := New(Options{Threads: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	for _, typ := range quant.Types() {
		if typ == quant.F32 || typ == quant.BF16 {
			continue
		}
		data := make([]byte, rows*typ.RowBytes(cols))
		before := len(d.mem.mappings)
		w, err := d.Matrix(compute.Source{Name: "w", Type: typ, Rows: rows, Cols: cols, Data: data, Pinned: true}, compute.Dense)
		if err != nil {
			t.Fatal(err)
		}
		if len(d.mem.mappings) != before || unsafe.SliceData(mem(w).data) != unsafe.SliceData(data) {
			t.Errorf("%s: a mapped weight was copied", typ)
		}
		x, err := d.Tensor(most, cols)
		if err != nil {
			t.Fatal(err)
		}
		out, err := d.Tensor(most, rows)
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range []int{1, 5, most} {
			p := &compute.Params{Tokens: make([]int32, n)}
			body := func(v compute.Verbs) { v.MatMul(x.First(n), compute.Products{{Out: out.First(n), W: w}}) }
			step := func() {
				if err := d.Run(compute.Segment{}, p, body); err != nil {
					t.Fatal(err)
				}
			}
			step() // scratch grows, on every worker
			step()
			if testing.Short() {
				continue // the race detector, under which tests are short, empties pools of scratch
			}
			if got := testing.AllocsPerRun(20, step); got >= 1 { // a pool of scratch may be emptied by the collector
				t.Errorf("%s, %d tokens: %g allocations a step", typ, n, got)
			}
		}
	}
}
