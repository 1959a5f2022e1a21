package kernel

import (
	"math"
	mathbits "math/bits"
	"unsafe"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// Attention over types with blocks is computed in integers where the processor multiplies and adds up pairs of 16-bit
// integers in one instruction. A query becomes 16-bit integers and a factor. Weights are multiplied by the values' scales
// and become 16-bit integers, with a factor for each query, page and block of values. A block's integer sums are exact.
// They take half the instructions of float32, and 8-bit integers need no decoding.
//
// The error of a rounded query is at most 2⁻¹⁶ of its largest element, and that of rounded weights 2⁻¹⁶ of the largest in
// the page. The error of the cache itself is 2⁻⁸ (Q8_0) or 2⁻⁴ (Q4_0).

const (
	blockMost    = 8                                // queries that a kernel computes at a time, at most
	blockQueries = 48                               // queries that are stored as integers at a time
	panelKeys    = 16                               // keys of a panel, one for each lane
	panelBlock   = panelKeys * quant.QK             // bytes of a block in a panel of keys
	valueBlock   = compute.PagePositions * quant.QK // bytes of a block in a panel of values
	scoreLines   = 9                                // lines that kernels prefetch for a block of panelKeys keys
	addLines     = 5                                // lines that they prefetch for a block of pairSteps pairs
	pairSteps    = 4                                // kernels round up to a multiple of this many pairs of positions
)

// blockKernels are the kernels of attention in integers. Tiles are by the number of queries: 1, 2, 4 and 8.
type blockKernels struct {
	round  func(dst *int16, x *float32, blocks int) (factor float32) // writes a query as integers
	scales func(dst *float32, src *byte, blockBytes, blocks int)
	keys   func(t compute.KVType, dst, src *byte, blocks int)
	values func(t compute.KVType, dst, src *byte, blocks, pairs int)
	weigh  func(w *int16, factors, p, scales *float32, blocks int)
	score  [blockMost + 1]func(s *float32, q *int16, factors *float32, panel *byte, scales *float32, blocks, keys int, ahead *byte, step int)
	add    [blockMost + 1]func(acc *float32, w *int16, factors *float32, panel *byte, blocks, pairs int, ahead *byte, step int)
}

// blockRoom is the memory of a walk in integers, cut off a scratch of floats.
type blockRoom struct {
	queries, queryFactors []float32 // int16 [blockQueries, key], [blockQueries]
	keys, keyScales       []float32 // panels [PagePositions/panelKeys, blocks] of panelBlock bytes, [blocks, PagePositions]
	values, valueScales   []float32 // a panel [blocks] of valueBlock bytes, [blocks, PagePositions]
	weights, factors      []float32 // int16 [blockMost, blocks, PagePositions], [blockMost, blocks]
}

// newBlockRoom cuts the parts off room, or only counts their elements where it is nil.
func newBlockRoom(s compute.KVShape, room []float32) (r blockRoom, size int) {
	take := func(n int) []float32 {
		from := size
		size += n
		if room == nil {
			return nil
		}
		return room[from:size:size]
	}
	const page = compute.PagePositions
	if s.KeyType.Type().Quantised() {
		r.queries, r.queryFactors = take(blockQueries*s.Key/2), take(blockQueries)
		r.keys, r.keyScales = take(page*s.Key/4), take(page*s.Key/quant.QK)
	}
	if s.ValueType.Type().Quantised() {
		width := s.Value
		if s.Within {
			width = s.Key
		}
		r.values, r.valueScales = take(page*width/4), take(page*width/quant.QK)
		r.weights, r.factors = take(blockMost*s.Value/quant.QK*page/2), take(blockMost*s.Value/quant.QK)
	}
	return r, size
}

// at returns the address of x[i] as that of a T.
func at[T any](x []float32, i int) *T { return (*T)(unsafe.Pointer(&x[i])) }

// blockTileOf returns how many of n queries one kernel computes.
func blockTileOf(n int) int { return 1 << (mathbits.Len(uint(min(n, blockMost))) - 1) }

// roundQueries stores queries [from, to) as integers in w.room.
func (w *walk) roundQueries(from, to int) {
	for i := from; i < to; i++ {
		w.room.queryFactors[i-from] = w.blocks.round(at[int16](w.room.queries, (i-from)*w.key/2), &w.q[i*w.key], w.key/quant.QK)
	}
	w.rounded = from
}

// keyPanels arranges the page's keys.
func (w *walk) keyPanels(r rows) {
	blocks, bytes := r.width/quant.QK, r.t.RowBytes(r.width)
	w.blocks.scales(&w.room.keyScales[0], &r.data[:compute.PagePositions*bytes][0], r.t.Type().BlockBytes(), blocks)
	for k := 0; k < w.positions; k += panelKeys {
		w.blocks.keys(r.t, at[byte](w.room.keys, k*r.width/4), &r.data[k*bytes], blocks)
	}
}

// valuePanel arranges the page's values, or the keys that they are within.
func (w *walk) valuePanel(r rows) {
	blocks, bytes := r.width/quant.QK, r.t.RowBytes(r.width)
	_ = r.data[:compute.PagePositions*bytes]
	w.blocks.scales(&w.room.valueScales[0], &r.data[0], r.t.Type().BlockBytes(), blocks)
	w.blocks.values(r.t, at[byte](w.room.values, 0), &r.data[0], blocks, (w.positions+1)/2)
}

// scoreBlocks writes the scores of queries i…i+n with the page's first keys.
func (w *walk) scoreBlocks(i, n, keys int) {
	i -= w.rounded
	w.blocks.score[n](&w.scores[0], at[int16](w.room.queries, i*w.key/2), &w.room.queryFactors[i], at[byte](w.room.keys, 0), &w.room.keyScales[0], w.key/quant.QK, keys, unsafe.SliceData(w.keys.ahead), blockAhead(w.keys, panelKeys, scoreLines))
}

// addBlocks adds the values of the page's first positions, times their weights, to the sums of queries i…i+n. A weight
// of zero adds nothing, whatever the value is.
func (w *walk) addBlocks(i, n, positions int) {
	const page = compute.PagePositions
	blocks := w.value / quant.QK
	for t := range n {
		w.blocks.weigh(at[int16](w.room.weights, t*blocks*page/2), &w.room.factors[t*blocks], &w.scores[t*page], &w.room.valueScales[0], blocks)
	}
	w.blocks.add[n](&w.out.Acc[i*w.value], at[int16](w.room.weights, 0), &w.room.factors[0], at[byte](w.room.values, 0), blocks, (positions+1)/2, unsafe.SliceData(w.raw.ahead), blockAhead(w.raw, 2*pairSteps, addLines))
}

// blockAhead returns the distance in bytes of the n lines that a kernel prefetches while it multiplies one block of that
// many positions.
func blockAhead(r rows, positions, n int) int { return (positions*r.t.Type().BlockBytes() + n - 1) / n }

// blockInt returns integer i of a block.
func blockInt(t compute.KVType, block []byte, i int) int8 {
	if t == compute.KVQ8_0 {
		return int8(block[2+i])
	}
	return int8(block[2+i%16]>>(i/16*4)&15) - 8
}

// roundQuery writes a query as integers, and returns their factor.
func roundQuery(dst []int16, x []float32) float32 {
	factor, scale := queryFactor(sizeGeneric(quant.F32, x))
	shortsGeneric(dst, x, factor)
	return scale
}

// queryFactor is shortFactor of numbers that may use all 16 bits: a block's products with them do not overflow.
func queryFactor(most float32, squares float64) (factor, scale float32) {
	if squares <= math.MaxFloat64 {
		squares = 0
	}
	return shortFactor(most, squares)
}

// blockScales writes the scales of PagePositions rows. [blocks, PagePositions]
func blockScales(dst []float32, src []byte, t compute.KVType, blocks int) {
	size := t.Type().BlockBytes()
	for i := range compute.PagePositions * blocks {
		dst[i%blocks*compute.PagePositions+i/blocks] = quant.F32FromF16(uint16(src[i*size]) | uint16(src[i*size+1])<<8)
	}
}

// keyPanel arranges panelKeys keys. [blocks, QK/2, panelKeys, 2]
func keyPanel(dst []int8, src []byte, t compute.KVType, blocks int) {
	size := t.Type().BlockBytes()
	for i := range panelKeys * blocks * quant.QK {
		key, block, e := i/(blocks*quant.QK), i/quant.QK%blocks, i%quant.QK
		dst[block*panelBlock+e/2*2*panelKeys+2*key+e%2] = blockInt(t, src[(key*blocks+block)*size:], e)
	}
}

// valuePanel arranges pairs of values. [blocks, pairs, QK, 2] Elements are in the order of valuePlace: the second and the
// third eight change places.
func valuePanel(dst []int8, src []byte, t compute.KVType, blocks, pairs int) {
	size := t.Type().BlockBytes()
	for i := range 2 * pairs * blocks * quant.QK {
		row, block, e := i/(blocks*quant.QK), i/quant.QK%blocks, i%quant.QK
		dst[block*valueBlock+row/2*2*quant.QK+2*valuePlace(e)+row%2] = blockInt(t, src[(row*blocks+block)*size:], e)
	}
}

// valuePlace returns the place of element e of a block in a panel of values.
func valuePlace(e int) int { return e/8%2*16 + e/16*8 + e%8 }

// scoreBlocks: s[j] = factor·Σ scale·(q·k[j]) over blocks.
func scoreBlocks(s []float32, q []int16, factor float32, panel []int8, scales []float32, blocks, keys int) {
	for j := range keys {
		sum := float32(0)
		for b := range blocks {
			whole := int32(0)
			for e := range quant.QK {
				k := panel[(j/panelKeys*blocks+b)*panelBlock+e/2*2*panelKeys+j%panelKeys*2+e%2]
				whole += int32(q[b*quant.QK+e]) * int32(k)
			}
			sum = fma(scales[b*compute.PagePositions+j], float32(whole), sum)
		}
		s[j] = float32(sum * factor)
	}
}

// weighBlocks writes weights p [PagePositions] times the scales of each block as integers, and their factors. The scale of
// a position without a weight does not count: it may be NaN.
func weighBlocks(w []int16, factors, p, scales []float32, blocks int) {
	const page = compute.PagePositions
	for b := range blocks {
		var x [page]float32
		most := uint32(0) // as bits: NaN is the largest
		for j, v := range p[:page] {
			if v != 0 {
				x[j] = float32(v * scales[b*page+j])
			}
			most = max(most, math.Float32bits(x[j])&math.MaxInt32)
		}
		factors[b] = float32(math.Float32frombits(most) * float32(1.0/math.MaxInt16))
		by := 1 / max(factors[b], 1e-37)
		for j, v := range x {
			w[b*page+j] = int16(math.RoundToEven(float64(float32(v * by))))
		}
	}
}

// addBlocks: acc += factor·Σ w[j]·v[j], over the positions of each block.
func addBlocks(acc []float32, w []int16, factors []float32, panel []int8, blocks, pairs int) {
	for b := range blocks {
		for e := range quant.QK {
			whole := int32(0)
			for j := range 2 * pairs {
				whole += int32(w[b*compute.PagePositions+j]) * int32(panel[b*valueBlock+j/2*2*quant.QK+2*valuePlace(e)+j%2])
			}
			acc[b*quant.QK+e] = fma(factors[b], float32(whole), acc[b*quant.QK+e])
		}
	}
}
