package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Attention over types with blocks, in integers: a page becomes panels of bytes, which VPDPWSSD multiplies with queries,
// or weights, of 16 bits. Two elements that are added to one sum are neighbours in a panel, and the sums of a vector are
// those of 16 keys, or of 16 elements of values. The scalar twins are in attention_blocks.go.

const (
	blockElems = 32                         // elements of a block
	panelKeys  = 16                         // keys of a vector
	panelBlock = panelKeys * blockElems     // bytes of a block of these keys
	valueBlock = pagePositions * blockElems // bytes of a block of a page's values
	scoreLines = 9                          // lines that are prefetched for a block of panelKeys keys
)

// blocked is a cache type with blocks.
type blocked struct {
	name  string
	bytes int // of a block, after its scale of two bytes
	// halves turns the elements of two rows' blocks, row in the lower 128 bits and other in the upper ones, into bytes: the
	// first sixteen of a block, and the others.
	halves func(row, other Mem) (first, second reg.VecVirtual)
	// whole turns a block into bytes.
	whole func(row Mem) reg.VecVirtual
}

func blockedTypes() []blocked {
	sub := func(v reg.VecVirtual) { VPSUBB(table("eightBytes", func(int) uint32 { return 0x08080808 }), v, v) }
	low := func() Mem { return table("lowNibbles", func(int) uint32 { return 0x0f0f0f0f }) }
	two := func(row, other Mem) reg.VecVirtual {
		v := YMM()
		VMOVUPS(row, v.AsX())
		VINSERTI32X4(Imm(1), other, v, v)
		return v
	}
	return []blocked{
		{name: "Q8_0", bytes: 34, halves: func(row, other Mem) (first, second reg.VecVirtual) {
			return two(row, other), two(row.Offset(16), other.Offset(16))
		}, whole: func(row Mem) reg.VecVirtual {
			v := YMM()
			VMOVUPS(row, v)
			return v
		}},
		{name: "Q4_0", bytes: 18, halves: func(row, other Mem) (first, second reg.VecVirtual) {
			first, second = two(row, other), YMM()
			VPSRLQ(Imm(4), first, second)
			for _, v := range []reg.VecVirtual{first, second} {
				VPANDD(low(), v, v)
				sub(v)
			}
			return first, second
		}, whole: func(row Mem) reg.VecVirtual {
			v := YMM()
			VBROADCASTI32X4(row, v)
			VPSRLVQ(table("upperNibbles", func(i int) uint32 { return uint32(i/4) * 4 * uint32(1-i%2) }), v, v)
			VPANDD(low(), v, v)
			sub(v)
			return v
		}},
	}
}

func blocks() {
	blockScales()
	for _, b := range blockedTypes() {
		b.keys()
		b.values()
	}
	for _, t := range []struct{ queries, vectors int }{{1, 4}, {2, 4}, {4, 2}, {8, 1}} {
		scoreBlocks(t.queries, t.vectors)
	}
	weighBlocks()
	for _, t := range []struct{ queries, steps int }{{1, 4}, {2, 2}, {4, 1}, {8, 1}} {
		addBlocks(t.queries, t.steps)
	}
}

