// Command fit writes internal/quant/fit_amd64.s and its stubs: the sums that searches for scales need, of eight blocks at a time, one in each lane
// of a vector. Products are rounded before they are added, as in the scalar twins, so that both give the same bits.
package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

func main() {
	scaleSums()
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

func scaleSums() {
	e := begin("scaleSumsAVX2", "func(x, w *float32, n uintptr, inverse *float32, low, high float32, qx, qq *float32)",
		"scaleSumsAVX2 computes, in each of eight lanes, Σ w·q·x and Σ w·q² of n elements, where q is x·inverse rounded to whole numbers from low to high. Scalar twin: scaleSums in fit.go.")
	inverse, low, high := lanes("inverse"), broadcast("low"), broadcast("high")
	qx, qq := zero(), zero()
	e.each(func(x, w reg.VecVirtual) {
		q, s := YMM(), YMM()
		VMULPS(inverse, x, q)
		within(q, low, high)
		VMULPS(q, w, w)
		addProduct(qx, w, x, s)
		addProduct(qq, w, q, s)
	})
	store(qx, "qx")
	store(qq, "qq")
	RET()
}

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
