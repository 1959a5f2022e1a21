// Package ref is the scalar device: it defines every operation of package compute, for other devices to be compared
// with.
//
// Weights are decoded row by row, sums run in float64 from the first term to the last, and an operation's results are
// rounded to float32 once, at its end. Nothing is fast, and nothing is shared with another device but the formats of
// package quant.
package ref

import (
	"cmp"
	"slices"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// Device implements compute.Device and compute.Executor. One goroutine uses it at a time.
type Device struct {
	compute.Plain
	compute.Unforeseeing
	p   *compute.Params // the current segment's
	err error           // an observer's error in that segment
}

// New opens the device.
func New() *Device { return &Device{} }

// Name says what computes.
func (d *Device) Name() string { return "scalar reference" }

// Close does nothing: memory is the garbage collector's.
func (d *Device) Close() error { return nil }

// Run computes body at once.
func (d *Device) Run(_ compute.Segment, p *compute.Params, body func(compute.Verbs)) error {
	d.p = p
	d.err = nil
	body(compute.NewVerbs(d))
	d.p = nil
	return d.err
}

// Do computes op at once.
func (d *Device) Do(op compute.Op) { op.On(d) }

// Host calls f at once.
func (d *Device) Host(f func() error) { d.err = cmp.Or(d.err, f()) }

// memory holds the elements that tensors are views of.
type memory struct{ data []float32 }

// Tensor allocates an activation [rows, cols].
func (d *Device) Tensor(rows, cols int) (compute.Tensor, error) {
	return compute.Tensor{Rows: rows, Cols: cols, Mem: &memory{make([]float32, rows*cols)}}, nil
}

// Read returns row i of t.
func (d *Device) Read(t compute.Tensor, i int) ([]float32, error) { return row(t, i), nil }

func row(t compute.Tensor, i int) []float32 {
	return t.Mem.(*memory).data[i*t.Cols:][:t.Cols]
}

// weight is a copy of a source in the file's layout.
type weight struct {
	data  []byte
	use   compute.Use
	order []int32 // neuron i is the source's order[i]; nil: i
}

// neuron returns the source's number of neuron i.
func (m *weight) neuron(i int) int {
	if m.order == nil {
		return i
	}
	return int(m.order[i])
}

// Matrix keeps a copy of src in the file's layout.
func (d *Device) Matrix(src compute.Source, use compute.Use) (*compute.Matrix, error) {
	if err := src.Check(); err != nil {
		return nil, err
	}
	m := &weight{data: slices.Clone(src.Data), use: use, order: slices.Clone(src.Order)}
	return &compute.Matrix{Name: src.Name, Type: src.Type, Rows: src.Rows, Cols: src.Cols, Mem: m}, nil
}

// Vector decodes src.
func (d *Device) Vector(src compute.Source) (*compute.Vector, error) {
	if err := src.CheckVector(); err != nil {
		return nil, err
	}
	v := make([]float32, src.Cols)
	quant.Decode(src.Type, v, src.Data)
	return &compute.Vector{Name: src.Name, Len: src.Cols, Mem: v}, nil
}

// weights is row r of m. [m.Cols]
func weights(m *compute.Matrix, r int) []float32 {
	mem := m.Mem.(*weight)
	if mem.use == compute.Rows {
		r = mem.neuron(r)
	}
	size := m.Type.RowBytes(m.Cols)
	w := make([]float32, m.Cols)
	quant.Decode(m.Type, w, mem.data[r*size:][:size])
	return w
}

// neurons returns the down columns of m [neuron][n_embd], whether they are its rows or its columns.
func neurons(m *compute.Matrix) [][]float32 {
	mem := m.Mem.(*weight)
	rows := make([][]float32, m.Rows)
	for r := range rows {
		rows[r] = weights(m, r)
	}
	if mem.use != compute.Columns {
		return rows
	}
	columns := make([][]float32, m.Cols)
	for i := range columns {
		columns[i] = make([]float32, m.Rows)
		for r := range rows {
			columns[i][r] = rows[r][mem.neuron(i)]
		}
	}
	return columns
}

// elements is v, or nil if there is none. [v.Len]
func elements(v *compute.Vector) []float32 {
	if v == nil {
		return nil
	}
	return v.Mem.([]float32)
}
