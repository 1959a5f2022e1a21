package kernel

import (
	"encoding/binary"
	"math"
	"unsafe"

	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// Processors with AVX512_BF16, or with BFDOT and BFMMLA, multiply BF16 weights in BF16: activations are rounded to it (to
// nearest, ties to even), products of pairs are added in float32. On Arm F16 weights of feed-forward layers are rounded
// to it, too. They lose three bits of eleven, which is far less than what int8 activations cost quantised types, and
// prompts are twice as fast as in float32. Weights of attention and the head, on which quality depends most, keep them:
// see Exact.

// bf16Group is the number of elements that a step of the products in BF16 takes.
const bf16Group = 32

// bf16Acts returns the size in bytes of a row of cols activations in BF16: whole groups, and one more, so that rows do not share
// the sets of the first-level cache.
func bf16Acts(cols int) int { return ((cols+bf16Group-1)/bf16Group + 1) * bf16Group * 2 }

// roundBF16Generic writes x as BF16 to dst [bf16Acts(len(x))], and zeros after it.
func roundBF16Generic(dst []byte, x []float32) {
	d := unsafe.Slice((*uint16)(unsafe.Pointer(unsafe.SliceData(dst))), len(dst)/2)
	for i, v := range x {
		d[i] = flushBF16(v)
	}
	clear(d[len(x):])
}

// RoundsTo returns the type to which products round weights of type t; t itself if they do not round.
func (k *Kernels) RoundsTo(t quant.Type) quant.Type {
	if k.types[t].rounded != nil {
		return quant.BF16
	}
	return t
}

// RoundRow writes the cols weights of a row of t as RoundsTo(t), so that no product needs to. dst [2·cols]
func (k *Kernels) RoundRow(t quant.Type, dst, src []byte, cols int) {
	_, _ = dst[2*cols-1], src[2*cols-1]
	done := 0
	if f := k.types[t].rounded; f != nil && cols >= bf16Group {
		f(&dst[0], &src[0], uintptr(cols/bf16Group))
		done = cols / bf16Group * bf16Group
	}
	for i := done; i < cols; i++ {
		binary.LittleEndian.PutUint16(dst[2*i:], uint16(math.Float32bits(bf16Weight(t, src, i))>>16))
	}
}

// flushBF16 rounds v, with denormals as zero, as the instructions do.
func flushBF16(v float32) uint16 {
	if math.Float32bits(v)&0x7f800000 == 0 {
		return uint16(math.Float32bits(v) >> 16 & 0x8000)
	}
	return quant.BF16FromF32(v)
}

// bf16Weight is element i of a row of F16 or BF16 as the products take it.
func bf16Weight(t quant.Type, row []byte, i int) float32 {
	bits := uint16(row[2*i]) | uint16(row[2*i+1])<<8
	if t == quant.F16 {
		bits = flushBF16(quant.F32FromF16(bits))
	}
	return flushed(math.Float32frombits(uint32(bits) << 16))
}

// flushed is v, or zero where v is denormal.
func flushed(v float32) float32 {
	if math.Float32bits(v)&0x7f800000 == 0 {
		return float32(math.Copysign(0, float64(v)))
	}
	return v
}

// dotBF16Generic returns the product of a row of F16 or BF16 and activations in BF16 over n groups: lane j of 16 takes
// elements 2j and 2j+1 of every group, the odd one first. It defines the products in BF16.
func dotBF16Generic(t quant.Type, row []byte, x []uint16, n int) float32 {
	var acc [16]float32
	for g := range n {
		for j := range acc {
			for _, e := range [2]int{2*j + 1, 2 * j} {
				i := g*bf16Group + e
				acc[j] = flushed(fma(bf16Weight(t, row, i), flushed(math.Float32frombits(uint32(x[i])<<16)), acc[j]))
			}
		}
	}
	var half [8]float32
	for j := range half {
		half[j] = acc[j] + acc[j+8]
	}
	return sumLanes(&half)
}

// dotPairsGeneric is dotBF16Generic as BFDOT and BFMMLA define it: of the four vectors of eight elements in a group the
// first and the third go into the lower four of eight lanes, the others into the upper ones, a pair into each. The two
// products of a pair, their sum and its sum with the lane are rounded to odd (Arm's Architecture Reference Manual,
// BFDotAdd).
func dotPairsGeneric(t quant.Type, row []byte, x []uint16, n int) float32 {
	var acc [8]float32
	for e := range n * bf16Group / 2 {
		lane := &acc[e/4%2*4+e%4]
		product := func(i int) float64 {
			return float64(bf16Weight(t, row, i)) * float64(flushed(math.Float32frombits(uint32(x[i])<<16))) // exact
		}
		*lane = addOdd(float64(*lane), float64(addOdd(float64(toOdd(product(2*e), 0)), float64(toOdd(product(2*e+1), 0)))))
	}
	return sumLanes(&acc)
}

// addOdd returns a+b, rounded to odd.
func addOdd(a, b float64) float32 {
	sum := a + b
	part := sum - a
	return toOdd(sum, (a-(sum-part))+(b-part))
}

// toOdd rounds v+rest to odd, where rest is less than v's last bit: a sum between two neighbouring floats becomes the
// neighbour with an odd significand. Denormals become zero.
func toOdd(v, rest float64) float32 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return float32(v)
	}
	wide := math.Float64bits(v)
	if rest != 0 { // towards zero, and then to odd
		if math.Signbit(rest) != math.Signbit(v) {
			wide--
		}
		wide |= 1
	}
	const below = 1<<29 - 1 // bits of a float64 below a float32's last one
	towards := wide &^ below
	if wide&below != 0 {
		towards |= below + 1
	}
	return flushed(float32(math.Float64frombits(towards)))
}

// Form is the layout of activations for a type's products.
type Form int

// The forms.
const (
	Floats     Form   = iota // float32 as they are
	Int8                     // superblocks of int8 with scales
	BFloats                  // BF16
	Shorts                   // int16 with scales: see pairs.go
	Tiles                    // BF16 in tiles: see prompts.go
	SuperTiles               // the same in superblocks, of each group four elements of each block
	TermTiles                // two rows of BF16, which add up to nearly the activations, in tiles
	Forms      = iota        // their number
)

// Form returns the form in which products with weights of type t read activations.
func (k *Kernels) Form(t quant.Type) Form {
	switch {
	case t.Quantised():
		return Int8
	case k.bfloat && (t == quant.BF16 || k.RoundsTo(t) == quant.BF16):
		return BFloats
	}
	return Floats
}

// ActRow returns the size in bytes of a row of cols activations.
func (f Form) ActRow(cols int) int {
	switch f {
	case Int8:
		return ActRow(cols)
	case BFloats:
		return bf16Acts(cols)
	case Shorts:
		return shortActs(cols)
	case Tiles, SuperTiles, TermTiles:
		return f.groups(cols) * f.terms() * 2 * bf16Group
	}
	return 4 * cols
}

// Convert writes x in form f, which is neither Floats nor tiled, to dst [f.ActRow(len(x))].
func (k *Kernels) Convert(f Form, dst []byte, x []float32) {
	switch f {
	case BFloats:
		k.round(dst, x)
		return
	case Shorts:
		k.shorts(dst, x)
		return
	}
	k.Quantize(dst, x)
}
