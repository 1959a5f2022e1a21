package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// turner emits one kernel that writes eight outputs of 32 neurons as pieces of eight rows: lanes are outputs, so that a
// dword of a row is a lane of what its four bytes or two halves, of as many neurons, are packed into.
type turner struct {
	lo, hi, stride, three, block reg.Register
}

func turn(typ string) {
	TEXT("turn"+typ, NOSPLIT, "func(lo, hi *byte, stride uintptr, block *float32, scale uintptr)")
	Doc(fmt.Sprintf("turn%s writes eight outputs of 32 neurons as pieces of eight rows. Scalar twin: turnGeneric in turn.go.", typ))
	k := &turner{lo: Load(Param("lo"), GP64()), hi: Load(Param("hi"), GP64()), stride: Load(Param("stride"), GP64()), three: GP64()}
	k.block = Load(Param("block"), GP64())
	LEAQ(Mem{Base: k.stride, Index: k.stride, Scale: 2}, k.three)
	if typ == "Q80" {
		k.bytes()
	} else {
		k.halves()
	}
	VZEROUPPER()
	RET()
}

// row is lane l's place in its row.
func (k *turner) row(lane, disp int) Mem {
	base := k.lo
	if lane >= 4 {
		base = k.hi
	}
	switch lane % 4 {
	case 1:
		return Mem{Base: base, Index: k.stride, Scale: 1, Disp: disp}
	case 2:
		return Mem{Base: base, Index: k.stride, Scale: 2, Disp: disp}
	case 3:
		return Mem{Base: base, Index: k.three, Scale: 1, Disp: disp}
	}
	return Mem{Base: base, Disp: disp}
}

// store writes the lanes of v to their rows.
func (k *turner) store(v, tmp reg.VecPhysical, disp int) {
	VEXTRACTI128(U8(1), v, tmp.AsX())
	for lane := range 8 {
		x := v.AsX()
		if lane >= 4 {
			x = tmp.AsX()
		}
		if lane%4 == 0 {
			VMOVD(x, k.row(lane, disp))
		} else {
			VPEXTRD(U8(uint8(lane%4)), x, k.row(lane, disp))
		}
	}
}

func (k *turner) neuron(i int) Mem { return Mem{Base: k.block, Disp: sumBytes * i} }

func (k *turner) bytes() {
	most, inverse, mask, low := reg.Y0, reg.Y1, reg.Y2, reg.Y3
	v, sum, tmp := reg.Y4, reg.Y5, reg.Y6
	VMOVUPS(constants["absolute"], mask)
	VMOVUPS(constants["lowByte"], low)
	VANDPS(k.neuron(0), mask, most)
	for i := 1; i < 32; i++ {
		VANDPS(k.neuron(i), mask, v)
		VMAXPS(v, most, most)
	}
	VCMPPS(U8(0x1d), constants["least"], most, v) // ≥
	VMOVUPS(constants["f127"], inverse)
	VDIVPS(most, inverse, inverse)
	VANDPS(v, inverse, inverse)
	VMULPS(constants["inverse127"], most, most)
	VCVTPS2PH(U8(0), most, v.AsX())
	scale := Load(Param("scale"), GP64())
	SUBQ(scale, k.lo)
	SUBQ(scale, k.hi)
	for lane := range 8 {
		VPEXTRW(U8(uint8(lane)), v.AsX(), k.row(lane, 0))
	}
	ADDQ(scale, k.lo)
	ADDQ(scale, k.hi)
	for quad := range 8 {
		for e := range 4 {
			to := v
			if e == 0 {
				to = sum
			}
			VMULPS(k.neuron(4*quad+e), inverse, to)
			VCVTPS2DQ(to, to)
			if e < 3 {
				VPAND(low, to, to)
			}
			if e > 0 {
				VPSLLD(U8(uint8(8*e)), to, to)
				VPOR(to, sum, sum)
			}
		}
		k.store(sum, tmp, 32*quad)
	}
}

func (k *turner) halves() {
	one, half, high := reg.Y0, reg.Y1, reg.Y2
	a, b, tmp := reg.Y3, reg.Y4, reg.Y5
	VMOVDQU(constants["one"], one)
	VMOVDQU(constants["half"], half)
	VMOVDQU(constants["high"], high)
	for pair := range 16 {
		for i, v := range []reg.VecPhysical{a, b} {
			VMOVDQU(k.neuron(2*pair+i), v)
			VPSRLD(U8(16), v, tmp)
			VPAND(one, tmp, tmp)
			VPADDD(half, tmp, tmp)
			VPADDD(tmp, v, v)
		}
		VPSRLD(U8(16), a, a)
		VPAND(high, b, b)
		VPOR(b, a, a)
		k.store(a, tmp, 4*pair)
	}
}