// blockScales emits the kernel that collects a page's scales. [blocks, pagePositions]
func blockScales() {
	function("blockScalesAVX512", "func(dst *float32, src *byte, blockBytes, blocks int)",
		"writes the scales of 64 rows of blocks: of the first block those of all rows, and so on. Scalar twin: blockScales.")
	dst, src, bytes, blocks := pointer("dst"), pointer("src"), pointer("blockBytes"), pointer("blocks")
	// A block's halves of all rows are first written to the second half of the memory for their floats.
	row, to, left, word := GP64(), GP64(), GP64(), GP32()
	MOVQ(dst, row)
	ADDQ(U32(rowBytes/2), row)
	rows := GP64()
	MOVQ(U32(pagePositions), rows)
	Label("rows")
	MOVQ(row, to)
	MOVQ(blocks, left)
	Label("halves")
	MOVWLZX(at(src, 0), word)
	MOVW(word.As16(), at(to, 0))
	ADDQ(bytes, src)
	ADDQ(U32(rowBytes), to)
	DECQ(left)
	JNZ(LabelRef("halves"))
	ADDQ(Imm(2), row)
	DECQ(rows)
	JNZ(LabelRef("rows"))
	Label("floats")
	for i := range pagePositions / 16 {
		v := ZMM()
		VCVTPH2PS(at(dst, rowBytes/2+32*i), v)
		VMOVUPS(v, at(dst, 64*i))
	}
	ADDQ(U32(rowBytes), dst)
	DECQ(blocks)
	JNZ(LabelRef("floats"))
	end()
}

// keys emits the kernel that arranges panelKeys keys. [blocks, blockElems/2, panelKeys, 2]
func (b blocked) keys() {
	function("keys"+b.name+"AVX512", "func(dst, src *byte, blocks int)",
		fmt.Sprintf("writes the integers of %d keys in %s as a panel: of each block, pairs of elements of all keys. Scalar twin: keyPanel.", panelKeys, b.name))
	dst, src, blocks := pointer("dst"), pointer("src"), pointer("blocks")
	stride, second := GP64(), GP64()
	IMUL3Q(U32(uint32(b.bytes)), blocks, stride)
	LEAQ(Mem{Base: src, Index: stride, Scale: 8}, second)
	lower, upper := newRows(src, stride, panelKeys/2), newRows(second, stride, panelKeys/2)
	Label("blocks")
	var first, other [panelKeys / 2]reg.VecVirtual
	for i := range first {
		first[i], other[i] = b.halves(lower.at(i).Offset(2), upper.at(i).Offset(2))
	}
	for i, half := range [][panelKeys / 2]reg.VecVirtual{first, other} {
		for j, v := range turnWords(half) {
			VMOVUPS(v, at(dst, 2*panelKeys*(8*i+j)))
		}
	}
	lower.advance(Imm(uint64(b.bytes)))
	upper.advance(Imm(uint64(b.bytes)))
	ADDQ(U32(panelBlock), dst)
	DECQ(blocks)
	JNZ(LabelRef("blocks"))
	end()
}

// turnWords returns, in each 128 bits, the first words of all rows, then the second words, and so on.
func turnWords(rows [8]reg.VecVirtual) (out [8]reg.VecVirtual) {
	unpack := func(low, high func(...Op), a, b reg.VecVirtual) (l, h reg.VecVirtual) {
		l, h = YMM(), YMM()
		low(b, a, l)
		high(b, a, h)
		return l, h
	}
	var words, doubles [8]reg.VecVirtual
	for i := 0; i < 8; i += 2 { // rows i and i+1: words 0 to 3, and 4 to 7
		words[i], words[i+1] = unpack(VPUNPCKLWD, VPUNPCKHWD, rows[i], rows[i+1])
	}
	for i := range 2 { // rows 4i to 4i+3: words 0 and 1, 2 and 3, 4 and 5, 6 and 7
		for half := range 2 {
			doubles[4*i+2*half], doubles[4*i+2*half+1] = unpack(VPUNPCKLDQ, VPUNPCKHDQ, words[4*i+half], words[4*i+2+half])
		}
	}
	for i := range 4 {
		out[2*i], out[2*i+1] = unpack(VPUNPCKLQDQ, VPUNPCKHQDQ, doubles[i], doubles[4+i])
	}
	return out
}

