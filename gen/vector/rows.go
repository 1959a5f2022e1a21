package main

import (
	"fmt"
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// rowKernel emits dst = f(sources…) element by element; the parameters follow dst in signature order, s is a scalar.
func rowKernel(name, twin, doc string, sources []string, scalar bool, unroll int, f func(x []reg.VecVirtual, s reg.VecVirtual) reg.VecVirtual) {
	signature := "func(dst"
	for _, x := range sources {
		signature += ", " + x
	}
	signature += " *float32, n int"
	if scalar {
		signature += ", s float32"
	}
	function(name, signature+")", "computes "+doc+". Scalar twin: "+twin+".")
	pointers := []reg.Register{pointer("dst")}
	for _, x := range sources {
		pointers = append(pointers, pointer(x))
	}
	n := pointer("n")
	var s reg.VecVirtual
	if scalar {
		s = broadcast("s")
	}
	loops(n, unroll, pointers, func(vectors int, mask reg.VecVirtual) {
		for u := range vectors {
			x := make([]reg.VecVirtual, len(sources))
			for i := range x {
				x[i] = load(pointers[1+i], u, mask)
			}
			store(f(x, s), pointers[0], u, mask)
		}
	})
	end()
}

func elementwise() {
	type vec = reg.VecVirtual
	rowKernel("addAVX2", "add", "dst = y + x", []string{"y", "x"}, false, 4, func(x []vec, _ vec) vec {
		VADDPS(x[1], x[0], x[0])
		return x[0]
	})
	rowKernel("mulAVX2", "mul", "dst = y·x", []string{"y", "x"}, false, 4, func(x []vec, _ vec) vec {
		VMULPS(x[1], x[0], x[0])
		return x[0]
	})
	rowKernel("scaleAVX2", "scale", "dst = s·x", []string{"x"}, true, 4, func(x []vec, s vec) vec {
		VMULPS(s, x[0], x[0])
		return x[0]
	})
	rowKernel("addScaledAVX2", "addScaled", "dst = y + s·x", []string{"y", "x"}, true, 4, func(x []vec, s vec) vec {
		VFMADD231PS(s, x[1], x[0])
		return x[0]
	})
	rowKernel("mulAddAVX2", "mulAdd", "dst = z + x·y", []string{"z", "x", "y"}, false, 4, func(x []vec, _ vec) vec {
		VFMADD231PS(x[1], x[2], x[0])
		return x[0]
	})
	rowKernel("expAVX2", "exp32", "dst = e^x", []string{"x"}, false, 2, func(x []vec, _ vec) vec { return exp(x[0]) })

	for _, a := range activations {
		rowKernel(a.name+"AVX2", "activate", "dst = act(gate)", []string{"gate"}, true, 2, func(x []vec, s vec) vec { return a.emit(x[0], s) })
		rowKernel(a.name+"MulAVX2", "activate", "dst = act(gate)·up", []string{"gate", "up"}, true, 2, func(x []vec, s vec) vec {
			y := a.emit(x[0], s)
			VMULPS(x[1], y, y)
			return y
		})
	}
	rowKernel("dreluMulAVX2", "activate", "dst = max(gate,0)·max(up,0)", []string{"gate", "up"}, true, 2, func(x []vec, s vec) vec {
		y, u := above(x[0], s), above(x[1], s)
		VMULPS(u, y, y)
		return y
	})
}

// activations by name; s is the threshold: of FATReLU, for which emit returns x > s ? x : 0, or of magnitudes that
// count as 0.
var activations = []struct {
	name string
	emit func(x, s reg.VecVirtual) reg.VecVirtual
}{
	{"silu", func(x, s reg.VecVirtual) reg.VecVirtual {
		y := YMM()
		VXORPS(table("signs", func(int) uint32 { return 1 << 31 }), x, y)
		return large(logistic(x, y), s)
	}},
	{"gelu", func(x, s reg.VecVirtual) reg.VecVirtual {
		const gelu1 = 2 * 0.79788456080286535588 // as in activation.go
		y := YMM()
		VMULPS(x, x, y)
		c := YMM()
		VMOVUPS(splat("gelu1", -gelu1), c)
		VFMADD132PS(splat("gelu3", -gelu1*0.044715), c, y)
		VMULPS(x, y, y)
		return large(logistic(x, y), s)
	}},
	{"logistic", func(x, _ reg.VecVirtual) reg.VecVirtual {
		y, one := YMM(), YMM()
		VXORPS(table("signs", func(int) uint32 { return 1 << 31 }), x, y)
		VMOVUPS(splat("one", 1), one)
		return logistic(one, y)
	}},
	{"geluErf", func(x, _ reg.VecVirtual) reg.VecVirtual {
		c, t, y, one := YMM(), YMM(), YMM(), YMM()
		VANDPS(table("magnitudes", func(int) uint32 { return 1<<31 - 1 }), x, c)
		VMINPS(splat("erfMost", 12), c, c)
		VMOVUPS(splat("one", 1), one)
		VMOVAPS(one, t)
		VFMADD231PS(splat("erfSlope", erfSlope*math.Sqrt2/2), c, t)
		VDIVPS(t, one, t)
		VMULPS(c, c, y)
		VMULPS(splat("minusHalf", -0.5), y, y)
		e, p := exp(y), YMM()
		VMOVUPS(splat("erf7", erfs[0]/2), p)
		for i, f := range erfs[1:] {
			VFMADD213PS(splat(fmt.Sprintf("erf%d", 6-i), f/2), t, p)
		}
		VMULPS(t, p, p)
		VMULPS(c, p, p)
		zero := zero()
		VMAXPS(x, zero, zero) // x, if it is NaN
		VFNMADD231PS(e, p, zero)
		return zero
	}},
	{"geluQuick", func(x, _ reg.VecVirtual) reg.VecVirtual {
		y := YMM()
		VMULPS(splat("minusQuick", -1.702), x, y)
		return logistic(x, y)
	}},
	{"relu", above},
	{"relu2", func(x, s reg.VecVirtual) reg.VecVirtual {
		y := above(x, s)
		VMULPS(y, y, y)
		return y
	}},
}

// erfc(z) is exp(-z²) times the polynomial of t = 1/(1+erfSlope·z) with these coefficients, of t⁸ to t, within a relative
// error of 2e-7 for z from 0 to 10. A Remez exchange found them.
//
// Source: Abramowitz and Stegun 1964, 7.1.26 (Hastings 1955), for its form.
const erfSlope = 0.44

var erfs = [...]float64{0.0712231681, -0.2779467522, 0.2966852871, -0.02017865177, 0.2158111766, 0.2173138653, 0.248871132, 0.2482209566}

// logistic is x / (1 + e^y).
func logistic(x, y reg.VecVirtual) reg.VecVirtual {
	e := exp(y)
	VADDPS(splat("one", 1), e, e)
	VDIVPS(e, x, e)
	return e
}

// large is x unless its magnitude is below s; NaN stays.
func large(x, s reg.VecVirtual) reg.VecVirtual {
	m := YMM()
	VANDPS(table("magnitudes", func(int) uint32 { return 1<<31 - 1 }), x, m)
	VCMPPS(Imm(notLess), s, m, m)
	VANDPS(x, m, m)
	return m
}

// above is x > s ? x : 0; NaN stays.
func above(x, s reg.VecVirtual) reg.VecVirtual {
	m := YMM()
	VCMPPS(Imm(notLessOrEqual), s, x, m)
	VANDPS(x, m, m)
	return m
}

func maximum() {
	function("maxAVX2", "func(x *float32, n int) float32", "is the largest of x, NaNs passed over. Scalar twin: maximum.")
	x, n := pointer("x"), pointer("n")
	lowest := splat("minusInf", math.Inf(-1))
	var m [4]reg.VecVirtual
	for i := range m {
		m[i] = YMM()
		VMOVUPS(lowest, m[i])
	}
	loops(n, 4, []reg.Register{x}, func(vectors int, mask reg.VecVirtual) {
		for u := range vectors {
			v := load(x, u, mask)
			if mask != nil {
				low := YMM()
				VMOVUPS(lowest, low)
				VBLENDVPS(mask, v, low, v)
			}
			VMAXPS(m[u], v, m[u]) // the second source, m, is the result where v is NaN
		}
	})
	VMAXPS(m[1], m[0], m[0])
	VMAXPS(m[3], m[2], m[2])
	VMAXPS(m[2], m[0], m[0])
	result(ReturnIndex(0), maxLane(m[0]))
	end()
}

// maxLane leaves the largest lane of v, which holds no NaN, in all lanes of an XMM.
func maxLane(v reg.VecVirtual) reg.VecVirtual {
	x, y := XMM(), XMM()
	VEXTRACTF128(Imm(1), v, x)
	VMAXPS(v.AsX(), x, x)
	VPERMILPS(Imm(0b01_00_11_10), x, y)
	VMAXPS(y, x, x)
	VPERMILPS(Imm(0b10_11_00_01), x, y)
	VMAXPS(y, x, x)
	return x
}

func halves() {
	function("toF16AVX2", "func(dst *uint16, x *float32, n int)", "rounds to halves, ties to even; n is a multiple of 8. Scalar twin: toF16.")
	dst, x, n := pointer("dst"), pointer("x"), pointer("n")
	Label("loop")
	v := YMM()
	VMOVUPS(at(x, 0), v)
	VCVTPS2PH(Imm(0), v, at(dst, 0))
	ADDQ(Imm(16), dst)
	ADDQ(Imm(32), x)
	SUBQ(Imm(8), n)
	JG(LabelRef("loop"))
	end()

	function("fromF16AVX2", "func(dst *float32, x *uint16, n int)", "widens halves; n is a multiple of 8. Scalar twin: fromF16.")
	dst, x, n = pointer("dst"), pointer("x"), pointer("n")
	Label("loop")
	v = YMM()
	VCVTPH2PS(at(x, 0), v)
	VMOVUPS(v, at(dst, 0))
	ADDQ(Imm(32), dst)
	ADDQ(Imm(16), x)
	SUBQ(Imm(8), n)
	JG(LabelRef("loop"))
	end()
}

// norms emits the sums of norms in float64, sixteen lanes wide, and the operations that use them.
func norms() {
	sum("sumAVX2", "func(x *float32, n int) float64", "is Σx in float64; n is a multiple of 16. Scalar twin: layerNorm.", func(_, x, acc reg.VecVirtual) {
		VADDPD(x, acc, acc)
	})
	sum("sumSquaresAVX2", "func(x *float32, n int) float64", "is Σx² in float64; n is a multiple of 16. Scalar twin: rmsNorm.", func(_, x, acc reg.VecVirtual) {
		VFMADD231PD(x, x, acc)
	})
	sum("sumDeviationsAVX2", "func(x *float32, n int, mean float64) float64", "is Σ(x−mean)² in float64; n is a multiple of 16. Scalar twin: layerNorm.", func(mean, x, acc reg.VecVirtual) {
		VSUBPD(mean, x, x)
		VFMADD231PD(x, x, acc)
	})
	type vec = reg.VecVirtual
	rowKernel("scaleByAVX2", "rmsNorm", "dst = s·x·weight", []string{"x", "weight"}, true, 4, func(x []vec, s vec) vec {
		VMULPS(s, x[0], x[0])
		VMULPS(x[1], x[0], x[0])
		return x[0]
	})
	rowKernel("shiftAVX2", "layerNorm", "dst = x − s", []string{"x"}, true, 4, func(x []vec, s vec) vec {
		VSUBPS(s, x[0], x[0])
		return x[0]
	})
}

func sum(name, signature, doc string, step func(mean, x, acc reg.VecVirtual)) {
	function(name, signature, doc)
	x, n := pointer("x"), pointer("n")
	mean := YMM()
	if name == "sumDeviationsAVX2" {
		a, err := Param("mean").Resolve()
		if err != nil {
			panic(err)
		}
		VBROADCASTSD(a.Addr, mean)
	}
	var acc [4]reg.VecVirtual
	for i := range acc {
		acc[i] = zero()
	}
	Label("loop")
	CMPQ(n, Imm(16))
	JL(LabelRef("done"))
	for i := range acc {
		v := YMM()
		VCVTPS2PD(at(x, 16*i), v)
		step(mean, v, acc[i])
	}
	ADDQ(Imm(64), x)
	SUBQ(Imm(16), n)
	JMP(LabelRef("loop"))
	Label("done")
	VADDPD(acc[1], acc[0], acc[0])
	VADDPD(acc[3], acc[2], acc[2])
	VADDPD(acc[2], acc[0], acc[0])
	r := XMM()
	VEXTRACTF128(Imm(1), acc[0], r)
	VADDPD(acc[0].AsX(), r, r)
	VHADDPD(r, r, r)
	result(ReturnIndex(0), r)
	end()
}

func rotations() {
	const signature = "func(x *float32, heads, headDim int, cos, sin *float32, pairs int)"
	function("rotateHalvesAVX2", signature, "rotates pairs (x[i], x[i+pairs]) of every head; pairs is a multiple of 8. Scalar twin: rotate.")
	rotation(8, func(x, pairs, cos, sin, i reg.Register) {
		c, s, lo, hi, y := YMM(), YMM(), YMM(), YMM(), YMM()
		first, second := Mem{Base: x, Index: i, Scale: 4}, GP64()
		LEAQ(Mem{Base: x, Index: pairs, Scale: 4}, second)
		VMOVUPS(Mem{Base: cos, Index: i, Scale: 4}, c)
		VMOVUPS(Mem{Base: sin, Index: i, Scale: 4}, s)
		VMOVUPS(first, lo)
		VMOVUPS(Mem{Base: second, Index: i, Scale: 4}, hi)
		VMULPS(s, hi, y)
		VFMSUB231PS(c, lo, y)
		VMOVUPS(y, first)
		VMULPS(s, lo, y)
		VFMADD231PS(c, hi, y)
		VMOVUPS(y, Mem{Base: second, Index: i, Scale: 4})
	})

	function("rotateInterleavedAVX2", signature, "rotates pairs (x[2i], x[2i+1]) of every head; pairs is a multiple of 4. Scalar twin: rotate.")
	twice := table("twice", func(i int) uint32 { return uint32(i / 2) })
	rotation(4, func(x, _, cos, sin, i reg.Register) {
		c, s, v, y := YMM(), YMM(), YMM(), YMM()
		VBROADCASTF128(Mem{Base: cos, Index: i, Scale: 4}, c)
		VBROADCASTF128(Mem{Base: sin, Index: i, Scale: 4}, s)
		VMOVUPS(twice, y)
		VPERMILPS(y, c, c)
		VPERMILPS(y, s, s)
		VMOVUPS(Mem{Base: x, Index: i, Scale: 8}, v)
		VPERMILPS(Imm(0b10_11_00_01), v, y)
		VMULPS(s, y, y)
		VFMADDSUB213PS(y, c, v) // even lanes subtract
		VMOVUPS(v, Mem{Base: x, Index: i, Scale: 8})
	})
}

// rotation emits the loops over heads and pairs, step pairs at a time.
func rotation(step int, body func(x, pairs, cos, sin, i reg.Register)) {
	x, heads, headDim := pointer("x"), pointer("heads"), pointer("headDim")
	cos, sin, pairs := pointer("cos"), pointer("sin"), pointer("pairs")
	SHLQ(Imm(2), headDim)
	i := GP64()
	Label("head")
	XORQ(i, i)
	Label("pair")
	body(x, pairs, cos, sin, i)
	ADDQ(Imm(uint64(step)), i)
	CMPQ(i, pairs)
	JL(LabelRef("pair"))
	ADDQ(headDim, x)
	DECQ(heads)
	JNZ(LabelRef("head"))
	end()
}
