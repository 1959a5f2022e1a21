package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/powerinfer-go/powerinfer/internal/compute/cpu/layout"
)

// quantize emits the quantiser of n superblocks. Scalar twin: quantizeSuper in acts.go.
func quantize() {
	TEXT("quantizeAVX2", NOSPLIT, "func(dst *byte, x *float32, n uintptr)")
	Pragma("noescape") // or a row's padded rest would be allocated
	Doc("quantizeAVX2 quantises n superblocks of activations. Scalar twin: quantizeSuper in acts.go.")
	dst, x, n := Load(Param("dst"), GP64()), Load(Param("x"), GP64()), Load(Param("n"), GP64())
	limit, abs := XMM(), YMM()
	VMOVSS(constant("f127"), limit)
	VPCMPEQD(abs, abs, abs)
	VPSRLD(U8(1), abs, abs)
	blocks, lane := GP64(), GP64()
	Label("super")
	MOVQ(U32(8), blocks)
	MOVQ(dst, lane)
	Label("block")
	v := []reg.VecVirtual{YMM(), YMM(), YMM(), YMM()}
	top, t := YMM(), YMM()
	for i := range v {
		VMOVUPS(Mem{Base: x, Disp: 32 * i}, v[i])
	}
	VPAND(abs, v[0], top) // magnitudes' bits are ordered as the numbers are, and NaN's are above them
	for _, y := range v[1:] {
		VPAND(abs, y, t)
		VPMAXSD(t, top, top)
	}
	VEXTRACTI128(U8(1), top, t.AsX())
	VPMAXSD(t.AsX(), top.AsX(), top.AsX())
	VMOVHLPS(top.AsX(), top.AsX(), t.AsX())
	VPMAXSD(t.AsX(), top.AsX(), top.AsX())
	VMOVSHDUP(top.AsX(), t.AsX())
	VPMAXSD(t.AsX(), top.AsX(), top.AsX())
	d, inv, zero := XMM(), XMM(), XMM()
	VDIVSS(limit, top.AsX(), d)
	VDIVSS(top.AsX(), limit, inv)
	VXORPS(zero, zero, zero)
	VCMPSS(U8(4), zero, top.AsX(), zero) // all ones where top is not zero
	VANDPS(zero, inv, inv)
	invs := YMM()
	VBROADCASTSS(inv, invs)
	for i := range v {
		VMULPS(invs, v[i], v[i])
		VCVTPS2DQ(v[i], v[i])
	}
	first, second := YMM(), YMM()
	VPADDD(v[0], v[1], first)
	VPADDD(v[2], v[3], second)
	VPHADDD(second, first, first)
	VPHADDD(first, first, first)
	VEXTRACTI128(U8(1), first, second.AsX())
	VPADDD(second.AsX(), first.AsX(), first.AsX())
	lo, hi, all := GP32(), GP32(), GP32()
	VMOVD(first.AsX(), lo)
	VPEXTRD(U8(1), first.AsX(), hi)
	LEAL(Mem{Base: lo.As64(), Index: hi.As64(), Scale: 1}, all)
	VMOVSS(d, Mem{Base: lane, Disp: layout.ActScale})
	sum := XMM()
	VXORPS(sum, sum, sum)
	VCVTSI2SSL(all, sum, sum)
	VMULSS(d, sum, sum)
	VMOVSS(sum, Mem{Base: lane, Disp: layout.ActDSum})
	pair, tmp := GP32(), GP32()
	MOVL(hi, pair)
	SHLL(U8(16), pair)
	MOVWLZX(lo.As16(), tmp)
	ORL(tmp, pair)
	MOVL(pair, Mem{Base: lane, Disp: layout.ActPairs})
	for _, c := range []struct {
		from  reg.GPVirtual
		shift uint8
		off   int
	}{{lo, 5, layout.ActLo32}, {hi, 5, layout.ActHi32}, {all, 3, layout.ActNeg8}} {
		NEGL(c.from)
		SHLL(U8(c.shift), c.from)
		MOVL(c.from, Mem{Base: lane, Disp: c.off})
	}
	// The packs work within 128-bit halves: dword k of the low half is group 2k, of the high half 2k+1.
	VPACKSSDW(v[1], v[0], v[0])
	VPACKSSDW(v[3], v[2], v[2])
	VPACKSSWB(v[2], v[0], v[0])
	high := XMM()
	VEXTRACTI128(U8(1), v[0], high)
	for k := 0; k < 4; k++ {
		VPEXTRD(U8(byte(k)), v[0].AsX(), Mem{Base: lane, Disp: 64 * k})
		VPEXTRD(U8(byte(k)), high, Mem{Base: lane, Disp: 64*k + 32})
	}
	ADDQ(U32(128), x)
	ADDQ(U8(4), lane)
	DECQ(blocks)
	JNZ(LabelRef("block"))
	ADDQ(U32(layout.ActBytes), dst)
	DECQ(n)
	JNZ(LabelRef("super"))
	VZEROUPPER()
	RET()
}
