package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/powerinfer-go/powerinfer/internal/compute/cpu/layout"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// unpacker turns a panel's superblocks into floats in the order of elements. Lanes 0 to 3 of a vector are of one block, 4
// to 7 of the next.
type unpacker struct {
	tile
	panel reg.Register
	scale Mem // [half][four vectors] of scales, in the order that they are multiplied in
	least Mem // the same of minima
}

// unpackPanels emits the unpacking of each form of panels: any type of the form would do.
func unpackPanels() {
	for _, p := range products[1:] {
		unpackPanel("floats"+p.name+"AVX2", p.like)
	}
}

func unpackPanel(name string, typ quant.Type) {
	TEXT(name, NOSPLIT, "func(dst *float32, panel *byte, n, offset uintptr)")
	Doc(fmt.Sprintf("%s writes n superblocks of a panel's row, whose quants lie offset above their values, as floats. Scalar twin: unpackSuper in unpack.go.", name))
	k := &unpacker{tile: tile{isa: "AVX2", typ: typ, r: 1, t: 1}, scale: AllocLocal(512)}
	k.least = k.scale.Offset(256)
	dst, n := Load(Param("dst"), GP64()), Load(Param("n"), GP64())
	k.panel = Load(Param("panel"), GP64())
	w, tmp, x, off := k.vec(), k.vec(), k.vec(), k.vec()
	offset, err := Param("offset").Resolve()
	if err != nil {
		panic(err)
	}
	VPBROADCASTD(offset.Addr, off)
	scale, quants, to, left, step := GP64(), GP64(), GP64(), GP64(), 2*32
	nibbles := (&panel{k.tile}).nibblePairs()
	if nibbles {
		step *= 2
	}
	Label("super")
	mark := k.next
	k.keepScales()
	k.next = mark
	LEAQ(k.scale, scale)
	LEAQ(k.at(layout.PanelQuants), quants)
	MOVQ(dst, to)
	MOVQ(U32(8), left)
	Label("group")
	VMOVDQU(Mem{Base: quants}, w)
	if nibbles {
		VMOVDQU(Mem{Base: quants, Disp: 64}, x)
		VPSLLW(U8(4), x, x)
		VPOR(x, w, w)
	}
	for q := range 4 {
		k.quarter(w, q, x, tmp)
		VPSUBD(off, x, x)
		VCVTDQ2PS(x, x)
		VMULPS(Mem{Base: scale, Disp: 32 * q}, x, x)
		if k.minima() {
			VSUBPS(Mem{Base: scale, Disp: 256 + 32*q}, x, x)
		}
		VMOVUPS(x.AsX(), Mem{Base: to, Disp: 256 * q})
		VEXTRACTF128(U8(1), x, Mem{Base: to, Disp: 256*q + 128})
	}
	ADDQ(U32(uint32(step)), quants)
	ADDQ(U8(16), to)
	DECQ(left)
	JEQ(LabelRef("done"))
	CMPQ(left, Imm(4))
	JNE(LabelRef("group"))
	ADDQ(U32(128), scale) // scales of second halves
	JMP(LabelRef("group"))
	Label("done")
	ADDQ(U32(uint32(2*layout.Panel(typ, true))), k.panel)
	ADDQ(U32(4*quant.QKK), dst)
	DECQ(n)
	JNZ(LabelRef("super"))
	VZEROUPPER()
	RET()
}

// at addresses byte disp of the row's superblock: it is the first of a pair.
func (k *unpacker) at(disp int) Mem { return Mem{Base: k.panel, Disp: 2 * disp} }

// quarter leaves bytes 8q… of w as dwords in x.
func (k *unpacker) quarter(w reg.VecPhysical, q int, x, tmp reg.VecPhysical) {
	from := w
	if q >= 2 {
		from = tmp
		VEXTRACTI128(U8(1), w, tmp.AsX())
	}
	if q%2 == 1 {
		VPSRLDQ(U8(8), from.AsX(), tmp.AsX())
		from = tmp
	}
	VPMOVZXBD(from.AsX(), x)
}

// keepScales writes a superblock's scales and minima to the stack.
func (k *unpacker) keepScales() {
	unit, half, index := k.vec(), k.vec(), k.vec()
	spread := func(v reg.VecPhysical, to Mem, h int) {
		for q := range 4 {
			VMOVDQU(constant(fmt.Sprintf("blocksOf%d", q)), index)
			VPERMPS(v, index, index)
			VMOVUPS(index, to.Offset(128*h+32*q))
		}
	}
	// words multiplies the unit by the words of a half, which are the upper ones once they are shifted.
	words := func(from, h, shift int, to Mem) {
		VMOVDQU(k.at(from), half)
		if shift > 0 {
			VPSLLD(U8(byte(shift)), half, half)
		}
		VPSRAD(U8(16), half, half)
		VCVTDQ2PS(half, half)
		VMULPS(half, unit, half)
		spread(half, to, h)
	}
	VMOVUPS(k.at(layout.PanelScale), unit)
	switch {
	case k.smallFloats():
		spread(unit, k.scale, 0)
		VMOVUPS(k.at(layout.PanelMin), half)
		spread(half, k.scale, 1)
	case k.twoSums():
		words(layout.PanelMin, 0, 0, k.scale)
		words(layout.PanelHigh, 1, 0, k.scale)
		if k.nibbleMinima() {
			VMOVUPS(k.at(layout.PanelLeast+32), unit)
			words(layout.PanelLeast, 0, 16, k.least)
			words(layout.PanelLeast, 1, 0, k.least)
		}
	default:
		for h := range 2 {
			spread(unit, k.scale, h)
		}
		if k.minima() {
			VMOVUPS(k.at(layout.PanelMin), unit)
			for h := range 2 {
				spread(unit, k.least, h)
			}
		}
	}
}

// defineUnpacking defines what unpacking needs.
func defineUnpacking() {
	for q := range byte(4) {
		var b []byte
		for i := range byte(8) {
			b = append(b, 2*q+i/4, 0, 0, 0)
		}
		define(fmt.Sprintf("blocksOf%d", q), repeat(b...))
	}
}
