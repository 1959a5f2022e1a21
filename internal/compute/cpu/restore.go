package cpu

import (
	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/compute/cpu/kernel"
)

// Restorable returns the form in which Restore returns the neurons of m, a matrix for Rows or Columns.
func (d *Device) Restorable(m *compute.Matrix) compute.Use {
	if mem(m).layout == neurons {
		return compute.Rows
	}
	return compute.Columns
}

// Restore returns neurons [from, to) of m as a file has them. They are in scratch, which has room for them, or in m's
// own memory. Neurons returned as columns come in whole blocks of their type.
func (d *Device) Restore(m *compute.Matrix, from, to int, scratch []byte) compute.Source {
	w := mem(m)
	src := compute.Source{Name: m.Name, Type: m.Type, Rows: to - from, Cols: m.Cols}
	if w.layout == groups {
		src.Rows, src.Cols = m.Rows, to-from
		src.Data = scratch[:src.Rows*src.Type.RowBytes(src.Cols)]
		d.restoreGroups(w, src, from/kernel.GroupNeurons)
		return src
	}
	if w.layout == plain {
		src.Rows, src.Cols = m.Rows, to-from
		src.Data = scratch[:src.Rows*src.Type.RowBytes(src.Cols)]
		d.restoreColumns(w, src, from)
		return src
	}
	stored := w.data[from*w.rowBytes : to*w.rowBytes]
	size := src.Type.RowBytes(src.Cols)
	if w.packed && m.Type.Quantised() {
		src.Data = scratch[:src.Rows*size]
		d.batch.Run((src.Rows+packRows-1)/packRows, func(chunk, _ int) {
			for r := chunk * packRows; r < min(src.Rows, (chunk+1)*packRows); r++ {
				kernel.RestoreRow(m.Type, src.Data[r*size:][:size], stored[r*w.rowBytes:][:w.rowBytes], 0, src.Cols)
			}
		})
		return src
	}
	if m.Rows*w.rowBytes != len(w.data) { // columns, which were transposed at load
		src.Cols = m.Rows
	}
	src.Data = stored
	return src
}

// restoreColumns writes src.Cols columns of w's rows, from column from on, to src.
func (d *Device) restoreColumns(w *matrix, src compute.Source, from int) {
	size, at := src.Type.RowBytes(src.Cols), src.Type.RowBytes(from)
	d.batch.Run((src.Rows+packRows-1)/packRows, func(chunk, _ int) {
		for r := chunk * packRows; r < min(src.Rows, (chunk+1)*packRows); r++ {
			out, row := src.Data[r*size:][:size], w.data[r*w.rowBytes:][:w.rowBytes]
			if w.packed && src.Type.Quantised() {
				kernel.RestoreRow(src.Type, out, row, from, src.Cols)
			} else {
				copy(out, row[at:])
			}
		}
	})
}

// restoreGroups writes groups, from group first on, to src. src's data are whole groups of columns.
func (d *Device) restoreGroups(w *matrix, src compute.Source, first int) {
	rowBytes := src.Type.RowBytes(src.Cols)
	supers, count := kernel.Super(src.Rows), src.Cols/kernel.GroupNeurons
	d.batch.Run(supers, func(s, _ int) { // each writes rows of its own
		for g := range count {
			group := w.data[(first+g)*w.rowBytes:][:w.rowBytes]
			kernel.RestoreGroup(src.Type, src.Data, group, src.Rows, rowBytes, g, s)
		}
	})
}

// KeepsRows reports whether Rows can return m's rows.
func (d *Device) KeepsRows(m *compute.Matrix) bool {
	w := mem(m)
	return w.layout != groups && w.disk == nil && m.Rows*w.rowBytes == len(w.data)
}

// Rows returns rows [from, to) of m as a file has them, in scratch, which has room for them, or in m's own memory.
func (d *Device) Rows(m *compute.Matrix, from, to int, scratch []byte) compute.Source {
	w := mem(m)
	src := compute.Source{Name: m.Name, Type: m.Type, Rows: to - from, Cols: m.Cols, Data: w.data[from*w.rowBytes : to*w.rowBytes]}
	if !w.packed || !m.Type.Quantised() {
		return src
	}
	stored, size := src.Data, src.Type.RowBytes(src.Cols)
	src.Data = scratch[:src.Rows*size]
	for r := range src.Rows {
		kernel.RestoreRow(m.Type, src.Data[r*size:][:size], stored[r*w.rowBytes:][:w.rowBytes], 0, src.Cols)
	}
	return src
}

// HasPlanes reports whether Planes can return m's rows, or its groups of neurons.
func (d *Device) HasPlanes(m *compute.Matrix) bool {
	w := mem(m)
	return w.disk == nil && (w.layout == groups || w.packed && kernel.HasPlanes(m.Type) && d.KeepsRows(m))
}

// Planes writes row of m by planes, or a group. It may be called on any goroutine.
func (d *Device) Planes(m *compute.Matrix, row int, planes [][]byte) {
	w := mem(m)
	data := w.data[row*w.rowBytes:][:w.rowBytes]
	if w.layout == groups {
		kernel.GroupPlanes(m.Type, planes, data, m.Rows)
		return
	}
	kernel.Planes(m.Type, planes, data, m.Cols)
}
