package kernel

import (
	"unsafe"

	"github.com/powerinfer-go/powerinfer/internal/compute/cpu/layout"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// shortVectors has prompts' products with F16 go in integers of 16 bits, by VPDPWSSD.
func (k *Kernels) shortVectors() {
	k.shorts = shortRow
	k.types[quant.F16].pairs = pairTiles{
		vectors: []pairVector{
			{12, pairsShortsVectors12}, {8, pairsShortsVectors8}, {4, pairsShortsVectors4}, {2, pairsShortsVectors2}, {1, pairsShortsVectors1},
		},
		fill: fillPairsAMX, shorten: shortenF16, terms: 1,
	}
}

// bfloatVectors has prompts' products in BF16 go by vectors of rows.
func (k *Kernels) bfloatVectors() {
	p := pairTiles{
		vectors: []pairVector{{12, pairsBF16Vectors12}, {8, pairsBF16Vectors8}, {4, pairsBF16Vectors4}, {2, pairsBF16Vectors2}, {1, pairsBF16Vectors1}},
		fill:    fillPairsAMX, terms: 1,
	}
	k.types[quant.BF16].pairs = p
	p.split = func(dst *byte, _ uintptr, w *byte, n uintptr) { expandF16BF16(dst, w, n) }
	k.types[quant.F16].pairs = p
}

// shortenF16 writes n groups of a row of F16.
func shortenF16(dst, w *byte, n uintptr) float32 {
	var most float32
	var squares float64
	sizeF16Shorts(&most, &squares, w, n)
	factor, scale := shortFactor(most, squares)
	shortsF16(dst, w, factor, n)
	return scale
}

// shortRow writes a row of activations: integers, scales, and what lies behind the last group as it is.
func shortRow(dst []byte, x []float32) {
	_ = dst[:shortActs(len(x))]
	groups := len(x) / bf16Group
	scales := unsafe.Slice((*float32)(unsafe.Pointer(&dst[shortScales(len(x))])), (groups+pairGroups-1)/pairGroups)
	for i := range scales {
		from, n := i*layout.ShortPart, uintptr(min(pairGroups, groups-i*pairGroups))
		var most float32
		var squares float64
		sizeF32Shorts(&most, &squares, (*byte)(unsafe.Pointer(&x[from])), n)
		factor, scale := shortFactor(most, squares)
		shortsF32(&dst[2*from], (*byte)(unsafe.Pointer(&x[from])), factor, n)
		scales[i] = scale
	}
	tail := unsafe.Slice((*float32)(unsafe.Pointer(&dst[shortActs(len(x))-shortTail])), bf16Group)
	copy(tail, x[groups*bf16Group:])
}
