package cpu

import (
	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/compute/cpu/kernel"
)

// Restorable says how Restore gives m's neurons back, as Rows or as Columns; false where it cannot.
func (d *Device) Restorable(m *compute.Matrix) (compute.Use, bool) {
	w := mem(m)
	if !kernel.Restorable(m.Type) && w.packed {
		return 0, false
	}
	switch w.layout {
	case neurons:
		return compute.Rows, true
	case groups:
		return compute.Columns, true
	}
	return 0, false
}

// Restore gives neurons [from, to) of m back as a file has them, in scratch, which has room for them, or where they lie. Neurons given back as columns
// come in whole blocks.
func (d *Device) Restore(m *compute.Matrix, from, to int, scratch []byte) compute.Source {
	w := mem(m)
	src := compute.Source{Name: m.Name, Type: m.Type, Rows: to - from, Cols: m.Cols}
	if w.layout == groups {
		src.Rows, src.Cols = m.Rows, to-from
		src.Data = scratch[:src.Rows*src.Type.RowBytes(src.Cols)]
		d.restoreGroups(w, src, from/kernel.GroupNeurons)
		return src
	}
	stored := w.data[from*w.rowBytes : to*w.rowBytes]
	size := src.Type.RowBytes(src.Cols)
	if w.packed && kernel.Quantised(m.Type) {
		src.Data = scratch[:src.Rows*size]
		d.batch.Run((src.Rows+packRows-1)/packRows, func(chunk, _ int) {
			for r := chunk * packRows; r < min(src.Rows, (chunk+1)*packRows); r++ {
				kernel.RestoreRow(m.Type, src.Data[r*size:][:size], stored[r*w.rowBytes:][:w.rowBytes], src.Cols)
			}
		})
		return src
	}
	if m.Rows*w.rowBytes != len(w.data) { // columns, transposed when they were taken in
		src.Cols = m.Rows
	}
	src.Data = stored
	return src
}

// restoreGroups writes groups from first on to src, whose data are whole groups of columns.
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
