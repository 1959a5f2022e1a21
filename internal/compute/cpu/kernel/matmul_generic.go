package kernel

import (
	"math"
	"unsafe"

	"github.com/powerinfer-go/powerinfer/internal/compute/cpu/layout"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// dotGeneric returns the product of one packed row and one row of quantised activations, n superblocks each: the
// definition of every quantised tile. Lane j accumulates block j, whose integer sum is exact; lanes are summed
// pairwise at the end.
func dotGeneric(t quant.Type, row, act []byte, n int) float32 {
	var acc [8]float32
	var w superblock
	form := t.Traits().Scales
	minima, halves, small := form.Minima(), form == quant.NibbleMinima, form == quant.SmallFloats
	for s := range n {
		w.read(t, row, s)
		x := act[s*layout.ActBytes:][:layout.ActBytes]
		f32 := (*[layout.ActBytes / 4]float32)(unsafe.Pointer(unsafe.SliceData(x)))
		q := (*[quant.QKK]int8)(unsafe.Pointer(unsafe.SliceData(x)))
		for j := range 8 {
			dx := f32[layout.ActScale/4+j]
			first, second := dotFour(w.q[4*j:], q[4*j:]), dotFour(w.q[4*j+128:], q[4*j+128:])
			if small {
				acc[j] = fma(fma(float32(first), w.part[2*j], float32(second)*w.part[2*j+1]), dx, acc[j])
				continue
			}
			isum := first*w.half[2*j] + second*w.half[2*j+1]
			if halves {
				sums := (*[16]int16)(unsafe.Pointer(&x[layout.ActPairs]))
				least := w.least[2*j]*int32(sums[2*j]) + w.least[2*j+1]*int32(sums[2*j+1])
				acc[j] = fma(fma(float32(isum), w.scale[j], -float32(float32(least)*w.min[j])), dx, acc[j])
				continue
			}
			acc[j] = fma(float32(isum), w.scale[j]*dx, acc[j])
			if minima {
				acc[j] = fma(-w.min[j], f32[layout.ActDSum/4+j], acc[j])
			}
		}
	}
	return sumLanes(&acc)
}

// dotFour returns the product of half a block of quants and activations. Each of four vectors of 32 bytes has four
// elements of the half-block.
func dotFour(w, x []int8) (sum int32) {
	w, x = w[:100], x[:100]
	for v := 0; v < 100; v += 32 {
		a, b := (*[4]int8)(w[v:]), (*[4]int8)(x[v:])
		sum += int32(a[0])*int32(b[0]) + int32(a[1])*int32(b[1]) + int32(a[2])*int32(b[2]) + int32(a[3])*int32(b[3])
	}
	return sum
}

// fma rounds once; the intermediate double holds the exact product, so a second rounding differs only in rare ties.
func fma(a, b, c float32) float32 { return float32(math.FMA(float64(a), float64(b), float64(c))) }

// sumLanes returns the tree that VHADDPS makes.
func sumLanes(a *[8]float32) float32 {
	return ((a[0] + a[1]) + (a[2] + a[3])) + ((a[4] + a[5]) + (a[6] + a[7]))
}

// dotFloatGeneric returns the product of a float row and x over n groups of eight elements, one lane per element of a
// group.
func dotFloatGeneric(t quant.Type, row []byte, x []float32, n int) float32 {
	var acc [8]float32
	var w [8]float32
	size := t.RowBytes(8)
	for g := range n {
		quant.Decode(t, w[:], row[g*size:][:size])
		for j := range acc {
			acc[j] = fma(w[j], x[8*g+j], acc[j])
		}
	}
	return sumLanes(&acc)
}

// tileGeneric makes the one-by-one tile of type t, in the calling convention of the assembly tiles.
func tileGeneric(t quant.Type) tile {
	if t.Quantised() {
		return func(out *float32, _ uintptr, w *byte, rowBytes uintptr, x *byte, _, n uintptr) {
			*out = dotGeneric(t, unsafe.Slice(w, rowBytes), unsafe.Slice(x, n*layout.ActBytes), int(n))
		}
	}
	return func(out *float32, _ uintptr, w *byte, rowBytes uintptr, x *byte, _, n uintptr) {
		*out = dotFloatGeneric(t, unsafe.Slice(w, rowBytes), unsafe.Slice((*float32)(unsafe.Pointer(x)), n*8), int(n))
	}
}