// values emits the kernel that arranges a page's values, with elements in the order of VPUNPCKLBW and VPUNPCKHBW.
// [blocks, pagePositions/2, blockElems, 2]
func (b blocked) values() {
	function("values"+b.name+"AVX512", "func(dst, src *byte, blocks, pairs int)",
		fmt.Sprintf("writes the integers of pairs of values in %s as a panel: of each block, elements of both values of all pairs. Scalar twin: valuePanel.", b.name))
	dst, src, blocks, pairs := pointer("dst"), pointer("src"), pointer("blocks"), pointer("pairs")
	stride, to, left := GP64(), GP64(), GP64()
	IMUL3Q(U32(uint32(b.bytes)), blocks, stride)
	Label("pairs")
	MOVQ(dst, to)
	MOVQ(blocks, left)
	Label("blocks")
	row, next := b.whole(at(src, 2)), b.whole(Mem{Base: src, Disp: 2, Index: stride, Scale: 1})
	low, high := YMM(), YMM()
	VPUNPCKLBW(next, row, low)
	VPUNPCKHBW(next, row, high)
	VMOVUPS(low, at(to, 0))
	VMOVUPS(high, at(to, 32))
	ADDQ(Imm(uint64(b.bytes)), src)
	ADDQ(U32(valueBlock), to)
	DECQ(left)
	JNZ(LabelRef("blocks"))
	ADDQ(stride, src)
	ADDQ(U32(64), dst)
	DECQ(pairs)
	JNZ(LabelRef("pairs"))
	end()
}

// scoreBlocks emits the scores of T queries with a page's keys, V vectors of keys at a time.
func scoreBlocks(T, V int) {
	function(fmt.Sprintf("scoreBlocks%dAVX512", T), "func(s *float32, q *int16, factors *float32, panel *byte, scales *float32, blocks, keys int, ahead *byte, step int)",
		fmt.Sprintf("computes the scores of %d queries with keys in a panel; keys are rounded up to a multiple of %d. Scalar twin: scoreBlocks.", T, panelKeys*V))
	s, first, factors := pointer("s"), pointer("q"), pointer("factors")
	panel, scales, blocks, keys := pointer("panel"), pointer("scales"), pointer("blocks"), pointer("keys")
	ahead, step, stride, vector := pointer("ahead"), pointer("step"), GP64(), GP64()
	MOVQ(blocks, stride)
	SHLQ(Imm(6), stride)
	MOVQ(blocks, vector)
	SHLQ(Imm(9), vector)
	q := newRows(first, stride, T)
	Label("keys")
	sums, whole := grid(T, V), grid(T, V)
	clearGrid(sums)
	left, scale := GP64(), GP64()
	p := newRows(panel, vector, V)
	MOVQ(blocks, left)
	MOVQ(scales, scale)
	Label("blocks")
	clearGrid(whole)
	for pair := range blockElems / 2 {
		y := make([]reg.VecVirtual, V)
		for v := range y {
			y[v] = ZMM()
			VPMOVSXBW(p.at(v).Offset(2*panelKeys*pair), y[v])
		}
		multiplyPair(q, 4*pair, y, whole)
		for range V*scoreLines*(pair+1)/16 - V*scoreLines*pair/16 {
			ask(ahead, step)
		}
	}
	for v := range V {
		by := ZMM()
		VMOVUPS(at(scale, 64*v), by)
		for t := range T {
			VCVTDQ2PS(whole[t][v], whole[t][v])
			VFMADD231PS(by, whole[t][v], sums[t][v])
		}
	}
	q.advance(Imm(2 * blockElems))
	p.advance(U32(panelBlock))
	ADDQ(U32(rowBytes), scale)
	DECQ(left)
	JNZ(LabelRef("blocks"))
	for _, b := range q.base {
		SUBQ(stride, b)
	}
	for t := range T {
		for v := range V {
			VMULPS_BCST(at(factors, 4*t), sums[t][v], sums[t][v])
			VMOVUPS(sums[t][v], at(s, rowBytes*t+64*v))
		}
	}
	for range V - 1 { // panel is past the first vector of keys already
		ADDQ(vector, panel)
	}
	ADDQ(U32(uint32(64*V)), s)
	ADDQ(U32(uint32(64*V)), scales)
	SUBQ(U32(uint32(panelKeys*V)), keys)
	JG(LabelRef("keys"))
	end()
}

