// Command row writes internal/quant/row_amd64.s and its stubs: conversions of many elements, and quantisation of blocks
// with quants that follow from their largest magnitude without a search. They write the bytes of their scalar twins.
// They need AVX2 and F16C.
package main

import (
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

func main() {
	decodeF16()
	encodeF16()
	topMagnitude()
	encodeQ40()
	encodeQ80()
	spread()
	roundScale()
	roundGrid()
	costs()
	Generate()
}

func begin(name, signature, doc string) {
	TEXT(name, NOSPLIT, signature)
	Pragma("noescape")
	Doc(doc)
}

func load(param string) reg.Register { return Load(Param(param), GP64()) }

// constant returns a vector that has bits in each of its eight lanes.
func constant(bits uint32) reg.VecVirtual {
	r, v := GP32(), YMM()
	MOVL(U32(bits), r)
	VMOVD(r, v.AsX())
	VPBROADCASTD(v.AsX(), v)
	return v
}

// magnitudes are all bits but the sign.
const magnitudes = 1<<31 - 1

func decodeF16() {
	begin("decodeF16AVX2", "func(dst *float32, src *byte, n uintptr)", "decodeF16AVX2 widens n binary16 numbers, a multiple of 8. Scalar twin: F32FromF16.")
	dst, src, n := load("dst"), load("src"), load("n")
	v := YMM()
	Label("next")
	VCVTPH2PS(Mem{Base: src}, v)
	VMOVUPS(v, Mem{Base: dst})
	ADDQ(Imm(16), src)
	ADDQ(Imm(32), dst)
	SUBQ(Imm(8), n)
	JNE(LabelRef("next"))
	VZEROUPPER()
	RET()
}

func encodeF16() {
	begin("encodeF16AVX2", "func(dst *byte, src *float32, n uintptr)", "encodeF16AVX2 rounds n numbers to binary16, a multiple of 8. Scalar twin: F16FromF32.")
	dst, src, n := load("dst"), load("src"), load("n")
	v := YMM()
	Label("next")
	VMOVUPS(Mem{Base: src}, v)
	VCVTPS2PH(Imm(0), v, Mem{Base: dst})
	ADDQ(Imm(32), src)
	ADDQ(Imm(16), dst)
	SUBQ(Imm(8), n)
	JNE(LabelRef("next"))
	VZEROUPPER()
	RET()
}

func topMagnitude() {
	begin("topMagnitudeAVX2", "func(x *float32, n uintptr) uint32",
		"topMagnitudeAVX2 returns the bits of the largest magnitude of n numbers, a multiple of 8; what is not a number is above all others. Scalar twin: the loop of TopMagnitude.")
	x, n := load("x"), load("n")
	mask, top, v := constant(magnitudes), YMM(), YMM()
	VPXOR(top, top, top)
	Label("next")
	VPAND(Mem{Base: x}, mask, v)
	VPMAXUD(v, top, top)
	ADDQ(Imm(32), x)
	SUBQ(Imm(8), n)
	JNE(LabelRef("next"))
	half := XMM()
	VEXTRACTI128(Imm(1), top, half)
	VPMAXUD(half, top.AsX(), half)
	fold(half, VPMAXUD)
	r := GP32()
	VMOVD(half, r)
	Store(r, ReturnIndex(0))
	VZEROUPPER()
	RET()
}

// fold leaves in every lane of x what op makes of its four lanes.
func fold(x reg.VecVirtual, op func(...Op)) {
	s := XMM()
	for _, order := range []uint8{0x4e, 0xb1} { // other halves, then neighbours
		VPSHUFD(Imm(uint64(order)), x, s)
		op(s, x, x)
	}
}

// quarters of a block, in registers.
type quarters [4]reg.VecVirtual

// block emits a loop over blocks of 32; bytes is a block's size. body begins with a block's elements and their largest
// magnitude in each lane of top.
func block(bytes uint64, body func(dst, src reg.Register, x quarters, top reg.VecVirtual)) {
	dst, src, n := load("dst"), load("src"), load("blocks")
	mask := constant(magnitudes)
	Label("next")
	var x, m quarters
	for i := range x {
		x[i], m[i] = YMM(), YMM()
		VMOVUPS(Mem{Base: src, Disp: 32 * i}, x[i])
		VANDPS(mask, x[i], m[i])
	}
	VMAXPS(m[0], m[1], m[0])
	VMAXPS(m[2], m[3], m[2])
	VMAXPS(m[0], m[2], m[0])
	top := XMM()
	VEXTRACTF128(Imm(1), m[0], top)
	VMAXPS(top, m[0].AsX(), top)
	fold(top, VMAXPS)
	body(dst, src, x, top)
	ADDQ(Imm(128), src)
	ADDQ(U32(uint32(bytes)), dst)
	DECQ(n)
	JNE(LabelRef("next"))
	VZEROUPPER()
	RET()
}

// unit stores the scale d as binary16 and returns its inverse in all lanes: 0 where d is too small.
func unit(dst reg.Register, d, one, least, mask reg.VecVirtual) reg.VecVirtual {
	half, m, id, all := XMM(), XMM(), XMM(), YMM()
	VCVTPS2PH(Imm(0), d, half)
	VPEXTRW(Imm(0), half, Mem{Base: dst})
	VANDPS(mask.AsX(), d, m)
	VCMPPS(Imm(lessOrEqual), m, least.AsX(), m) // least ≤ |d|
	VDIVPS(d, one.AsX(), id)
	VANDPS(m, id, id)
	VBROADCASTSS(id, all)
	return all
}

// lessOrEqual is VCMPPS's predicate; it compares its third operand here with its second.
const lessOrEqual = 2

// float returns a vector that has v in each lane.
func float(v float32) reg.VecVirtual { return constant(math.Float32bits(v)) }

func encodeQ40() {
	begin("encodeQ40AVX2", "func(dst *byte, src *float32, blocks uintptr)", "encodeQ40AVX2 writes blocks of Q4_0. Scalar twin: encodeQ4_0.")
	mask, one, least, shift := constant(magnitudes), float(1), float(0x1p-126), float(8.5)
	by, most := float(-0.125), constant(15)
	block(18, func(dst, src reg.Register, x quarters, top reg.VecVirtual) {
		// the first element of largest magnitude, with its sign; of zeros the positive one
		all, at := YMM(), GP32()
		VINSERTF128(Imm(1), top, top.AsY(), all)
		for i := range x {
			m, bits := YMM(), GP32()
			VANDPS(mask, x[i], m)
			VCMPPS(Imm(0), all, m, m)
			VMOVMSKPS(m, bits)
			if i == 0 {
				MOVL(bits, at)
				continue
			}
			SHLL(Imm(uint64(8*i)), bits)
			ORL(bits, at)
		}
		BSFL(at, at)
		d, zero := XMM(), XMM()
		VMOVSS(Mem{Base: src, Index: at, Scale: 4}, d)
		VXORPS(zero, zero, zero)
		VADDSS(zero, d, d)
		VMULPS(by.AsX(), d, d)
		id := unit(dst, d, one, least, mask)
		for i := range x {
			VMULPS(id, x[i], x[i])
			VADDPS(shift, x[i], x[i])
			VCVTTPS2DQ(x[i], x[i])
			VPMINSD(most, x[i], x[i])
		}
		VPACKUSDW(x[1], x[0], x[0])
		VPACKUSDW(x[3], x[2], x[2])
		VPSLLW(Imm(4), x[2], x[2])
		VPOR(x[2], x[0], x[0])
		upper := XMM()
		VEXTRACTI128(Imm(1), x[0], upper)
		VPACKUSWB(upper, x[0].AsX(), upper)
		VPSHUFD(Imm(0xd8), upper, upper) // quarters' halves were packed lane by lane
		VMOVDQU(upper, Mem{Base: dst, Disp: 2})
	})
}

func encodeQ80() {
	begin("encodeQ80AVX2", "func(dst *byte, src *float32, blocks uintptr)", "encodeQ80AVX2 writes blocks of Q8_0. Scalar twin: encodeQ8_0.")
	mask, one, least, sign, nearlyHalf := constant(magnitudes), float(1), float(0x1p-126), constant(1<<31), float(0.5-0x1p-25)
	steps := float(127)
	order := YMM()
	VMOVDQU(lanesOrder(), order)
	block(34, func(dst, src reg.Register, x quarters, top reg.VecVirtual) {
		d := XMM()
		VDIVPS(steps.AsX(), top, d)
		id := unit(dst, d, one, least, mask)
		for i := range x {
			half := YMM()
			VMULPS(id, x[i], x[i])
			VANDPS(sign, x[i], half)
			VORPS(nearlyHalf, half, half)
			VADDPS(half, x[i], x[i])
			VCVTTPS2DQ(x[i], x[i])
		}
		VPACKSSDW(x[1], x[0], x[0])
		VPACKSSDW(x[3], x[2], x[2])
		VPACKSSWB(x[2], x[0], x[0])
		VPERMD(x[0], order, x[0])
		VMOVDQU(x[0], Mem{Base: dst, Disp: 2})
	})
}

func spread() {
	begin("spreadAVX2", "func(q *uint8, x *float32, most float32) (d, least float32)",
		"spreadAVX2 lays whole numbers from 0 to most over the range of 32 elements. Scalar twin: spread in encode_block.go.")
	q, src, most := load("q"), load("x"), broadcast("most")
	one, smallest, half, mask := float(1), float(0x1p-126), float(0.5), constant(magnitudes)
	var x quarters
	for i := range x {
		x[i] = YMM()
		VMOVUPS(Mem{Base: src, Disp: 32 * i}, x[i])
	}
	extreme := func(op func(...Op)) reg.VecVirtual { // in all lanes
		a, b, all := YMM(), YMM(), YMM()
		op(x[0], x[1], a)
		op(x[2], x[3], b)
		op(a, b, a)
		VEXTRACTF128(Imm(1), a, b.AsX())
		op(b.AsX(), a.AsX(), a.AsX())
		r := XMM()
		VMOVAPS(a.AsX(), r)
		fold(r, op)
		VBROADCASTSS(r, all)
		return all
	}
	least, top, d, zero, m, id, limit := extreme(VMINPS), extreme(VMAXPS), YMM(), YMM(), YMM(), YMM(), YMM()
	VXORPS(zero, zero, zero)
	VADDPS(zero, least, least) // turns -0 into +0
	VADDPS(zero, top, top)
	VSUBPS(least, top, d)
	VDIVPS(most, d, d)
	VANDPS(mask, d, m)
	VCMPPS(Imm(lessOrEqual), m, smallest, m)
	VDIVPS(d, one, id)
	VANDPS(m, id, id)
	VCVTTPS2DQ(most, limit)
	for i := range x {
		VSUBPS(least, x[i], x[i])
		VMULPS(id, x[i], x[i])
		VADDPS(half, x[i], x[i])
		VCVTTPS2DQ(x[i], x[i])
		VPMINSD(limit, x[i], x[i])
	}
	packBytes(x[0], x[1], Mem{Base: q})
	packBytes(x[2], x[3], Mem{Base: q, Disp: 16})
	Store(d.AsX(), Return("d"))
	Store(least.AsX(), Return("least"))
	VZEROUPPER()
	RET()
}

// lanesOrder returns the order in which packing lane by lane has left groups of four quants.
func lanesOrder() Mem {
	m := GLOBL("order", RODATA|NOPTR)
	for i, v := range []uint32{0, 4, 1, 5, 2, 6, 3, 7} {
		DATA(4*i, U32(v))
	}
	return m
}

func roundScale() {
	begin("roundScaleAVX2", "func(q *uint8, x *float32, n uintptr, inverse, low, high float32)",
		"roundScaleAVX2 sets n quants, a multiple of 16, to x·inverse rounded to whole numbers from low to high, less low. Scalar twin: roundScale in fit.go.")
	q, x, n := load("q"), load("x"), load("n")
	inverse, low, high := broadcast("inverse"), broadcast("low"), broadcast("high")
	Label("next")
	var v [2]reg.VecVirtual
	for i := range v {
		v[i] = YMM()
		VMULPS(Mem{Base: x, Disp: 32 * i}, inverse, v[i])
		VROUNDPS(Imm(0), v[i], v[i])
		VMAXPS(low, v[i], v[i])
		VMINPS(high, v[i], v[i])
		VSUBPS(low, v[i], v[i])
		VCVTTPS2DQ(v[i], v[i])
	}
	packBytes(v[0], v[1], Mem{Base: q})
	ADDQ(Imm(16), q)
	ADDQ(Imm(64), x)
	SUBQ(Imm(16), n)
	JNE(LabelRef("next"))
	VZEROUPPER()
	RET()
}

func roundGrid() {
	begin("roundGridAVX2", "func(codes *uint8, x *float32, n uintptr, inverse, most float32)",
		"roundGridAVX2 sets n codes, a multiple of 16, to half of x·inverse−1, rounded to whole numbers from 0 to most. Scalar twin: gridPart.round in encode_grid.go.")
	codes, x, n := load("codes"), load("x"), load("n")
	inverse, most, one, half, none := broadcast("inverse"), broadcast("most"), float(1), float(0.5), YMM()
	VXORPS(none, none, none)
	Label("next")
	var v [2]reg.VecVirtual
	for i := range v {
		v[i] = YMM()
		VMULPS(Mem{Base: x, Disp: 32 * i}, inverse, v[i])
		VSUBPS(one, v[i], v[i])
		VMULPS(half, v[i], v[i])
		VROUNDPS(Imm(0), v[i], v[i])
		VMAXPS(none, v[i], v[i])
		VMINPS(most, v[i], v[i])
		VCVTTPS2DQ(v[i], v[i])
	}
	packBytes(v[0], v[1], Mem{Base: codes})
	ADDQ(Imm(16), codes)
	ADDQ(Imm(64), x)
	SUBQ(Imm(16), n)
	JNE(LabelRef("next"))
	VZEROUPPER()
	RET()
}

func costs() {
	begin("costsAVX2", "func(c, x, choice *float32, n uintptr, step float32)",
		"costsAVX2 sets, for n elements, what each of eight codes adds to the error: choice·(step·(2·code+1)−x)². Scalar twin: gridPart.cost in encode_grid.go.")
	c, x, choice, n := load("c"), load("x"), load("choice"), load("n")
	steps, v, w := broadcast("step"), YMM(), YMM()
	VMULPS(oddNumbers(), steps, steps)
	Label("next")
	VBROADCASTSS(Mem{Base: x}, v)
	VBROADCASTSS(Mem{Base: choice}, w)
	VSUBPS(v, steps, v)
	VMULPS(v, v, v)
	VMULPS(v, w, v)
	VMOVUPS(v, Mem{Base: c})
	ADDQ(Imm(32), c)
	ADDQ(Imm(4), x)
	ADDQ(Imm(4), choice)
	DECQ(n)
	JNE(LabelRef("next"))
	VZEROUPPER()
	RET()
}

// oddNumbers are the numbers of eight codes.
func oddNumbers() Mem {
	m := GLOBL("odd", RODATA|NOPTR)
	for i := range 8 {
		DATA(4*i, F32(float32(2*i+1)))
	}
	return m
}

// packBytes stores sixteen whole numbers, eight in each vector, as bytes.
func packBytes(first, second reg.VecVirtual, to Mem) {
	VPACKUSDW(second, first, first)
	upper := XMM()
	VEXTRACTI128(Imm(1), first, upper)
	VPACKUSWB(upper, first.AsX(), upper)
	VPSHUFD(Imm(0xd8), upper, upper) // vectors' halves were packed lane by lane
	VMOVDQU(upper, to)
}

func broadcast(param string) reg.VecVirtual {
	p, err := Param(param).Resolve()
	if err != nil {
		panic(err)
	}
	v := YMM()
	VBROADCASTSS(p.Addr, v)
	return v
}
