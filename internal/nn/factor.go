package nn

import (
	"strings"

	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// Suffixes, in place of ".weight", of the tensors that may come with an NVFP4 matrix. FactorSuffix has the factor of
// its products: one number for a matrix, or one for each expert in a stack of matrices. The input factor scales
// activations before the publisher's kernels turn them into four bits. No device here does that, and neither does
// llama.cpp.
const (
	FactorSuffix      = ".scale"
	inputFactorSuffix = ".input_scale"
)

// scaled returns t in a type with blocks that contain the matrix's factor, or t itself if it has none. The data are
// valid until the next call.
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

// factorOf returns the factor that the file has of the matrix name.weight, or 0. One of NVFP4 is part of its blocks.
func (b *Binder) factorOf(name string) float32 {
	if t := b.tensor(name + ".weight"); t == nil || t.Type == quant.NVFP4 || !b.Has(name+FactorSuffix) {
		return 0
	}
	f := b.Floats(name+FactorSuffix, 1)
	if f == nil {
		return 0
	}
	return f[0]
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
	if f.Data == nil { // only shapes are known
		whole.take(name, n, 1)
		return make([]float32, n)
	}
	return whole.Floats(name, n)
}
