package nn

import (
	"encoding/binary"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// Table reads a matrix with any number of rows into host memory. [rows·cols] It returns nil if the file has none.
func (b *Binder) Table(name string, cols int) []float32 {
	if !b.Has(name) || b.Err != nil {
		return nil
	}
	return b.table(name, cols, b.Rows(name))
}

// table is Table for a matrix with that many rows.
func (b *Binder) table(name string, cols, rows int) []float32 {
	b = b.as(InTable)
	t := b.take(name, cols, rows)
	if t == nil {
		return nil
	}
	if t.Type.Whole() {
		b.Fail("tensor %q: a matrix of type %s is not supported", t.Name, t.Type)
		return nil
	}
	out := make([]float32, t.Rows()*cols)
	if !b.outline {
		quant.Decode(t.Type, out, t.Data)
	}
	b.loaded(t, true)
	return out
}

// numbers binds a vector that is not in the file; what names it in errors.
func (b *Binder) numbers(what string, x []float32) *compute.Vector {
	if b.Err != nil {
		return nil
	}
	v, err := b.Dev.Vector(compute.Source{Name: what, Type: quant.F32, Rows: 1, Cols: len(x), Data: encoded(x), Split: compute.Split{Tier: b.Tier}})
	if err != nil {
		b.Fail("%w", err)
		return nil
	}
	return v
}

// encoded returns x as F32.
func encoded(x []float32) []byte {
	data := make([]byte, quant.F32.RowBytes(len(x)))
	quant.Encode(quant.F32, data, x)
	return data
}

// ones binds a vector of n ones: the weights of a norm that has none in the file.
func (b *Binder) ones(n int) *compute.Vector {
	data := make([]float32, n)
	for i := range data {
		data[i] = 1
	}
	src := compute.Source{Name: "ones", Type: quant.F32, Rows: 1, Cols: n, Data: encoded(data), Split: compute.Split{Tier: b.Tier}}
	v, err := b.Dev.Vector(src)
	if err != nil {
		b.Fail("%w", err)
	}
	return v
}

// Floats reads a vector into host memory.
func (b *Binder) Floats(name string, n int) []float32 {
	t := b.take(name, n, 1)
	if t == nil {
		return nil
	}
	if t.Type.BlockElems() != 1 || t.Type.Whole() {
		b.Fail("tensor %q: a vector of type %s is not supported", t.Name, t.Type)
		return nil
	}
	out := make([]float32, n)
	if t.Data != nil { // otherwise only shapes are known and needed
		quant.Decode(t.Type, out, t.Data)
	} else {
		for i := range out {
			out[i] = 1
		}
	}
	b.loaded(t, false)
	return out
}

// TokenMap reads a list of distinct tokens below vocab into host memory: name, of whole numbers. It returns nil if the
// file has none.
func (b *Binder) TokenMap(name string, vocab int) []int32 {
	if !b.Has(name) || b.Err != nil {
		return nil
	}
	b = b.as(InTable)
	n := b.Cols(name)
	t := b.take(name, n, 1)
	if t == nil {
		return nil
	}
	if b.held != nil {
		t.Type = quant.I64
	}
	if !t.Type.Whole() {
		b.Fail("tensor %q: tokens of type %s are not supported; I64 and I32 are", t.Name, t.Type)
		return nil
	}
	out, seen := make([]int32, n), make(map[int64]bool, n)
	for i := range out {
		if t.Data == nil { // only shapes are known and needed
			break
		}
		id := int64(0)
		if t.Type == quant.I64 {
			id = int64(binary.LittleEndian.Uint64(t.Data[8*i:]))
		} else {
			id = int64(int32(binary.LittleEndian.Uint32(t.Data[4*i:])))
		}
		if id < 0 || id >= int64(vocab) || seen[id] {
			b.Fail("tensor %q: row %d stands for token %d, which is none of the model's %d or was named before: the file is damaged, or of another model; download or convert it again", t.Name, i, id, vocab)
			return nil
		}
		seen[id], out[i] = true, int32(id)
	}
	b.loaded(t, true)
	return out
}

// tableOf is Table for a matrix with that many rows, unless the file's has other rows.
func (b *Binder) tableOf(name string, cols, rows int) []float32 {
	if b.held != nil {
		return b.table(name, cols, rows)
	}
	return b.Table(name, cols)
}
