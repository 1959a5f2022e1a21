package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/powerinfer-go/powerinfer/internal/compute/cpu/layout"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// unpacker turns packed superblocks into floats in the order of elements. Lanes 0 to 3 of a vector are of one block, 4
// to 7 of the next.
type unpacker struct {
	tile
	signed bool // quants have their sign
	scale  Mem  // [half][four vectors] of scales, in the order that they are multiplied in
	least  Mem  // the same of minima
}

// unpackRows emits the unpacking of n superblocks.
func unpackRows(typ quant.Type) {
	name := "unpack" + short(typ) + "AVX2"
	TEXT(name, NOSPLIT, "func(dst *float32, w *byte, n uintptr)")
	Doc(fmt.Sprintf("%s writes n superblocks of a packed %s row as floats. Scalar twin: unpackSuper in unpack.go.", name, typ))
	k := &unpacker{tile: tile{isa: "AVX2", typ: typ, r: 1, t: 1}, signed: typ.Traits().Codebook != nil, scale: AllocLocal(256), least: AllocLocal(256)}
	dst := Load(Param("dst"), GP64())
	k.wp, k.n = Load(Param("w"), GP64()), Load(Param("n"), GP64())
	var c *codes
	if k.coded() {
		c = k.codes(k.signed)
	}
	w, tmp, x, off := k.vec(), k.vec(), k.vec(), k.vec()
	if o := typ.Traits().Offset; o > 0 {
		k.load(constant(fmt.Sprintf("offset%d", o)), off)
	}
	Label("super")
	mark := k.next
	k.keepScales()
	k.next = mark
	for v := range 8 {
		if c != nil {
			k.group(c, 0, v, w, tmp)
		} else {
			k.nibbleGroup(v, w, tmp)
		}
		for q := range 4 {
			k.quarter(w, q, x, tmp)
			if typ.Traits().Offset > 0 {
				VPSUBD(off, x, x)
			}
			VCVTDQ2PS(x, x)
			at := 32*q + 128*(v/4)
			VMULPS(k.scale.Offset(at), x, x)
			if k.minima() {
				VSUBPS(k.least.Offset(at), x, x)
			}
			VMOVUPS(x.AsX(), Mem{Base: dst, Disp: 4 * (64*q + 4*v)})
			VEXTRACTF128(U8(1), x, Mem{Base: dst, Disp: 4 * (64*q + 32 + 4*v)})
		}
	}
	ADDQ(U32(uint32(layout.Of(typ).Bytes)), k.wp)
	ADDQ(U32(4*quant.QKK), dst)
	DECQ(k.n)
	JNZ(LabelRef("super"))
	VZEROUPPER()
	RET()
}

// nibbleGroup is group of types without two or three bits or a codebook.
func (k *unpacker) nibbleGroup(v int, w, tmp reg.VecPhysical) {
	VMOVDQU(k.row(0, k.super().Quants+32*(v%4)), w)
	if v >= 4 {
		VPSRLW(U8(4), w, w)
	}
	VPAND(constant("mask0f"), w, w)
	if above := k.above(); above != "" {
		k.highBits(0, v, tmp)
		VPAND(constant(above), tmp, tmp)
		VPOR(tmp, w, w)
	}
}

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
	if k.signed {
		VPMOVSXBD(from.AsX(), x)
	} else {
		VPMOVZXBD(from.AsX(), x)
	}
}

// keepScales writes a superblock's scales and minima to the stack.
func (k *unpacker) keepScales() {
	dw, m, tmp := k.vec(), k.vec(), k.vec()
	if k.smallFloats() {
		k.smallScales(0, dw, m, tmp)
	} else {
		k.scales(0, dw, m, tmp)
	}
	if k.typ.Traits().Scales == quant.BlockMin { // which is added
		VXORPS(constant("signs"), m, m)
	}
	words, half, index := k.vec(), k.vec(), k.vec()
	spread := func(v reg.VecPhysical, to Mem, h int) {
		for q := range 4 {
			VMOVDQU(constant(fmt.Sprintf("blocksOf%d", q)), index)
			VPERMPS(v, index, index)
			VMOVUPS(index, to.Offset(128*h+32*q))
		}
	}
	for h := range 2 {
		part := func(read func(int, reg.VecPhysical), unit reg.VecPhysical, to Mem) {
			read(0, words)
			if h == 0 {
				VPSLLD(U8(16), words, words)
			}
			VPSRAD(U8(16), words, words)
			VCVTDQ2PS(words, half)
			VMULPS(half, unit, half)
			spread(half, to, h)
		}
		if k.smallFloats() {
			spread([]reg.VecPhysical{dw, m}[h], k.scale, h)
			continue
		}
		if !k.twoSums() {
			spread(dw, k.scale, h)
			if k.minima() {
				spread(m, k.least, h)
			}
			continue
		}
		part(k.halfScales, dw, k.scale)
		if k.nibbleMinima() {
			part(k.halfMinima, m, k.least)
		}
	}
}

// defineUnpacking defines what unpacking needs.
func defineUnpacking() {
	for _, o := range []byte{1, 4, 16, 32} {
		define(fmt.Sprintf("offset%d", o), repeat(o, 0, 0, 0))
	}
	for q := range byte(4) {
		var b []byte
		for i := range byte(8) {
			b = append(b, 2*q+i/4, 0, 0, 0)
		}
		define(fmt.Sprintf("blocksOf%d", q), repeat(b...))
	}
}
