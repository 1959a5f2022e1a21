package hybrid

import (
	"fmt"

	"github.com/powerinfer-go/powerinfer/internal/compute"
)

// neurons returns neurons [from, to) of src, in src's order: rows, or columns for Columns, but rows of stacked
// matrices. It copies them if they are not contiguous in src.
func neurons(src compute.Source, use compute.Use, from, to int) (compute.Source, error) {
	part := src
	part.Order = nil
	if src.Disk != nil {
		if use == compute.Columns && src.Stack == 0 {
			return part, fmt.Errorf("tensor %q: its columns cannot stay on disk, where neurons are rows", src.Name)
		}
		rows := src.Rows / src.Disk.Units // rows of a unit
		if part.Disk = src.Disk.From(from/rows, (to-from)/rows); src.Order != nil {
			part.Disk, part.Order = src.Disk.From(0, (to-from)/rows), src.Order[from/rows:to/rows]
		}
	}
	if src.Stack > 0 {
		_, rows := src.Stacked()
		if from%rows != 0 || to%rows != 0 {
			return part, fmt.Errorf("tensor %q: rows %d to %d are not whole matrices of %d rows", src.Name, from, to, rows)
		}
		part.Stack, use = (to-from)/rows, compute.Rows
	}
	if src.Data == nil { // only shapes are known and needed
		if part.Rows = to - from; use == compute.Columns {
			part.Rows, part.Cols = src.Rows, to-from
		}
		return part, nil
	}
	if use == compute.Columns {
		return columns(part, src.Order, from, to)
	}
	size := src.Type.RowBytes(src.Cols)
	part.Rows = to - from
	if src.Order == nil || src.Disk != nil {
		part.Data = src.Data[from*size : to*size]
		return part, nil
	}
	part.Pinned = false
	part.Data = make([]byte, 0, part.Rows*size)
	for _, row := range src.Order[from:to] {
		part.Data = append(part.Data, src.Data[int(row)*size:][:size]...)
	}
	return part, nil
}

// columns copies blocks of every row.
func columns(part compute.Source, order []int32, from, to int) (compute.Source, error) {
	elems, size := part.Type.BlockElems(), part.Type.BlockBytes()
	if from%elems != 0 || to%elems != 0 || order != nil && elems > 1 {
		return part, fmt.Errorf("tensor %q: %d columns of %s share scales and cannot be divided or reordered", part.Name, elems, part.Type)
	}
	row, data := part.Type.RowBytes(part.Cols), part.Data
	part.Pinned = false
	part.Cols = to - from
	part.Data = make([]byte, 0, part.Rows*part.Type.RowBytes(part.Cols))
	for r := range part.Rows {
		in := data[r*row:][:row]
		if order == nil {
			part.Data = append(part.Data, in[from/elems*size:to/elems*size]...)
			continue
		}
		for _, c := range order[from:to] {
			part.Data = append(part.Data, in[int(c)*size:][:size]...)
		}
	}
	return part, nil
}
