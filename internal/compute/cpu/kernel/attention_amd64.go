package kernel

import (
	"fmt"
	"unsafe"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

func (a attention) scores(s, q []float32, k rows, ahead []byte, tile, keys, headDim int) {
	if a == scalarAttention {
		scores(s, q, k, tile, keys, headDim)
		return
	}
	_, _, _ = s[tile*compute.PagePositions-1], q[tile*headDim-1], k.data[(keys+7)&^7*k.t.RowBytes(headDim)-1]
	sp, qp := first(s), first(q)
	switch k.t {
	case compute.KVF16:
		kp, ap := pointerTo[uint16](k.data), pointerTo[uint16](ahead)
		switch tile {
		case 1:
			scores1AVX2(sp, qp, kp, ap, keys, headDim)
		case 2:
			scores2AVX2(sp, qp, kp, ap, keys, headDim)
		case 3:
			scores3AVX2(sp, qp, kp, ap, keys, headDim)
		case 4:
			scores4AVX2(sp, qp, kp, ap, keys, headDim)
		case 6:
			scores6AVX2(sp, qp, kp, ap, keys, headDim)
		default:
			panic("kernel: no tile of this many queries")
		}
	case compute.KVBF16:
		kp, ap := pointerTo[uint16](k.data), pointerTo[uint16](ahead)
		switch tile {
		case 1:
			scores1BF16AVX2(sp, qp, kp, ap, keys, headDim)
		case 2:
			scores2BF16AVX2(sp, qp, kp, ap, keys, headDim)
		case 3:
			scores3BF16AVX2(sp, qp, kp, ap, keys, headDim)
		case 4:
			scores4BF16AVX2(sp, qp, kp, ap, keys, headDim)
		case 6:
			scores6BF16AVX2(sp, qp, kp, ap, keys, headDim)
		default:
			panic("kernel: no tile of this many queries")
		}
	case compute.KVF32:
		kp, ap := pointerTo[float32](k.data), pointerTo[float32](ahead)
		switch tile {
		case 1:
			scores1F32AVX2(sp, qp, kp, ap, keys, headDim)
		case 2:
			scores2F32AVX2(sp, qp, kp, ap, keys, headDim)
		case 3:
			scores3F32AVX2(sp, qp, kp, ap, keys, headDim)
		case 4:
			scores4F32AVX2(sp, qp, kp, ap, keys, headDim)
		case 6:
			scores6F32AVX2(sp, qp, kp, ap, keys, headDim)
		default:
			panic("kernel: no tile of this many queries")
		}
	default:
		panic(fmt.Sprintf("kernel: scores of keys in %s", k.t))
	}
}

func (a attention) softmax(s []float32, n int, old float32) (m, sum float32) {
	if a == scalarAttention {
		return softmax(s, n, old)
	}
	_ = s[compute.PagePositions-1]
	return softmaxAVX2(first(s), n, old)
}

func (a attention) accumulate(acc, p []float32, v rows, ahead []byte, tile, keys, headDim int) {
	if a == scalarAttention {
		accumulate(acc, p, v, tile, keys, headDim)
		return
	}
	_, _, _ = acc[tile*headDim-1], p[(tile-1)*compute.PagePositions+keys-1], v.data[(keys-1)*v.t.RowBytes(v.width)+v.t.RowBytes(headDim)-1]
	cp, pp := first(acc), first(p)
	switch v.t {
	case compute.KVF16:
		vp, ap := pointerTo[uint16](v.data), pointerTo[uint16](ahead)
		switch tile {
		case 1:
			accumulate1AVX2(cp, pp, vp, ap, keys, headDim, v.width)
		case 2:
			accumulate2AVX2(cp, pp, vp, ap, keys, headDim, v.width)
		case 3:
			accumulate3AVX2(cp, pp, vp, ap, keys, headDim, v.width)
		case 4:
			accumulate4AVX2(cp, pp, vp, ap, keys, headDim, v.width)
		case 6:
			accumulate6AVX2(cp, pp, vp, ap, keys, headDim, v.width)
		default:
			panic("kernel: no tile of this many queries")
		}
	case compute.KVBF16:
		vp, ap := pointerTo[uint16](v.data), pointerTo[uint16](ahead)
		switch tile {
		case 1:
			accumulate1BF16AVX2(cp, pp, vp, ap, keys, headDim, v.width)
		case 2:
			accumulate2BF16AVX2(cp, pp, vp, ap, keys, headDim, v.width)
		case 3:
			accumulate3BF16AVX2(cp, pp, vp, ap, keys, headDim, v.width)
		case 4:
			accumulate4BF16AVX2(cp, pp, vp, ap, keys, headDim, v.width)
		case 6:
			accumulate6BF16AVX2(cp, pp, vp, ap, keys, headDim, v.width)
		default:
			panic("kernel: no tile of this many queries")
		}
	case compute.KVF32:
		vp, ap := pointerTo[float32](v.data), pointerTo[float32](ahead)
		switch tile {
		case 1:
			accumulate1F32AVX2(cp, pp, vp, ap, keys, headDim, v.width)
		case 2:
			accumulate2F32AVX2(cp, pp, vp, ap, keys, headDim, v.width)
		case 3:
			accumulate3F32AVX2(cp, pp, vp, ap, keys, headDim, v.width)
		case 4:
			accumulate4F32AVX2(cp, pp, vp, ap, keys, headDim, v.width)
		case 6:
			accumulate6F32AVX2(cp, pp, vp, ap, keys, headDim, v.width)
		default:
			panic("kernel: no tile of this many queries")
		}
	default:
		panic(fmt.Sprintf("kernel: sums of values in %s", v.t))
	}
}

// decode writes the elements of whole blocks of t to dst.
func (a attention) decode(t compute.KVType, dst []float32, src []byte) {
	_ = src[:t.RowBytes(len(dst))]
	switch {
	case len(dst) == 0:
	case a == avx2Attention && t == compute.KVQ8_0:
		decodeQ8_0AVX2(first(dst), first(src), len(dst)/quant.QK)
	case a == avx2Attention && t == compute.KVQ4_0:
		decodeQ4_0AVX2(first(dst), first(src), len(dst)/quant.QK)
	default:
		quant.Decode(t.Type(), dst, src)
	}
}

// pointerTo returns the address of memory's first element, if memory has any.
func pointerTo[T any](memory []byte) *T { return (*T)(unsafe.Pointer(unsafe.SliceData(memory))) }
