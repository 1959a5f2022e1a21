package nn

import (
	"fmt"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// Filter binds the weights of a convolution over areas that do not overlap, name.weight [out, channels, height, width],
// as a matrix [out, in] over an area's elements, in the order channel, row, column, and name.bias [out]. Files may have
// further filters for other frames, name.weight.1 to name.weight.(times-1). The matrix is then the sum of all filters:
// their result for areas that do not change.
func (b *Binder) Filter(name string, out, in, times int, bias Presence) Linear {
	var of []*gguf.Tensor
	for i := range times {
		suffix := ""
		if i > 0 {
			suffix = fmt.Sprintf(".%d", i)
		}
		t := b.claim(name + ".weight" + suffix)
		if t == nil || !b.isFilter(t, out, in) {
			return Linear{}
		}
		if times > 1 && t.Type.Whole() {
			b.Fail("tensor %q: a matrix of type %s is not supported", t.Name, t.Type)
			return Linear{}
		}
		of = append(of, t)
	}
	t := of[0]
	src := compute.Source{Name: t.Name, Type: t.Type, Data: t.Data, Pinned: b.pinned}
	if times > 1 {
		src.Type, src.Data, src.Pinned = quant.F32, b.sum(of), false
	}
	return Linear{W: b.dense(src, out, in, of...), B: b.Bias(name, out, bias)}
}

// isFilter fails unless t has the shape of that many filters over that many elements.
func (b *Binder) isFilter(t *gguf.Tensor, out, in int) bool {
	if t.Elems() != out*in || t.Shape[len(t.Shape)-1] != out && t.Rows() != out || t.Type.BlockElems() > 1 && t.Shape[0] != in {
		b.Fail("tensor %q has shape %v, not that of %d filters of %d elements: the file is damaged, or its keys are those of another model; convert it again", t.Name, t.Shape, out, in)
		return false
	}
	return true
}

// sum returns the sum of tensors of one shape as F32, or nil if only shapes are known.
func (b *Binder) sum(of []*gguf.Tensor) []byte {
	if b.outline {
		return nil
	}
	all, one := make([]float32, of[0].Elems()), make([]float32, of[0].Elems())
	for _, t := range of {
		quant.Decode(t.Type, one, t.Data)
		for i, v := range one {
			all[i] += v
		}
	}
	return encoded(all)
}

// dense makes a matrix [out, in] of src, which has what tensors hold.
func (b *Binder) dense(src compute.Source, out, in int, of ...*gguf.Tensor) *compute.Matrix {
	src.Rows, src.Cols, src.Split = out, in, compute.Split{Tier: b.Tier, Bound: b.whole(out)}
	m, err := b.Dev.Matrix(src, compute.Precise)
	if err != nil {
		b.Fail("%w", err)
		return nil
	}
	for _, t := range of {
		b.loaded(t, !src.Pinned)
	}
	return m
}

// Transposed binds name.weight, which files hold by columns [in, out], as the matrix [out, in].
func (b *Binder) Transposed(name string, out, in int) Linear {
	t := b.take(name+".weight", out, in)
	if t == nil {
		return Linear{}
	}
	return Linear{W: b.rearranged(t, out, in, func(row, col int) int { return col*out + row })}
}

// Merger binds name.weight and name.bias [out]. The weight has n elements of each of width columns, one after another,
// and becomes the matrix [out, n·width] over n rows of width columns. It is a convolution over areas of n elements, or
// a product with them as torch's unfold arranges them.
func (b *Binder) Merger(name string, out, width, n int, bias Presence) Linear {
	t := b.claim(name + ".weight")
	if t == nil || !b.isFilter(t, out, n*width) {
		return Linear{}
	}
	w := b.rearranged(t, out, n*width, func(row, col int) int { return row*n*width + col%width*n + col/width })
	return Linear{W: w, B: b.Bias(name, out, bias)}
}

// rearranged makes a matrix [out, in] of t's elements; from returns the element that is at a row and a column.
func (b *Binder) rearranged(t *gguf.Tensor, out, in int, from func(row, col int) int) *compute.Matrix {
	src := compute.Source{Name: t.Name, Type: t.Type}
	data := t.Data
	if b.outline {
		data = nil
	}
	if t.Type.BlockElems() > 1 { // elements that share scales part
		src.Type = quant.F32
		if data != nil {
			all := make([]float32, out*in)
			quant.Decode(t.Type, all, data)
			data = encoded(all)
		}
	}
	if data != nil {
		size := src.Type.RowBytes(1)
		src.Data = make([]byte, len(data))
		for i := range out {
			for j := range in {
				copy(src.Data[(i*in+j)*size:][:size], data[from(i, j)*size:])
			}
		}
	}
	return b.dense(src, out, in, t)
}