// ask prefetches the line at ahead and adds step to ahead, so that prefetching keeps pace with the arithmetic.
func ask(ahead, step reg.Register) {
	PREFETCHT1(at(ahead, 0))
	ADDQ(step, ahead)
}

// multiplyPair adds the products of y with the pair of words at disp of each row, to sums [rows][len(y)].
func multiplyPair(rows rows, disp int, y []reg.VecVirtual, sums [][]reg.VecVirtual) {
	for t := range sums {
		if len(y) == 1 {
			VPDPWSSD_BCST(rows.at(t).Offset(disp), y[0], sums[t][0])
			continue
		}
		x := ZMM()
		VPBROADCASTD(rows.at(t).Offset(disp), x)
		for v := range y {
			VPDPWSSD(x, y[v], sums[t][v])
		}
	}
}

func grid(rows, cols int) [][]reg.VecVirtual {
	g := make([][]reg.VecVirtual, rows)
	for i := range g {
		for range cols {
			g[i] = append(g[i], ZMM())
		}
	}
	return g
}

func clearGrid(g [][]reg.VecVirtual) {
	for _, row := range g {
		for _, v := range row {
			VPXORD(v, v, v)
		}
	}
}

// weighBlocks emits the kernel that turns a query's weights into integers, for each block of the values.
func weighBlocks() {
	function("weighBlocksAVX512", "func(w *int16, factors, p, scales *float32, blocks int)",
		"writes 64 weights times the scales of each block of values as integers of 16 bits, and what these are multiplied with. Scalar twin: weighBlocks.")
	w, factors, p, scales, blocks := pointer("w"), pointer("factors"), pointer("p"), pointer("scales"), pointer("blocks")
	var weights [pagePositions / 16]reg.VecVirtual
	var some [pagePositions / 16]reg.Register
	zeros := ZMM()
	VPXORD(zeros, zeros, zeros)
	for i := range weights {
		weights[i], some[i] = ZMM(), K()
		VMOVUPS(at(p, 64*i), weights[i])
		VCMPPS(Imm(notEqual), zeros, weights[i], some[i])
	}
	magnitude := ZMM()
	VPBROADCASTD(table("magnitudes", func(int) uint32 { return 1<<31 - 1 }), magnitude)
	Label("blocks")
	var x [pagePositions / 16]reg.VecVirtual
	most := ZMM()
	VPXORD(most, most, most)
	for i := range x {
		x[i] = ZMM()
		m := ZMM()
		VMULPS_Z(at(scales, 64*i), weights[i], some[i], x[i]) // scales of positions that are not seen may be NaN
		VPANDD(magnitude, x[i], m)
		VPMAXUD(m, most, most) // NaN is the largest
	}
	half, top := YMM(), XMM()
	VEXTRACTI64X4(Imm(1), most, half)
	VPMAXUD(half, most.AsY(), half)
	VEXTRACTI32X4(Imm(1), half, top)
	VPMAXUD(half.AsX(), top, top)
	x2 := XMM()
	VPSHUFD(Imm(0b01_00_11_10), top, x2)
	VPMAXUD(x2, top, top)
	VPSHUFD(Imm(0b10_11_00_01), top, x2)
	VPMAXUD(x2, top, top)
	VMULSS(splat("shortUnit", 1.0/32767), top, top)
	VMOVSS(top, at(factors, 0))
	by, one := ZMM(), XMM()
	least := XMM()
	VMOVSS(splat("one", 1), one)
	VMOVSS(splat("leastUnit", 1e-37), least)
	VMAXSS(top, least, top) // NaN stays
	VDIVSS(top, one, one)
	VBROADCASTSS(one, by)
	for i := range x {
		VMULPS(by, x[i], x[i])
		VCVTPS2DQ(x[i], x[i])
		VPMOVSDW(x[i], at(w, 32*i))
	}
	ADDQ(U32(2*pagePositions), w)
	ADDQ(Imm(4), factors)
	ADDQ(U32(rowBytes), scales)
	DECQ(blocks)
	JNZ(LabelRef("blocks"))
	end()
}

