package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/powerinfer-go/powerinfer/gen/filelayout"
	"github.com/powerinfer-go/powerinfer/internal/compute/cpu/layout"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// filePack emits the packing of n superblocks.
func filePack(typ quant.Type) {
	k := &fileRow{tile: tile{isa: "AVX2", typ: typ, r: 1, t: 1}}
	name := "pack" + short(typ) + "AVX2"
	TEXT(name, NOSPLIT, "func(dst, src *byte, n, ahead uintptr)")
	Doc(fmt.Sprintf("%s packs n superblocks of %s, and prefetches what is ahead bytes after each. Scalar twin: packSuper in pack.go.", name, typ))
	dst := Load(Param("dst"), GP64())
	k.wp, k.n = Load(Param("src"), GP64()), Load(Param("n"), GP64())
	ahead := Load(Param("ahead"), GP64())
	to := func(at int) Mem { return Mem{Base: dst, Disp: at} }
	if !k.blocks() && !typ.Parted() {
		k.mask = k.vec()
		k.load(constant("mask0f"), k.mask)
	}
	var three, one reg.VecPhysical // two bits of every byte, and one
	if typ == quant.Q5_K || typ == quant.Q3_K {
		one = k.vec()
		k.load(constant("mask10"), one)
		VPSRLW(U8(4), one, one)
	}
	if typ == quant.Q6_K || typ.Traits().Bits < 4 {
		three = k.vec()
		k.load(constant("mask30"), three)
		VPSRLW(U8(4), three, three)
	}
	g, h, tmp := k.vecs(4), k.vecs(4), k.vecs(2)
	Label("super")
	k.ask(Mem{Base: k.wp, Index: ahead, Scale: 1}, typ.RowBytes(quant.QKK))
	switch typ {
	case quant.Q5_0, quant.Q5_1, quant.IQ4_NL, quant.MXFP4, quant.IQ4_XS:
		k.packNibbles(to, g, tmp)
	case quant.Q2_K, quant.Q3_K, quant.TQ2_0:
		k.packPairs(to, three, one, g, tmp)
	case quant.Q4_0, quant.Q4_1, quant.Q8_0:
		k.blockHalves(0, tmp[0].AsX())
		VMOVDQU(tmp[0].AsX(), to(0))
		if k.minima() {
			k.blockHalves(2, tmp[0].AsX())
			VMOVDQU(tmp[0].AsX(), to(layout.Minima))
		}
		for half := range typ.Traits().Bits / 4 {
			k.groups(half, g, tmp)
			for v, w := range g {
				VMOVDQU(w, to(k.super().Quants+32*(v+4*half)))
			}
		}
	case quant.Q4_K:
		k.packFields(to)
		k.pairGroups(g, h, tmp)
	case quant.Q5_K:
		k.packFields(to)
		k.packFifth(to, filelayout.SixBits, one, g[0], tmp)
		k.pairGroups(g, h, tmp)
	case quant.Q6_K:
		VMOVDQU(k.row(0, filelayout.Q6K), tmp[0].AsX())
		VMOVDQU(tmp[0].AsX(), to(0))
		d := GP32()
		MOVWLZX(k.row(0, k.super().Unit), d)
		MOVW(d.As16(), to(k.super().Unit))
		k.packHigh(to(k.super().High), filelayout.Q6KHigh, three, g, tmp)
		k.pairGroups(g, h, tmp)
	}
	if !k.blocks() && !typ.Parted() {
		for v, w := range g {
			VMOVDQU(w, to(k.super().Quants+32*v))
		}
	}
	ADDQ(U32(uint32(typ.RowBytes(quant.QKK))), k.wp)
	ADDQ(U32(uint32(layout.Of(typ).Bytes)), dst)
	DECQ(k.n)
	JNZ(LabelRef("super"))
	VZEROUPPER()
	RET()
}

// pairGroups writes the low nibbles of group v to the low nibbles of g[v], and those of group v+4 to the high ones.
func (k *fileRow) pairGroups(g, h, tmp []reg.VecPhysical) {
	k.lowNibbles = true
	k.groups(0, g, tmp)
	k.groups(1, h, tmp)
	k.lowNibbles = false
	for v := range g {
		VPSLLW(U8(4), h[v], h[v])
		VPOR(h[v], g[v], g[v])
	}
}

