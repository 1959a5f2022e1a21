package model

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
	factorSuffix      = ".scale"
	inputFactorSuffix = ".input_scale"
)

// Loaded returns the type, which is that of most of it, and the bytes that a tensor of f, c's file, has when it is
// loaded. copied: they are not the file's own, even where that is computed on as it is mapped, for a factor is put into
// them, or heads gives them another form.
func (c *Config) Loaded(f *gguf.File, t *gguf.Tensor) (typ quant.Type, bytes int64, copied bool) {
	if b := c.shapeOf(t.Name); b != nil && b.Latent > 0 && strings.HasSuffix(t.Name, ".attn_kv_b.weight") {
		return turned(t.Type), b.latentBytes(t.Type), true
	}
	base, weight := strings.CutSuffix(t.Name, ".weight")
	if t.Type != quant.NVFP4 || !weight || f.Tensor(base+factorSuffix) == nil {
		return t.Type, t.Bytes(), false
	}
	return quant.NVFP4Scaled, int64(quant.NVFP4Scaled.RowBytes(t.Elems())), true
}

// scaled returns t in the type that has the factor of each matrix in its blocks, or t itself where it has none. Its
// data are valid until the next call.
func (b *binder) scaled(t *gguf.Tensor) *gguf.Tensor {
	base, weight := strings.CutSuffix(t.Name, ".weight")
	if t.Type != quant.NVFP4 || !weight {
		return t
	}
	if b.has(base + inputFactorSuffix) {
		b.factors(base+inputFactorSuffix, t)
	}
	if !b.has(base + factorSuffix) {
		return t
	}
	factors := b.factors(base+factorSuffix, t)
	if b.err != nil {
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
func (b *binder) factors(name string, t *gguf.Tensor) []float32 {
	n := 1
	if len(t.Shape) == 3 {
		n = t.Shape[2]
	}
	f := b.f.Tensor(name)
	if f.Elems() != n {
		b.fail("tensor %q has shape %v, and %q has %d matrices: the file is damaged; convert it again", name, f.Shape, t.Name, n)
		return nil
	}
	if f.Data == nil { // the shapes alone are known
		b.take(name, n, 1)
		return make([]float32, n)
	}
	return b.floats(name, n)
}
