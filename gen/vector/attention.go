package main

import (
	"fmt"
	"math"

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
		if c.integers == nil { // for this many queries, pages of types with blocks are decoded to F32
			scoresWide(c)
			accumulateWide(c)
		}
	}
	decodes()
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

// prefetch prefetches the next n bytes at ahead, as many as the step has read of its own rows: they arrive at the pace
// of the arithmetic.
func prefetch(ahead reg.Register, n int) {
	for i := 0; i < n; i += 64 {
		PREFETCHT1(at(ahead, i))
	}
	ADDQ(U32(uint32(n)), ahead)
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
		// A pass takes some whole blocks, or half of one.
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

// accumulateWide emits accumulate for six queries in 512-bit vectors, and in one of 256 bits where the width is no
// multiple of 16.
func accumulateWide(c element) {
	function(fmt.Sprintf("accumulate%d%s", wideQueries, c.wide()), "func(acc, p *float32, v, ahead *byte, keys, headDim, width int)",
		fmt.Sprintf("computes acc[t] += Σ p[t][j]·v[j] for %d queries, term after term; rows of v are width elements apart. Scalar twin: accumulate.", wideQueries))
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
	CMPQ(headDim, U32(8))
	JL(LabelRef("done"))
	c.pass("keys8", YMM, 0, 1, wideQueries, acc, accStride, p, v, vStride, ahead, keys)
	Label("done")
	end()
}

// pass adds D vectors of the head, beginning with vector number first at acc and v.
func (c element) pass(inner string, vector func() reg.VecVirtual, first, D, T int, acc, accStride, p, v, vStride, ahead, keys reg.Register) {
	a := make([][]reg.VecVirtual, T)
	size := int(vector().Size()) // size of a vector in bytes
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