// notEqual is true for NaN.
const notEqual = 0x04

// addBlocks emits the weighted sum of a page's values for T queries, S pairs of positions at a time in sums of their own.
func addBlocks(T, S int) {
	const steps = 4 // pairs of positions before the loop ends
	function(fmt.Sprintf("addBlocks%dAVX512", T), "func(acc *float32, w *int16, factors *float32, panel *byte, blocks, pairs int, ahead *byte, step int)",
		fmt.Sprintf("adds a page's weighted values to the sums of %d queries; pairs of positions are rounded up to a multiple of %d. Scalar twin: addBlocks.", T, steps))
	acc, first, factors := pointer("acc"), pointer("w"), pointer("factors")
	panel, blocks, pairs := pointer("panel"), pointer("blocks"), pointer("pairs")
	ahead, step := pointer("ahead"), pointer("step")
	stride, accStride, factorStride := GP64(), GP64(), GP64()
	MOVQ(blocks, factorStride)
	SHLQ(Imm(2), factorStride)
	MOVQ(blocks, accStride)
	SHLQ(Imm(7), accStride)
	MOVQ(accStride, stride) // both are 128 bytes for each block
	w := newRows(first, stride, T)
	Label("blocks")
	whole := make([][][]reg.VecVirtual, S)
	for i := range whole {
		whole[i] = grid(T, 2)
		clearGrid(whole[i])
	}
	from, left := GP64(), GP64()
	MOVQ(panel, from)
	MOVQ(pairs, left)
	Label("pairs")
	for i := range steps {
		y := []reg.VecVirtual{ZMM(), ZMM()}
		VPMOVSXBW(at(from, 64*i), y[0])
		VPMOVSXBW(at(from, 64*i+32), y[1])
		multiplyPair(w, 4*i, y, whole[i%S])
		ask(ahead, step)
	}
	ask(ahead, step)
	w.advance(Imm(4 * steps))
	ADDQ(U32(64*steps), from)
	SUBQ(Imm(steps), left)
	JG(LabelRef("pairs"))
	// The pointers to weights go back by what the loop advanced them, and on to the next block.
	SUBQ(panel, from)
	SHRQ(Imm(4), from)
	SUBQ(U32(2*pagePositions), from)
	for _, b := range w.base {
		SUBQ(from, b)
	}
	to, factor := GP64(), GP64()
	MOVQ(acc, to)
	MOVQ(factors, factor)
	for t := range T {
		for i := 1; i < S; i++ {
			VPADDD(whole[i][t][0], whole[0][t][0], whole[0][t][0])
			VPADDD(whole[i][t][1], whole[0][t][1], whole[0][t][1])
		}
		low, high := whole[0][t][0], whole[0][t][1]
		v := []reg.VecVirtual{ZMM(), ZMM()}
		VINSERTI64X4(Imm(1), high.AsY(), low, v[0])
		VSHUFI64X2(Imm(0b11_10_11_10), high, low, v[1])
		by := ZMM()
		VBROADCASTSS(at(factor, 0), by)
		for i := range v {
			sum := ZMM()
			VCVTDQ2PS(v[i], v[i])
			VMOVUPS(at(to, 64*i), sum)
			VFMADD231PS(by, v[i], sum)
			VMOVUPS(sum, at(to, 64*i))
		}
		if t < T-1 {
			ADDQ(accStride, to)
			ADDQ(factorStride, factor)
		}
	}
	ADDQ(U32(4*blockElems), acc)
	ADDQ(Imm(4), factors)
	ADDQ(U32(valueBlock), panel)
	DECQ(blocks)
	JNZ(LabelRef("blocks"))
	end()
}
