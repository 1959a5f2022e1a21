package main

import (
	"fmt"
	"math"
	"math/bits"
	"strings"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// pagePositions is compute.PagePositions: keys in a block, and floats between rows of scores.
const pagePositions = 64

// rowBytes is the distance between two queries' rows of scores.
const rowBytes = 4 * pagePositions

func attention() {
	for _, c := range cached() {
		for _, t := range []struct{ queries, keys int }{{1, 8}, {2, 4}, {3, 4}, {4, 2}, {6, 2}} {
			scores(c, t.queries, t.keys)
		}
	}
	softmax()
	for _, c := range cached() {
		for _, t := range []struct {
			queries         int
			vectors, blocks []int
		}{{1, []int{8, 2, 1}, []int{8, 4}}, {2, []int{4, 1}, []int{4}}, {3, []int{3, 1}, []int{2}}, {4, []int{2, 1}, []int{2}}, {6, []int{2, 1}, []int{2}}} {
			if c.integers != nil {
				accumulate(c, t.queries, t.blocks)
			} else {
				accumulate(c, t.queries, t.vectors)
			}
		}
	}
	for _, c := range cached() {
		if c.integers == nil { // pages of types with blocks are decoded to F32 for so many queries
			scoresWide(c)
			accumulateWide(c)
		}
	}
	decodeBlocks("Q8_0", 34, func(src reg.Register, i int, y reg.VecVirtual) {
		VPMOVSXBD(at(src, 2+8*i), y)
	})
	decodeNibbles()
	decodeWide("Q8_0", 34, func(src reg.Register, scale reg.VecVirtual) [2]reg.VecVirtual {
		lo, hi := ZMM(), ZMM()
		VPMOVSXBD(at(src, 2), lo)
		VPMOVSXBD(at(src, 18), hi)
		for _, v := range []reg.VecVirtual{lo, hi} {
			VCVTDQ2PS(v, v)
			VMULPS(scale, v, v)
		}
		return [2]reg.VecVirtual{lo, hi}
	})
	decodeWide("Q4_0", 18, func(src reg.Register, scale reg.VecVirtual) [2]reg.VecVirtual {
		all, lo, hi := ZMM(), ZMM(), ZMM()
		VMULPS(nibbles(), scale, all)
		VPMOVZXBD(at(src, 2), lo)
		VPSRLD(Imm(4), lo, hi)
		VPERMPS(all, lo, lo) // the lowest four bits count
		VPERMPS(all, hi, hi)
		return [2]reg.VecVirtual{lo, hi}
	})
}

// nibbles is the values of Q4_0's nibbles, without the scale.
func nibbles() Mem {
	m := GLOBL("nibbles", RODATA|NOPTR)
	for i := range 16 {
		DATA(4*i, U32(math.Float32bits(float32(i-8))))
	}
	return m
}

// decodeWide is decodeBlocks in 512-bit vectors: on Zen 4 it takes two thirds of the time. load returns a block's elements.
func decodeWide(name string, bytes int, load func(src reg.Register, scale reg.VecVirtual) [2]reg.VecVirtual) {
	function("decode"+name+"AVX512", "func(dst *float32, src, ahead *byte, blocks int)",
		fmt.Sprintf("writes the elements of blocks of %s. Scalar twin: quant.Decode.", name))
	dst, src, ahead, blocks := pointer("dst"), pointer("src"), pointer("ahead"), pointer("blocks")
	Label("blocks")
	prefetch(ahead, bytes)
	scale := ZMM()
	VPBROADCASTW(at(src, 0), scale.AsY())
	VCVTPH2PS(scale.AsY(), scale)
	for i, v := range load(src, scale) {
		VMOVUPS(v, at(dst, 64*i))
	}
	ADDQ(U32(uint32(bytes)), src)
	ADDQ(U32(128), dst)
	DECQ(blocks)
	JNZ(LabelRef("blocks"))
	end()
}

// element is a type of the cache's that kernels read as it lies.
type element struct {
	suffix   string                                   // of the function's name
	elements int                                      // that a step takes of a row: 8, or 32 of types with blocks
	bytes    int                                      // of those
	load     func(from Mem, to reg.VecVirtual)        // as many elements as lanes: eight, or sixteen
	twice    func(from Mem, to reg.VecVirtual)        // eight elements, in both halves of a 512-bit vector
	integers func(from Mem, i int, to reg.VecVirtual) // of types with blocks: number i of four times eight, which are multiplied by the scale
}

func cached() []element {
	return []element{
		{suffix: "AVX2", elements: 8, bytes: 16, load: func(from Mem, to reg.VecVirtual) { VCVTPH2PS(from, to) }, twice: func(from Mem, to reg.VecVirtual) {
			VBROADCASTI32X4(from, to.AsY())
			VCVTPH2PS(to.AsY(), to)
		}},
		{suffix: "BF16AVX2", elements: 8, bytes: 16, load: func(from Mem, to reg.VecVirtual) {
			VPMOVZXWD(from, to)
			VPSLLD(Imm(16), to, to)
		}, twice: func(from Mem, to reg.VecVirtual) {
			VBROADCASTI32X4(from, to.AsY())
			VPMOVZXWD(to.AsY(), to)
			VPSLLD(Imm(16), to, to)
		}},
		{
			suffix: "F32AVX2", elements: 8, bytes: 32, load: func(from Mem, to reg.VecVirtual) { VMOVUPS(from, to) },
			twice: func(from Mem, to reg.VecVirtual) { VBROADCASTF32X8(from, to) },
		},
		{suffix: "Q8_0AVX2", elements: 32, bytes: 34, integers: func(from Mem, i int, to reg.VecVirtual) {
			VPMOVSXBD(from.Offset(8*i), to)
		}},
		{suffix: "Q4_0AVX2", elements: 32, bytes: 18, integers: func(from Mem, i int, to reg.VecVirtual) {
			VPMOVZXBD(from.Offset(8*(i%2)), to)
			if i < 2 {
				VPAND(table("lowNibble", func(int) uint32 { return 15 }), to, to)
			} else {
				VPSRLD(Imm(4), to, to)
			}
			VPSUBD(table("middleNibble", func(int) uint32 { return 8 }), to, to)
		}},
	}
}

// rowBytes turns a row's elements into its bytes.
func (c element) rowBytes(n reg.Register) {
	if c.elements == 8 {
		SHLQ(Imm(uint64(bits.Len(uint(c.bytes/8))-1)), n)
		return
	}
	SHRQ(Imm(5), n)
	IMUL3Q(U32(uint32(c.bytes)), n, n)
}

// scale returns the scale of a block in all lanes.
func (c element) scale(block Mem) reg.VecVirtual {
	v := YMM()
	VPBROADCASTW(block, v.AsX())
	VCVTPH2PS(v.AsX(), v)
	return v
}

// quarter brings eight elements of a block into y, as decoding it would: products of integers and scales are exact.
func (c element) quarter(block Mem, i int, scale, y reg.VecVirtual) {
	c.integers(block.Offset(2), i, y)
	VCVTDQ2PS(y, y)
	VMULPS(scale, y, y)
}

// decodeBlocks emits the decoding of blocks of 32 elements that begin with a half, the scale. load brings eight integers, number i of four, into y.
func decodeBlocks(name string, bytes int, load func(src reg.Register, i int, y reg.VecVirtual)) {
	function("decode"+name+"AVX2", "func(dst *float32, src, ahead *byte, blocks int)",
		fmt.Sprintf("writes the elements of blocks of %s. Scalar twin: quant.Decode.", name))
	dst, src, ahead, blocks := pointer("dst"), pointer("src"), pointer("ahead"), pointer("blocks")
	Label("blocks")
	prefetch(ahead, bytes)
	scale := blockScale(src)
	for i := range 4 {
		y := YMM()
		load(src, i, y)
		VCVTDQ2PS(y, y)
		VMULPS(scale, y, y)
		VMOVUPS(y, at(dst, 32*i))
	}
	ADDQ(U32(uint32(bytes)), src)
	ADDQ(U32(128), dst)
	DECQ(blocks)
	JNZ(LabelRef("blocks"))
	end()
}

// blockScale returns the half at src in all lanes.
func blockScale(src reg.Register) reg.VecVirtual {
	half, scale := GP32(), YMM()
	MOVWLZX(at(src, 0), half)
	VMOVD(half, scale.AsX())
	VCVTPH2PS(scale.AsX(), scale.AsX())
	VBROADCASTSS(scale.AsX(), scale)
	return scale
}

// decodeNibbles emits the decoding of blocks of Q4_0: sixteen bytes behind the scale, whose low halves are the first elements.
func decodeNibbles() {
	function("decodeQ4_0AVX2", "func(dst *float32, src, ahead *byte, blocks int)", "writes the elements of blocks of Q4_0. Scalar twin: quant.Decode.")
	dst, src, ahead, blocks := pointer("dst"), pointer("src"), pointer("ahead"), pointer("blocks")
	low, middle := YMM(), YMM()
	VMOVUPS(table("lowNibble", func(int) uint32 { return 15 }), low)
	VMOVUPS(table("middleNibble", func(int) uint32 { return 8 }), middle)
	Label("blocks")
	prefetch(ahead, 18)
	scale := blockScale(src)
	for i := range 2 {
		y, high := YMM(), YMM()
		VPMOVZXBD(at(src, 2+8*i), y)
		VPSRLD(Imm(4), y, high)
		VPAND(low, y, y)
		for j, v := range []reg.VecVirtual{y, high} {
			VPSUBD(middle, v, v)
			VCVTDQ2PS(v, v)
			VMULPS(scale, v, v)
			VMOVUPS(v, at(dst, 32*i+64*j))
		}
	}
	ADDQ(U32(18), src)
	ADDQ(U32(128), dst)
	DECQ(blocks)
	JNZ(LabelRef("blocks"))
	end()
}

// rows addresses several rows that are stride apart through few registers.
type rows struct {
	base   []reg.Register // rows 0, 3 and 6
	stride reg.Register
}

func newRows(first, stride reg.Register, n int) rows {
	r := rows{base: []reg.Register{first}, stride: stride}
	for i := 3; i < n; i += 3 {
		b := GP64()
		LEAQ(Mem{Base: r.base[i/3-1], Index: stride, Scale: 2}, b)
		ADDQ(stride, b)
		r.base = append(r.base, b)
	}
	return r
}

// at is the address of row i at the registers' offset.
func (r rows) at(i int) Mem {
	switch i {
	case 0:
		return Mem{Base: r.base[0]}
	case 1, 2, 4:
		return Mem{Base: r.base[0], Index: r.stride, Scale: uint8(i)}
	case 3:
		return Mem{Base: r.base[1]}
	case 5, 7:
		return Mem{Base: r.base[1], Index: r.stride, Scale: uint8(i - 3)}
	case 6:
		return Mem{Base: r.base[2]}
	}
	panic("rows: too many")
}

func (r rows) advance(by Op) {
	for _, b := range r.base {
		ADDQ(by, b)
	}
}

// scores emits the products of T queries with keys, K keys at a time. Every score is eight sums over
// every eighth element, added by a tree, whatever T and K.
func scores(c element, T, K int) {
	function(fmt.Sprintf("scores%d%s", T, c.suffix), "func(s, q *float32, k, ahead *byte, keys, headDim int)",
		fmt.Sprintf("computes s[t][j] = q[t]·k[j] for %d queries; keys are rounded up to a multiple of 8. Scalar twin: scores.", T))
	s, q0, k0, ahead := pointer("s"), pointer("q"), pointer("k"), pointer("ahead")
	keys, headDim := pointer("keys"), pointer("headDim")
	qStride, kStride := GP64(), GP64()
	MOVQ(headDim, qStride)
	SHLQ(Imm(2), qStride)
	MOVQ(headDim, kStride)
	c.rowBytes(kStride)
	ADDQ(Imm(7), keys)
	ANDQ(I8(-8), keys)
	q, k := newRows(q0, qStride, T), newRows(k0, kStride, K)
	acc := make([][]reg.VecVirtual, T)
	for t := range acc {
		acc[t] = make([]reg.VecVirtual, K)
	}
	Label("keys")
	for t := range acc {
		for j := range acc[t] {
			acc[t][j] = zero()
		}
	}
	d := GP64()
	MOVQ(headDim, d)
	Label("dims")
	prefetch(ahead, c.bytes*K)
	if c.integers != nil {
		for j := range K {
			scale, y := c.scale(k.at(j)), YMM()
			for i := range 4 {
				c.quarter(k.at(j), i, scale, y)
				for t := range T {
					VFMADD231PS(q.at(t).Offset(32*i), y, acc[t][j])
				}
			}
		}
	} else if T == 1 {
		x := YMM()
		VMOVUPS(q.at(0), x)
		for j := range K {
			y := YMM()
			c.load(k.at(j), y)
			VFMADD231PS(x, y, acc[0][j])
		}
	} else if T > K {
		y := make([]reg.VecVirtual, K)
		for j := range K {
			y[j] = YMM()
			c.load(k.at(j), y[j])
		}
		for t := range T {
			x := YMM()
			VMOVUPS(q.at(t), x)
			for j := range K {
				VFMADD231PS(x, y[j], acc[t][j])
			}
		}
	} else {
		x := make([]reg.VecVirtual, T)
		for t := range T {
			x[t] = YMM()
			VMOVUPS(q.at(t), x[t])
		}
		for j := range K {
			y := YMM()
			c.load(k.at(j), y)
			for t := range T {
				VFMADD231PS(x[t], y, acc[t][j])
			}
		}
	}
	q.advance(U32(uint32(4 * c.elements)))
	k.advance(Imm(uint64(c.bytes)))
	SUBQ(Imm(uint64(c.elements)), d)
	JG(LabelRef("dims"))
	for _, b := range q.base {
		SUBQ(qStride, b)
	}
	for range K - 1 {
		k.advance(kStride)
	}
	if K == 2 {
		for t := 0; t < T; t += 2 {
			x := tree(acc[t][0], acc[t][1], acc[t+1][0], acc[t+1][1])
			VMOVLPS(x, at(s, t*rowBytes))
			VMOVHPS(x, at(s, (t+1)*rowBytes))
		}
	} else {
		for t := range T {
			for j := 0; j < K; j += 4 {
				VMOVUPS(tree(acc[t][j], acc[t][j+1], acc[t][j+2], acc[t][j+3]), at(s, t*rowBytes+4*j))
			}
		}
	}
	ADDQ(Imm(uint64(4*K)), s)
	SUBQ(Imm(uint64(K)), keys)
	JG(LabelRef("keys"))
	end()
}

// The queries and keys of scoresWide.
const (
	wideQueries = 6
	wideKeys    = 8
)

// wide is the suffix of a type's kernels in 512-bit vectors.
func (c element) wide() string { return strings.TrimSuffix(c.suffix, "AVX2") + "AVX512" }

// scoresWide emits scores in 512-bit vectors, which hold the eight sums of one query and those of the next. The sums are those of scores, to the byte.
func scoresWide(c element) {
	function(fmt.Sprintf("scores%d%s", wideQueries, c.wide()), "func(s, q *float32, k, ahead *byte, keys, headDim int)",
		fmt.Sprintf("computes s[t][j] = q[t]·k[j] for %d queries; keys are rounded up to a multiple of 8. Scalar twin: scores.", wideQueries))
	s, q0, k0, ahead := pointer("s"), pointer("q"), pointer("k"), pointer("ahead")
	keys, headDim := pointer("keys"), pointer("headDim")
	qStride, kStride := GP64(), GP64()
	MOVQ(headDim, qStride)
	SHLQ(Imm(2), qStride)
	MOVQ(headDim, kStride)
	c.rowBytes(kStride)
	q, k := newRows(q0, qStride, wideQueries), newRows(k0, kStride, wideKeys)
	var acc [wideQueries / 2][wideKeys]reg.VecVirtual // of queries 2i and 2i+1
	Label("keys")
	for i := range acc {
		for j := range acc[i] {
			acc[i][j] = ZMM()
			VPXORD(acc[i][j], acc[i][j], acc[i][j])
		}
	}
	d := GP64()
	MOVQ(headDim, d)
	Label("dims")
	prefetch(ahead, c.bytes*wideKeys)
	var x [wideQueries / 2]reg.VecVirtual
	for i := range x {
		x[i] = ZMM()
		VMOVUPS(q.at(2*i), x[i].AsY())
		VINSERTF32X8(Imm(1), q.at(2*i+1), x[i], x[i])
	}
	for j := range wideKeys {
		y := ZMM()
		c.twice(k.at(j), y)
		for i := range x {
			VFMADD231PS(x[i], y, acc[i][j])
		}
	}
	q.advance(U32(uint32(4 * c.elements)))
	k.advance(Imm(uint64(c.bytes)))
	SUBQ(Imm(uint64(c.elements)), d)
	JG(LabelRef("dims"))
	for _, b := range q.base {
		SUBQ(qStride, b)
	}
	for range wideKeys - 1 {
		k.advance(kStride)
	}
	for i := range acc {
		for j := 0; j < wideKeys; j += 4 {
			a := acc[i][j:]
			sums := pairSums(pairSums(a[0], a[1]), pairSums(a[2], a[3]))
			second := YMM()
			VEXTRACTF64X4(Imm(1), sums, second)
			for t, y := range []reg.VecVirtual{sums.AsY().(reg.VecVirtual), second} {
				low := XMM()
				VEXTRACTF32X4(Imm(1), y, low)
				VADDPS(y.AsX(), low, low)
				VMOVUPS(low, at(s, (2*i+t)*rowBytes+4*j))
			}
		}
	}
	ADDQ(Imm(4*wideKeys), s)
	SUBQ(Imm(wideKeys), keys)
	JG(LabelRef("keys"))
	end()
}

// pairSums is VHADDPS of 512-bit vectors: in each 128 bits the sums of two pairs of a and of two of b, in a.
func pairSums(a, b reg.VecVirtual) reg.VecVirtual {
	odd := ZMM()
	VSHUFPS(Imm(0xdd), b, a, odd)
	VSHUFPS(Imm(0x88), b, a, a)
	VADDPS(odd, a, a)
	return a
}

// prefetch asks for the next n bytes at ahead, as many as the step has read of its own rows: by
// the time they are read, they have been fetched at the pace of the arithmetic.
func prefetch(ahead reg.Register, n int) {
	for i := 0; i < n; i += 64 {
		PREFETCHT1(at(ahead, i))
	}
	ADDQ(U32(uint32(n)), ahead)
}

// tree leaves the sums of the lanes of a, b, c, d in an XMM, clobbering them.
func tree(a, b, c, d reg.VecVirtual) reg.VecVirtual {
	VHADDPS(b, a, a)
	VHADDPS(d, c, c)
	VHADDPS(c, a, a)
	x := XMM()
	VEXTRACTF128(Imm(1), a, x)
	VADDPS(a.AsX(), x, x)
	return x
}

func softmax() {
	function("softmaxAVX2", "func(s *float32, n int, old float32) (m, sum float32)",
		"turns the first n of 64 scores into e^(s-m), the others into 0. Scalar twin: softmax.")
	s, n, m := pointer("s"), pointer("n"), broadcast("old")
	limit, index, eight, lowest, x := YMM(), YMM(), YMM(), YMM(), XMM()
	VMOVQ(n, x)
	VPBROADCASTD(x, limit)
	VMOVUPS(lane(), index)
	VMOVUPS(table("eight", func(int) uint32 { return 8 }), eight)
	VMOVUPS(splat("minusInf", math.Inf(-1)), lowest)
	for i := range pagePositions / 8 {
		mask, v := YMM(), YMM()
		VMOVUPS(at(s, 32*i), v)
		VPCMPGTD(index, limit, mask)
		VPADDD(eight, index, index)
		VBLENDVPS(mask, v, lowest, v)
		VMOVUPS(v, at(s, 32*i))
		VMAXPS(m, v, m)
	}
	top := maxLane(m)
	result(Return("m"), top)
	VBROADCASTSS(top, m)
	sums := []reg.VecVirtual{zero(), zero()}
	i := GP64()
	MOVQ(U32(pagePositions/16), i)
	Label("exp")
	for u := range sums {
		v := YMM()
		VMOVUPS(at(s, 32*u), v)
		VSUBPS(m, v, v)
		e := exp(v)
		VMOVUPS(e, at(s, 32*u))
		VADDPS(e, sums[u], sums[u])
	}
	ADDQ(Imm(64), s)
	DECQ(i)
	JNZ(LabelRef("exp"))
	VADDPS(sums[1], sums[0], sums[0])
	x = XMM()
	VEXTRACTF128(Imm(1), sums[0], x)
	VADDPS(sums[0].AsX(), x, x)
	VHADDPS(x, x, x)
	VHADDPS(x, x, x)
	result(Return("sum"), x)
	end()
}

// accumulate emits the weighted sum of value rows for T queries, some vectors of the head at a time.
func accumulate(c element, T int, widths []int) {
	function(fmt.Sprintf("accumulate%d%s", T, c.suffix), "func(acc, p *float32, v, ahead *byte, keys, headDim, width int)",
		fmt.Sprintf("computes acc[t] += Σ p[t][j]·v[j] for %d queries, term after term; rows of v are width elements apart. Scalar twin: accumulate.", T))
	acc, p, v, ahead := pointer("acc"), pointer("p"), pointer("v"), pointer("ahead")
	keys, headDim := pointer("keys"), pointer("headDim")
	accStride, vStride := GP64(), pointer("width")
	MOVQ(headDim, accStride)
	SHLQ(Imm(2), accStride)
	c.rowBytes(vStride)
	for _, D := range widths {
		// Of blocks a pass takes some whole ones, or half of one.
		step := max(8*D, c.elements)
		loop, next := fmt.Sprintf("dims%d", 8*D), fmt.Sprintf("below%d", 8*D)
		Label(loop)
		CMPQ(headDim, U32(uint32(step)))
		JL(LabelRef(next))
		for first := 0; first < step/8; first += D {
			c.pass(fmt.Sprintf("keys%dfrom%d", 8*D, first), YMM, first, D, T, acc, accStride, p, v, vStride, ahead, keys)
		}
		ADDQ(U32(uint32(4*step)), acc)
		ADDQ(U32(uint32(step/c.elements*c.bytes)), v)
		SUBQ(U32(uint32(step)), headDim)
		JMP(LabelRef(loop))
		Label(next)
	}
	end()
}

// accumulateWide emits accumulate for six queries in 512-bit vectors, of widths that are multiples of 16.
func accumulateWide(c element) {
	function(fmt.Sprintf("accumulate%d%s", wideQueries, c.wide()), "func(acc, p *float32, v, ahead *byte, keys, headDim, width int)",
		fmt.Sprintf("computes acc[t] += Σ p[t][j]·v[j] for %d queries, term after term; rows of v are width elements apart, and headDim is a multiple of 16. Scalar twin: accumulate.", wideQueries))
	acc, p, v, ahead := pointer("acc"), pointer("p"), pointer("v"), pointer("ahead")
	keys, headDim := pointer("keys"), pointer("headDim")
	accStride, vStride := GP64(), pointer("width")
	MOVQ(headDim, accStride)
	SHLQ(Imm(2), accStride)
	c.rowBytes(vStride)
	for _, D := range []int{4, 1} {
		loop, next := fmt.Sprintf("dims%d", 16*D), fmt.Sprintf("below%d", 16*D)
		Label(loop)
		CMPQ(headDim, U32(uint32(16*D)))
		JL(LabelRef(next))
		c.pass(fmt.Sprintf("keys%d", 16*D), ZMM, 0, D, wideQueries, acc, accStride, p, v, vStride, ahead, keys)
		ADDQ(U32(uint32(64*D)), acc)
		ADDQ(U32(uint32(2*D*c.bytes)), v)
		SUBQ(U32(uint32(16*D)), headDim)
		JMP(LabelRef(loop))
		Label(next)
	}
	end()
}

// pass adds D vectors of the head, from number first on of those at acc and v.
func (c element) pass(inner string, vector func() reg.VecVirtual, first, D, T int, acc, accStride, p, v, vStride, ahead, keys reg.Register) {
	a := make([][]reg.VecVirtual, T)
	size := int(vector().Size()) // of a vector, in bytes
	row := GP64()
	MOVQ(acc, row)
	for t := range a {
		a[t] = make([]reg.VecVirtual, D)
		for i := range a[t] {
			a[t][i] = vector()
			VMOVUPS(at(row, size*(first+i)), a[t][i])
		}
		if t < T-1 {
			ADDQ(accStride, row)
		}
	}
	vp, pp, j := GP64(), GP64(), GP64()
	MOVQ(v, vp)
	MOVQ(p, pp)
	MOVQ(keys, j)
	Label(inner)
	prefetch(ahead, size/4*D*c.bytes/c.elements)
	var scale reg.VecVirtual
	value := func(i int) reg.VecVirtual {
		y, n := vector(), first+i
		if c.integers == nil {
			c.load(at(vp, size/32*c.bytes*n), y)
			return y
		}
		block := at(vp, n/4*c.bytes)
		if n%4 == 0 || i == 0 {
			scale = c.scale(block)
		}
		c.quarter(block, n%4, scale, y)
		return y
	}
	w := make([]reg.VecVirtual, D)
	if T > 1 {
		for i := range w {
			w[i] = value(i)
		}
	}
	for t := range a {
		b := vector()
		VBROADCASTSS(at(pp, t*rowBytes), b)
		for i := range w {
			if T == 1 {
				w[i] = value(i)
			}
			VFMADD231PS(w[i], b, a[t][i])
		}
	}
	ADDQ(Imm(4), pp)
	ADDQ(vStride, vp)
	DECQ(j)
	JNZ(LabelRef(inner))
	for t := T - 1; t >= 0; t-- {
		for i := range a[t] {
			VMOVUPS(a[t][i], at(row, size*(first+i)))
		}
		if t > 0 {
			SUBQ(accStride, row)
		}
	}
}
