package kernel

import (
	"unsafe"

	"github.com/powerinfer-go/powerinfer/internal/compute/cpu/layout"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// shortVectors has prompts' products with F16 and BF16 go in integers of 16 bits, by VPDPWSSD.
func (k *Kernels) shortVectors() {
	k.shorts = func(dst []byte, x []float32) { shortRow(sizeF32Shorts, shortsF32, dst, x) }
	p := pairTiles{
		vectors: []pairVector{
			{12, pairsShortsVectors12}, {8, pairsShortsVectors8}, {4, pairsShortsVectors4}, {2, pairsShortsVectors2}, {1, pairsShortsVectors1},
		},
		fill: fillPairsAMX,
	}
	k.shortTypes(p, shortener(sizeF16Shorts, shortsF16), shortener(sizeBF16Shorts, shortsBF16))
}

// narrowVectors is shortVectors for processors without AVX-512: by VPMADDWD, or VPDPWSSD of AVX-VNNI.
func (k *Kernels) narrowVectors(vnni bool) {
	k.shorts = func(dst []byte, x []float32) { shortRow(sizeF32ShortsAVX2, shortsF32AVX2, dst, x) }
	p := pairTiles{
		vectors: []pairVector{{6, pairsShortsAVX26}, {4, pairsShortsAVX24}, {2, pairsShortsAVX22}, {1, pairsShortsAVX21}},
		fill:    fillPairsAVX2, narrow: true,
	}
	if vnni {
		p.vectors = []pairVector{{6, pairsShortsAVXVNNI6}, {4, pairsShortsAVXVNNI4}, {2, pairsShortsAVXVNNI2}, {1, pairsShortsAVXVNNI1}}
	}
	k.shortTypes(p, shortener(sizeF16ShortsAVX2, shortsF16AVX2), shortener(sizeBF16ShortsAVX2, shortsBF16AVX2))
}

// shortTypes makes products with F16 and BF16 use p. f16 and bf16 write their rows.
func (k *Kernels) shortTypes(p pairTiles, f16, bf16 func(dst, w *byte, n uintptr) float32) {
	p.shorten = f16
	k.types[quant.F16].pairs = p
	p.shorten = bf16
	k.types[quant.BF16].pairs = p
}

// bfloatVectors has prompts' products in BF16 go by vectors of rows.
func (k *Kernels) bfloatVectors() {
	p := pairTiles{
		vectors: []pairVector{{12, pairsBF16Vectors12}, {8, pairsBF16Vectors8}, {4, pairsBF16Vectors4}, {2, pairsBF16Vectors2}, {1, pairsBF16Vectors1}},
		fill:    fillPairsAMX,
	}
	k.types[quant.BF16].pairs = p
}

// Kernels that write rows as integers of 16 bits.
type (
	sizeShorts  func(x *byte, n uintptr) (most float32, squares float64)
	writeShorts func(dst, x *byte, factor float32, n uintptr)
)

// shortener returns what writes n groups of a row of weights.
func shortener(size sizeShorts, write writeShorts) func(dst, w *byte, n uintptr) float32 {
	return func(dst, w *byte, n uintptr) float32 {
		factor, scale := shortFactor(size(w, n))
		write(dst, w, factor, n)
		return scale
	}
}

// shortRow writes a row of activations: integers, zeros up to a whole group, and scales.
func shortRow(size sizeShorts, write writeShorts, dst []byte, x []float32) {
	_ = dst[:shortActs(len(x))]
	scales := unsafe.Slice((*float32)(unsafe.Pointer(&dst[shortScales(len(x))])), (len(x)+layout.ShortPart-1)/layout.ShortPart)
	for i := range scales {
		part := x[i*layout.ShortPart:][:min(layout.ShortPart, len(x)-i*layout.ShortPart)]
		if len(part)%bf16Group > 0 {
			var padded [layout.ShortPart]float32
			copy(padded[:], part)
			part = padded[:bf16Groups(len(part))*bf16Group]
		}
		at, n := (*byte)(unsafe.Pointer(&part[0])), uintptr(len(part)/bf16Group)
		factor, scale := shortFactor(size(at, n))
		write(&dst[2*i*layout.ShortPart], at, factor, n)
		scales[i] = scale
	}
}
