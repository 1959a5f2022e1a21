package main

import (
	"fmt"
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// exps are the constants of exp32 in activation.go: the polynomial's, from the highest power on.
var exps = []float32{1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1}

// weighTerms emits the kernel that turns scores into weights and writes them as that many terms.
func weighTerms(name string, terms int) {
	TEXT(name, NOSPLIT, "func(dst *byte, term uintptr, s *float32, n uintptr, m float32) (sum float32)")
	Pragma("noescape")
	Doc(fmt.Sprintf("%s writes e^(s-m) of n groups of 32 scores as %d terms of BF16, term bytes apart, and returns their sum. "+
		"Scalar twins: exp32 in activation.go, splitGeneric in terms.go.", name, terms))
	k := &tile{isa: "BF16", wide: true}
	dst, term := Load(Param("dst"), GP64()), Load(Param("term"), GP64())
	s, n := Load(Param("s"), GP64()), Load(Param("n"), GP64())
	number := GP32()
	constant := func(f float32) reg.VecPhysical {
		v := k.vec()
		MOVL(U32(math.Float32bits(f)), number)
		VMOVD(number, v.AsX())
		VBROADCASTSS(v.AsX(), v)
		return v
	}
	m := k.vec()
	addr, err := Param("m").Resolve()
	if err != nil {
		panic(err)
	}
	VBROADCASTSS(addr.Addr, m)
	log2E, ln2Hi, ln2Lo, least, one := constant(math.Log2E), constant(0.693359375), constant(-2.12194440e-4), constant(-87.33654), constant(1)
	var poly []reg.VecPhysical
	for _, f := range exps {
		poly = append(poly, constant(f))
	}
	x, sums := k.vecs(2), k.vecs(2)
	rounded, back, whole, square := k.vec(), k.vec(), k.vec(), k.vec()
	p := k.vec()
	for _, v := range sums {
		VPXORD(v, v, v)
	}
	to := GP64()
	Label("group")
	for i, v := range x {
		VMOVUPS(Mem{Base: s, Disp: 64 * i}, v)
		VSUBPS(m, v, v)
		VCMPPS(U8(0x1d), least, v, reg.K1) // not less, quietly
		VMULPS(log2E, v, whole)
		VRNDSCALEPS(U8(8), whole, whole) // to even, quietly
		VFNMADD231PS(ln2Hi, whole, v)
		VFNMADD231PS(ln2Lo, whole, v)
		VMOVAPS(poly[0], p)
		for _, c := range poly[1:] {
			VFMADD213PS(c, v, p)
		}
		VMULPS(v, v, square)
		VFMADD213PS(v, square, p)
		VADDPS(one, p, p)
		VCVTPS2DQ(whole, whole)
		VPSLLD(U8(23), whole, whole)
		VPADDD_Z(whole, p, reg.K1, v)
		VADDPS(v, sums[i], sums[i])
	}
	ADDQ(U32(128), s)
	MOVQ(dst, to)
	for t := range terms {
		toBF16(x[0], x[1], rounded)
		VMOVDQU32(rounded, Mem{Base: to})
		if t == terms-1 {
			break
		}
		ADDQ(term, to)
		VPMOVZXWD(rounded.AsY(), back)
		VPSLLD(U8(16), back, back)
		VSUBPS(back, x[0], x[0])
		VEXTRACTI64X4(U8(1), rounded, rounded.AsY())
		VPMOVZXWD(rounded.AsY(), back)
		VPSLLD(U8(16), back, back)
		VSUBPS(back, x[1], x[1])
	}
	ADDQ(U8(64), dst)
	DECQ(n)
	JNZ(LabelRef("group"))
	VADDPS(sums[1], sums[0], sums[0])
	for half := range 2 { // sixteen sums, then eight, four, two
		if half == 0 {
			VEXTRACTF64X4(U8(1), sums[0], sums[1].AsY())
			VADDPS(sums[1].AsY(), sums[0].AsY(), sums[0].AsY())
		} else {
			VEXTRACTF32X4(U8(1), sums[0].AsY(), sums[1].AsX())
			VADDPS(sums[1].AsX(), sums[0].AsX(), sums[0].AsX())
		}
	}
	for _, order := range []uint8{0b01_00_11_10, 0b10_11_00_01} {
		VPERMILPS(U8(order), sums[0].AsX(), sums[1].AsX())
		VADDPS(sums[1].AsX(), sums[0].AsX(), sums[0].AsX())
	}
	result, err := ReturnIndex(0).Resolve()
	if err != nil {
		panic(err)
	}
	VMOVSS(sums[0].AsX(), result.Addr)
	VZEROUPPER()
	RET()
}
