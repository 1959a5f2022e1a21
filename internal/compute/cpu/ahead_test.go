package cpu

import (
	"slices"
	"testing"
	"unsafe"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// readingWeights are zeros: 96 neurons of width 64.
func readingWeights(t *testing.T, d *Device, kind quant.Type, gated bool, down compute.Use) compute.SparseWeights {
	t.Helper()
	const n, cols = 96, 64
	matrix := func(rows, cols int, use compute.Use) *compute.Matrix {
		m, err := d.Matrix(compute.Source{Name: "w", Type: kind, Rows: rows, Cols: cols, Data: make([]byte, rows*kind.RowBytes(cols))}, use)
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	w := compute.SparseWeights{Up: matrix(n, cols, compute.Rows)}
	if gated {
		w.Gate = matrix(n, cols, compute.Rows)
	}
	if w.Down = matrix(n, cols, compute.Rows); down == compute.Columns {
		w.Down = matrix(cols, n, down)
	}
	return w
}

// TestReadAhead: the rows that are read are those that a SparseFFN would read, the ones that decide first, and no
// others.
func TestReadAhead(t *testing.T) {
	d, err := New(Options{Threads: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	some, err := d.Set(1, 96)
	if err != nil {
		t.Fatal(err)
	}
	d.FillSet(some, []uint32{1<<3 | 1<<31, 0, 1 << 31}, 3, 0) // 3, 31, 95
	never := func() bool { return false }
	for _, kind := range []quant.Type{quant.Q4_0, quant.F16} {
		for _, gated := range []bool{true, false} {
			for _, use := range []compute.Use{compute.Rows, compute.Columns} {
				w := readingWeights(t, d, kind, gated, use)
				first := w.Gate
				others := []*compute.Matrix{w.Up}
				if first == nil {
					first, others = w.Up, nil
				}
				if use == compute.Rows || kind == quant.F16 { // groups of columns are not rows
					others = append(others, w.Down)
				}
				var all, listed []*byte
				for i := range 96 {
					all = append(all, &mem(first).data[i*mem(first).rowBytes])
				}
				for _, m := range append([]*compute.Matrix{first}, others...) {
					for _, i := range []int{3, 31, 95} {
						listed = append(listed, &mem(m).data[i*mem(m).rowBytes])
					}
				}
				for set, want := range map[compute.Set][]*byte{{Rows: 1, N: 96}: all, some: listed} {
					d.ReadAhead(set, w, never)
					var got []*byte
					for i := range d.ahead.rows {
						got = append(got, unsafe.SliceData(d.ahead.row(i)))
					}
					if !slices.Equal(got, want) {
						t.Errorf("%s, gated %v, down as %v: %d rows, want %d, or others", kind, gated, use, len(got), len(want))
					}
				}
			}
		}
	}
}

// TestReadAheadEnds: it ends when it is told to, and where there is nothing to read; and allocates nothing.
func TestReadAheadEnds(t *testing.T) {
	d, err := New(Options{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	w := readingWeights(t, d, quant.F16, true, compute.Rows)
	none, err := d.Set(1, 96)
	if err != nil {
		t.Fatal(err)
	}
	looks := 0
	done := func() bool { looks++; return true }
	d.ReadAhead(compute.Set{Rows: 1, N: 96}, w, done)
	if looks != 1 || d.ahead.next.Load() != 0 {
		t.Errorf("told to end at once, it looked %d times and read %d rows", looks, d.ahead.next.Load())
	}
	never := func() bool { return false }
	if n := testing.AllocsPerRun(10, func() { d.ReadAhead(none, w, never); d.ReadAhead(compute.Set{Rows: 1, N: 96}, w, never) }); n != 0 {
		t.Errorf("%g allocations", n)
	}
}
