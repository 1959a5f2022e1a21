package kernel

import (
	"math"
	"unsafe"

	"github.com/powerinfer-go/powerinfer/internal/compute/cpu/layout"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// Without a matrix unit, vectors multiply the tiles of pairs that terms.go makes. Each lane is a row, and multiplies a
// pair of a token's elements. A prompt's BF16 weights are multiplied in BF16 if the processor has it. Otherwise floats
// become integers of 16 bits, which are faster than float32. layout.ShortPart columns of a row of weights, or of
// activations, share a scale. The scale is the smallest with which no sum of products overflows 32 bits. By the
// Cauchy–Schwarz inequality, no sum overflows if neither operand is longer than the square root of 2³¹. So the scale
// follows from the sum of squares, and integers use all 16 bits. Rounding to integers leaves an error of 0.00014 of an
// operand's length (√(512/12)/46320), at most 0.00035 (√512/2/32767), however its elements are distributed. Rounding
// numbers to BF16 leaves 0.0017 of them, rounding to F16 0.0002.

// pairVector is a product of tiles of pairs by vectors: n groups of pairRows rows for this many tokens. scales are the
// rows' scales. xScale is the first token's scale; the next token's is xStride further on. BF16 has no scales. For each
// group the product prefetches pairAsks lines, aheadStep apart, from ahead on.
type pairVector struct {
	tokens  int
	product func(out *float32, outStride uintptr, w *byte, n uintptr, x *byte, xStride uintptr, scales, xScale *float32, part uintptr, ahead *byte, aheadStep uintptr)
}

// pairAsks is the number of lines that products by vectors prefetch for a group: one for every four pairs of elements.
const pairAsks = layout.PairTile / 64 / 4

const (
	shortNorm = 46320 // the length of integers before they are rounded; √512/2 more is below √2³¹
	shortMost = math.MaxInt16
)

// shortScales returns the offset of the scales in a row of cols activations, and shortActs the row's size, in bytes.
func shortScales(cols int) int { return bf16Acts(cols) }

func shortActs(cols int) int {
	parts := (cols + layout.ShortPart - 1) / layout.ShortPart
	return shortScales(cols) + (4*parts+fetchLine-1)/fetchLine*fetchLine
}

// multiplyVectors is multiplyPairs by vectors.
func (c *call) multiplyVectors(s *blockScratch, out *float32, outStride, t, tokens, from, n int, part uintptr, f *fetching) {
	step := n
	if c.form == Shorts {
		step = pairGroups
	}
	for i := 0; i < tokens; {
		v := c.m.pairs.vector(tokens - i)
		to, x := (*float32)(unsafe.Add(unsafe.Pointer(out), 4*i*outStride)), unsafe.Add(c.x, (t+i)*c.xStride)
		for g, first := 0, part; g < n; g, first = g+step, 0 {
			xScale := (*float32)(unsafe.Add(x, c.term+4*((from+g)/pairGroups)))
			groups := min(step, n-g)
			ahead, aheadStep := f.take(pairAsks * groups)
			v.product(to, uintptr(4*outStride), &s.panel[g*c.pairStep()], uintptr(groups), (*byte)(unsafe.Add(x, 2*bf16Group*(from+g))), uintptr(c.xStride),
				&s.scales[g/pairGroups*pairRows], xScale, first, ahead, aheadStep)
		}
		i += v.tokens
	}
}

// vector returns the product with the most tokens that does not exceed the given number.
func (p *pairTiles) vector(tokens int) *pairVector {
	v := &p.vectors[0]
	for i := 1; v.tokens > tokens; i++ {
		v = &p.vectors[i]
	}
	return v
}

// multiplyNarrow is multiplyVectors by vectors of eight rows, of up to pairGroups groups: the tiles of
// layout.MatrixRows rows, which fill half of a first-level cache of 32 KiB, meet all tokens before the others.
func (c *call) multiplyNarrow(s *blockScratch, out *float32, outStride, t, tokens, from, n int, part uintptr, f *fetching) {
	for tile := range 2 {
		row := tile * layout.MatrixRows
		for i := 0; i < tokens; {
			v := c.m.pairs.vector(tokens - i)
			ahead, aheadStep := f.take(pairAsks * n)
			x := unsafe.Add(c.x, (t+i)*c.xStride)
			v.product((*float32)(unsafe.Add(unsafe.Pointer(out), 4*(i*outStride+row))), uintptr(4*outStride), &s.panel[tile*layout.PairTile], uintptr(n),
				(*byte)(unsafe.Add(x, 2*bf16Group*from)), uintptr(c.xStride), &s.scales[row], (*float32)(unsafe.Add(x, c.term+4*(from/pairGroups))), part, ahead, aheadStep)
			i += v.tokens
		}
	}
}

// shortFactor returns what numbers are multiplied with before they are rounded to integers, and what integers are
// multiplied with afterwards, by the largest magnitude of the numbers and the sum of their squares.
func shortFactor(most float32, squares float64) (factor, scale float32) {
	switch {
	case !(squares <= math.MaxFloat64):
		return 0, float32(math.NaN())
	case most == 0:
		return 0, 0
	}
	f := min(shortNorm/math.Sqrt(squares), shortMost/float64(most), math.MaxFloat32)
	return float32(f), float32(1 / f)
}

// sizeGeneric returns the largest magnitude of x and the sum of its squares. Squares of F16 are summed in lanes of
// float32 first.
func sizeGeneric(t quant.Type, x []float32) (most float32, squares float64) {
	var floats [32]float32
	var sums [32]float64
	for i, v := range x {
		most = max(most, float32(math.Abs(float64(v))))
		j := i % 32
		floats[j] = fma(v, v, floats[j])
		sums[j] = math.FMA(float64(v), float64(v), sums[j])
	}
	if t == quant.F16 {
		for j := range 16 {
			sums[j] = float64(floats[j] + floats[j+16])
		}
	} else {
		for j := range 8 {
			sums[j], sums[j+8] = sums[j]+sums[j+8], sums[j+16]+sums[j+24]
		}
	}
	for n := 8; n > 0; n /= 2 {
		for j := range n {
			sums[j] += sums[j+n]
		}
	}
	return most, sums[0]
}

// shortsGeneric writes x, times factor, as integers.
func shortsGeneric(dst []int16, x []float32, factor float32) {
	for i, v := range x {
		dst[i] = int16(math.RoundToEven(float64(v * factor)))
	}
}

// dotLaneGeneric returns the product of n groups of a row of F16 or BF16 and activations in BF16, one pair after the
// other, the odd element first. It defines the products of pairs in BF16 by vectors.
func dotLaneGeneric(t quant.Type, row []byte, x []uint16, n int) (sum float32) {
	for i := 0; i < n*bf16Group; i += 2 {
		for _, e := range [2]int{i + 1, i} {
			sum = flushed(fma(bf16Weight(t, row, e), flushed(math.Float32frombits(uint32(x[e])<<16)), sum))
		}
	}
	return sum
}

// dotShortsGeneric returns the product of a row of t and activations, both as integers of 16 bits with scales. It
// defines these products.
func dotShortsGeneric(t quant.Type, row, x []float32) (sum float32) {
	var w, v [layout.ShortPart]int16
	for from := 0; from < len(row); from += layout.ShortPart {
		n := min(layout.ShortPart, len(row)-from)
		factor, scale := shortFactor(sizeGeneric(t, row[from:][:n]))
		shortsGeneric(w[:], row[from:][:n], factor)
		factor, xScale := shortFactor(sizeGeneric(quant.F32, x[from:][:n]))
		shortsGeneric(v[:], x[from:][:n], factor)
		var whole int32
		for i := range n {
			whole += int32(w[i]) * int32(v[i])
		}
		both := float32(scale * xScale)
		sum += float32(float32(whole) * both)
	}
	return sum
}