// packFields packs a Q4_K header: d and dmin, then eight fields of six bits of scales, and of minima.
func (k *fileRow) packFields(to func(int) Mem) {
	super := GP32()
	MOVL(k.row(0, 0), super)
	MOVL(super, to(0))
	scale, min, last := GP64(), GP64(), GP64()
	MOVL(k.row(0, 4), scale.As32())
	MOVL(k.row(0, 8), min.As32())
	MOVL(k.row(0, 12), last.As32())
	nibbles, odd, upper := GP64(), GP64(), GP64()
	MOVQ(U64(0x0f0f0f0f00000000), nibbles)
	MOVQ(U64(0xff00ff00ff00ff00), odd)
	MOVQ(U64(0xffff0000ffff0000), upper)
	top := GP64()
	MOVQ(U64(0x3030303000000000), top)
	// fields leaves the eight fields of first and its part of last in 48 bits of first.
	fields := func(first reg.GPVirtual, shift int) {
		above, low := GP64(), GP64()
		MOVQ(first, above)
		SHLQ(U8(30), above) // the upper two bits of each byte, at the place of bits 4 and 5 in the upper half
		ANDQ(top, above)
		MOVQ(last, low)
		SHLQ(U8(byte(32-shift)), low)
		ANDQ(nibbles, low)
		ANDL(U32(0x3f3f3f3f), first.As32())
		ORQ(low, first)
		ORQ(above, first)
		for shift, moved := range []reg.Register{odd, upper} { // bytes to pairs, pairs to 24 bits
			MOVQ(first, low)
			ANDQ(moved, low)
			XORQ(low, first)
			SHRQ(U8(byte(2+2*shift)), low)
			ORQ(low, first)
		}
		MOVQ(first, low)
		SHRQ(U8(32), low)
		SHLQ(U8(24), low)
		ANDL(U32(0x00ffffff), first.As32())
		ORQ(low, first)
	}
	fields(scale, 0)
	fields(min, 4)
	low := GP64()
	MOVQ(min, low)
	SHLQ(U8(48), low)
	ORQ(scale, low)
	MOVQ(low, to(4))
	SHRQ(U8(16), min)
	MOVL(min.As32(), to(12))
}

// packFifth packs the bits above the others of Q5_K and Q3_K, from 32 bytes at byte from. Bits j of the file belong to
// block j. In the packed form, dword j is block j, and bits v of its bytes are group v.
func (k *fileRow) packFifth(to func(int) Mem, from int, one, sum reg.VecPhysical, tmp []reg.VecPhysical) {
	for v := range 8 {
		w := tmp[v%2]
		if v == 0 {
			w = sum
		}
		VPBROADCASTD(k.row(0, from+4*v), w)
		VPSRLVD(constant("fileLanes"), w, w)
		VPAND(one, w, w)
		if v > 0 {
			VPSLLD(U8(byte(v)), w, w)
			VPOR(w, sum, sum)
		}
	}
	VMOVDQU(sum, to(k.super().High))
}

// packHigh packs bit pairs from byte from on, such as Q6_K's high bits. Dword j of vector h is block j, and bit pair f
// of its bytes is group 2f+h.
func (k *fileRow) packHigh(at Mem, from int, three reg.VecPhysical, g, tmp []reg.VecPhysical) {
	for h := range 2 {
		sum := g[h]
		for f := range 4 {
			v := 2*f + h
			if f%2 == 0 {
				k.halves(from+16*(v/4), from+32+16*(v/4), tmp[0])
			}
			w := tmp[1]
			VPSHUFD(U8(byte(v%4*0x55)), tmp[0], w)
			VPSRLVD(constant("fileQuarter"), w, w)
			VPAND(three, w, w)
			if f == 0 {
				VMOVDQA(w, sum)
				continue
			}
			VPSLLD(U8(byte(2*f)), w, w)
			VPOR(w, sum, sum)
		}
		VMOVDQU(sum, at.Offset(32*h))
	}
}
