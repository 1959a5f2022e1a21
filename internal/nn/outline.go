package nn

import (
	"context"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
)

// NewOutline returns a binder that loads no weights. The program that it binds cannot compute, but shows a model's
// parts and what it stores, even if the file's tensors have only shapes. Vectors in host memory that are computed from
// matrices are zero.
func NewOutline(f *gguf.File, plan Plan) *Binder {
	b := NewBinder(context.Background(), f, shapes{}, plan, false, nil, nil)
	b.outline = true
	return b
}

// shapes is a device for the shapes of weights.
type shapes struct{ compute.Device }

func (shapes) Matrix(src compute.Source, _ compute.Use) (*compute.Matrix, error) {
	return &compute.Matrix{Name: src.Name, Type: src.Type, Rows: src.Rows, Cols: src.Cols}, nil
}

func (shapes) Vector(src compute.Source) (*compute.Vector, error) {
	return &compute.Vector{Name: src.Name, Len: src.Cols}, nil
}

func (shapes) Tensor(rows, cols int) (compute.Tensor, error) {
	return compute.Tensor{Rows: rows, Cols: cols, Mem: new(byte)}, nil
}

func (shapes) Set(rows, n int) (compute.Set, error) {
	return compute.Set{Rows: rows, N: n, Mem: new(byte)}, nil
}

func (shapes) Choice(rows, used, n int) (compute.Choice, error) {
	return compute.Choice{Rows: rows, Used: used, N: n, Mem: new(byte)}, nil
}

// decoded returns n, the number of parts of a tensor that are decoded: an outline decodes none.
func (b *binding) decoded(n int) int {
	if b.outline {
		return 0
	}
	return n
}
