// Command fit writes internal/quant/fit_amd64.s and its stubs: the sums that searches for scales need, of eight blocks
// at a time, one in each lane of a vector. Products are rounded before they are added, as in the scalar twins, so that
// both give the same bits.
package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

func main() {
	fitScales()
	minimumSums()
	minimumError("minimumErrorAVX2", false)
	minimumError("minimumMagnitudeAVX2", true)
	Generate()
}

// element walks over x and w, [n][8] each.
type element struct{ x, w, n reg.Register }

func begin(name, signature, doc string) element {
	TEXT(name, NOSPLIT, signature)
	Pragma("noescape")
	Doc(doc)
	return element{Load(Param("x"), GP64()), Load(Param("w"), GP64()), Load(Param("n"), GP64())}
}

// each emits the loop's body, which finds an element of each block in x and its weight in w.
func (e element) each(body func(x, w reg.VecVirtual)) {
	Label("next")
	x, w := YMM(), YMM()
	VMOVUPS(Mem{Base: e.x}, x)
	VMOVUPS(Mem{Base: e.w}, w)
	body(x, w)
	ADDQ(Imm(32), e.x)
	ADDQ(Imm(32), e.w)
	DECQ(e.n)
	JNE(LabelRef("next"))
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

func lanes(param string) reg.VecVirtual {
	v := YMM()
	VMOVUPS(Mem{Base: Load(Param(param), GP64())}, v)
	return v
}

func zero() reg.VecVirtual {
	v := YMM()
	VXORPS(v, v, v)
	return v
}

func store(v reg.VecVirtual, param string) { VMOVUPS(v, Mem{Base: Load(Param(param), GP64())}) }

// within rounds v to whole numbers from low to high.
func within(v, low, high reg.VecVirtual) {
	const toEven = 0
	VROUNDPS(Imm(toEven), v, v)
	VMAXPS(low, v, v)
	VMINPS(high, v, v)
}

// addProduct emits sum += a·b, rounded twice.
func addProduct(sum, a, b, scratch reg.VecVirtual) {
	VMULPS(a, b, scratch)
	VADDPS(scratch, sum, sum)
}

// fitScales keeps the best scales and their gains in lanes, while it goes through the grids. A grid is given by what
// the largest element of a block becomes on it.
func fitScales() {
	e := begin("fitScalesAVX2", "func(x, w *float32, n uintptr, reach *float32, tries uintptr, low, high, negligible float32, d *float32)",
		"fitScalesAVX2 finds, in each of eight lanes, the scale of n elements as fitScale does, where reach holds what the largest element becomes in each try. Scalar twin: fitScale in fit.go.")
	reach, tries := Load(Param("reach"), GP64()), Load(Param("tries"), GP64())
	low, high := broadcast("low"), broadcast("high")
	magnitude, top, most, m, v, ahead := YMM(), zero(), zero(), YMM(), YMM(), YMM()
	VPCMPEQD(magnitude, magnitude, magnitude)
	VPSRLD(Imm(1), magnitude, magnitude)
	x, n := GP64(), GP64()
	MOVQ(e.x, x)
	MOVQ(e.n, n)
	Label("top")
	VMOVUPS(Mem{Base: x}, v)
	VANDPS(magnitude, v, m)
	VCMPPS(Imm(lessThan), m, most, ahead)
	VBLENDVPS(ahead, v, top, top)
	VBLENDVPS(ahead, m, most, most)
	ADDQ(Imm(32), x)
	DECQ(n)
	JNE(LabelRef("top"))

	some, d, gain, qx, qq, first, inverse := YMM(), YMM(), YMM(), YMM(), YMM(), YMM(), YMM()
	VCMPPS(Imm(lessOrEqual), most, broadcast("negligible"), some) // lanes that are not zero
	sums := func(label string) {
		VBROADCASTSS(Mem{Base: reach}, first)
		VDIVPS(top, first, inverse)
		VANDPS(some, inverse, inverse)
		VXORPS(qx, qx, qx)
		VXORPS(qq, qq, qq)
		w := GP64()
		MOVQ(e.x, x)
		MOVQ(e.w, w)
		MOVQ(e.n, n)
		Label(label)
		value, weight, q, s := YMM(), YMM(), YMM(), YMM()
		VMOVUPS(Mem{Base: x}, value)
		VMULPS(inverse, value, q)
		within(q, low, high)
		VMULPS(Mem{Base: w}, q, weight)
		addProduct(qx, weight, value, s)
		addProduct(qq, weight, q, s)
		ADDQ(Imm(32), x)
		ADDQ(Imm(32), w)
		DECQ(n)
		JNE(LabelRef(label))
	}
	sums("sum")
	none, weighed, scale := zero(), YMM(), YMM()
	VCMPPS(Imm(lessThan), qq, none, weighed)
	VDIVPS(qq, qx, scale)
	VANDPS(weighed, scale, d)
	VMULPS(qx, d, gain)
	VDIVPS(first, top, scale) // where nothing is of any importance
	VANDPS(some, scale, scale)
	VBLENDVPS(weighed, d, scale, d)
	Label("try")
	ADDQ(Imm(4), reach)
	sums("again")
	square, better := YMM(), YMM()
	VMULPS(qx, qx, square)
	VMULPS(gain, qq, better)
	VCMPPS(Imm(lessThan), square, better, better)
	none = zero()
	VCMPPS(Imm(lessThan), qq, none, weighed)
	VANDPS(weighed, better, better)
	VDIVPS(qq, qx, scale)
	VBLENDVPS(better, scale, d, d)
	VMULPS(qx, scale, scale)
	VBLENDVPS(better, scale, gain, gain)
	DECQ(tries)
	JNE(LabelRef("try"))
	store(d, "d")
	VZEROUPPER()
	RET()
}

// Predicates of VCMPPS, which compares its third operand here with its second.
const (
	lessThan    = 1
	lessOrEqual = 2
)

func minimumSums() {
	e := begin("minimumSumsAVX2", "func(x, w *float32, n uintptr, low, inverse *float32, most float32, q, qq, qx *float32)",
		"minimumSumsAVX2 computes, in each of eight lanes, Σ w·q, Σ w·q² and Σ w·q·x of n elements, where q is (x−low)·inverse rounded to whole numbers from 0 to most. Scalar twin: fitMinimum in fit.go.")
	low, inverse, most, none := lanes("low"), lanes("inverse"), broadcast("most"), zero()
	sum, qq, qx := zero(), zero(), zero()
	e.each(func(x, w reg.VecVirtual) {
		q, s := YMM(), YMM()
		VSUBPS(low, x, q)
		VMULPS(inverse, q, q)
		within(q, none, most)
		VMULPS(q, w, w)
		VADDPS(w, sum, sum)
		addProduct(qq, w, q, s)
		addProduct(qx, w, x, s)
	})
	store(sum, "q")
	store(qq, "qq")
	store(qx, "qx")
	RET()
}

func minimumError(name string, absolute bool) {
	what := "Σ w·(scale·q+offset−x)²"
	if absolute {
		what = "Σ w·|scale·q+offset−x|"
	}
	e := begin(name, "func(x, w *float32, n uintptr, low, inverse *float32, most float32, scale, offset, sum *float32)",
		name+" computes, in each of eight lanes, "+what+" of n elements, where q is (x−low)·inverse rounded to whole numbers from 0 to most. Scalar twin: minimumError in fit.go.")
	low, inverse, most, none := lanes("low"), lanes("inverse"), broadcast("most"), zero()
	scale, offset, sum := lanes("scale"), lanes("offset"), zero()
	var magnitude reg.VecVirtual
	if absolute {
		magnitude = YMM()
		VPCMPEQD(magnitude, magnitude, magnitude)
		VPSRLD(Imm(1), magnitude, magnitude)
	}
	e.each(func(x, w reg.VecVirtual) {
		q := YMM()
		VSUBPS(low, x, q)
		VMULPS(inverse, q, q)
		within(q, none, most)
		VMULPS(scale, q, q)
		VADDPS(offset, q, q)
		VSUBPS(x, q, q)
		if absolute {
			VANDPS(magnitude, q, q)
		} else {
			VMULPS(q, q, q)
		}
		addProduct(sum, w, q, q)
	})
	store(sum, "sum")
	RET()
}
