package kernel

import (
	"math"
	"unsafe"

	"github.com/powerinfer-go/powerinfer/internal/compute/cpu/layout"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// Super returns the number of superblocks that hold cols elements.
func Super(cols int) int { return (cols + quant.QKK - 1) / quant.QKK }

// ActRow returns the size in bytes of a row of cols quantised activations.
func ActRow(cols int) int { return Super(cols) * layout.ActBytes }

// quantizeGeneric writes x as superblocks to dst [ActRow(len(x))]: scale amax/127, ties to even.
func quantizeGeneric(dst []byte, x []float32) {
	var block [quant.QKK]float32
	for s := range Super(len(x)) {
		n := copy(block[:], x[s*quant.QKK:])
		clear(block[n:])
		quantizeSuper((*[layout.ActBytes]byte)(dst[s*layout.ActBytes:]), &block)
	}
}

func quantizeSuper(dst *[layout.ActBytes]byte, x *[quant.QKK]float32) {
	f32 := (*[layout.ActBytes / 4]float32)(unsafe.Pointer(dst))
	i32 := (*[layout.ActBytes / 4]int32)(unsafe.Pointer(dst))
	for j := range 8 {
		b := x[j*32:][:32]
		var top float32
		for _, v := range b {
			top = max(top, float32(math.Abs(float64(v))))
		}
		d := top / 127
		var inv float32
		if top > 0 {
			inv = 127 / top
		}
		var sum [2]int32
		for i, v := range b {
			q := int32(math.RoundToEven(float64(v * inv)))
			dst[i/4*32+j*4+i%4] = byte(int8(q))
			sum[i/16] += q
		}
		all := sum[0] + sum[1]
		f32[layout.ActScale/4+j] = d
		f32[layout.ActDSum/4+j] = d * float32(all)
		i32[layout.ActNeg8/4+j] = -8 * all
		i32[layout.ActLo32/4+j] = -32 * sum[0]
		i32[layout.ActHi32/4+j] = -32 * sum[1]
		i32[layout.ActPairs/4+j] = sum[1]<<16 | sum[0]&0xffff
	}
}
