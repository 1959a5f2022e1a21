package kernel

import (
	"math"
	"unsafe"

	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// ActBytes is the size of one superblock of quantised activations: 256 elements as int8 in lane order
// (vector v holds elements 4v…4v+3 of block j in its dword j), then per block j, in lane j:
// scale f32, scale·Σq f32, -8·Σq, -32·Σq of the first and of the second half, all i32, and both halves' Σq as i16.
// The products' integer sums start at these negatives, which removes the offset of unsigned quants exactly.
const ActBytes = 448

const (
	offScale = 256
	offNeg8  = 288
	offDSum  = 320
	offLo32  = 352
	offHi32  = 384
	offPairs = 416
)

// Super is the number of superblocks that hold cols elements.
func Super(cols int) int { return (cols + quant.QKK - 1) / quant.QKK }

// ActRow is the size in bytes of a row of cols quantised activations.
func ActRow(cols int) int { return Super(cols) * ActBytes }

// quantizeGeneric writes x as superblocks to dst [ActRow(len(x))]: scale amax/127, ties to even.
func quantizeGeneric(dst []byte, x []float32) {
	var block [quant.QKK]float32
	for s := range Super(len(x)) {
		n := copy(block[:], x[s*quant.QKK:])
		clear(block[n:])
		quantizeSuper((*[ActBytes]byte)(dst[s*ActBytes:]), &block)
	}
}

func quantizeSuper(dst *[ActBytes]byte, x *[quant.QKK]float32) {
	f32 := (*[ActBytes / 4]float32)(unsafe.Pointer(dst))
	i32 := (*[ActBytes / 4]int32)(unsafe.Pointer(dst))
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
		f32[offScale/4+j] = d
		f32[offDSum/4+j] = d * float32(all)
		i32[offNeg8/4+j] = -8 * all
		i32[offLo32/4+j] = -32 * sum[0]
		i32[offHi32/4+j] = -32 * sum[1]
		i32[offPairs/4+j] = sum[1]<<16 | sum[0]&0xffff
	}
}
