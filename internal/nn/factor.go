package nn

import (
	"strings"

	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// Suffixes of the tensors that a matrix of NVFP4 may have beside it, in the place of "weight". The factor multiplies
// products: one number for a matrix, one for each expert where matrices lie one behind the other. That of the input
// says how far its publisher's kernels scale activations before they turn these into four bits, which no device here
// does, nor does llama.cpp.
const (
	FactorSuffix      = ".scale"
	inputFactorSuffix = ".input_scale"
)

// scaled returns t in the type that has the factor of each matrix in its blocks, or t itself where it has none. Its
// data are valid until the next call.
func (b *binding) scaled(t *gguf.Tensor) *gguf.Tensor {
	base, weight := strings.CutSuffix(t.Name, ".weight")
	if t.Type != quant.NVFP4 || !weight {
		return t
	}
	if b.File.Tensor(base+inputFactorSuffix) != nil {
		b.factors(base+inputFactorSuffix, t)
	}
	if b.File.Tensor(base+FactorSuffix) == nil {
		return t
	}
	factors := b.factors(base+FactorSuffix, t)
	if b.Err != nil {
		return nil
	}
	out := &gguf.Tensor{Name: t.Name, Type: quant.NVFP4Scaled, Shape: t.Shape}
	if t.Data != nil {
		size := out.Type.RowBytes(t.Elems())
		if cap(b.room) < size {
			b.room = make([]byte, size)
		}
		out.Data = b.room[:size]
		each := len(t.Data) / len(factors)
		for i, factor := range factors {
			quant.Scaled(out.Data[i*size/len(factors):][:size/len(factors)], t.Data[i*each:][:each], factor)
		}
	}
	b.original[out] = t
	return out
}

// factors reads the numbers of t's matrices.
func (b *binding) factors(name string, t *gguf.Tensor) []float32 {
	n := 1
	if len(t.Shape) == 3 {
		n = t.Shape[2]
	}
	f := b.File.Tensor(name)
	if f.Elems() != n {
		b.Fail("tensor %q has shape %v, and %q has %d matrices: the file is damaged; convert it again", name, f.Shape, t.Name, n)
		return nil
	}
	whole := &Binder{binding: b}
	if f.Data == nil { // the shapes alone are known
		whole.take(name, n, 1)
		return make([]float32, n)
	}
	return whole.Floats(name, n)
}
