package main

import (
	"fmt"
	"math/bits"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/powerinfer-go/powerinfer/internal/compute/cpu/layout"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// panel is a tile over rows that were expanded to bytes and float scales, which pays from about sixteen tokens on.
type panel struct{ tile }

func (k *panel) emit() {
	k.isa, k.paired, k.memory = "AVX2", true, k.nibblePairs()
	k.prologue("panel")
	held := k.r * k.t
	if k.smallFloats() {
		held = k.t
	}
	isum := k.vecs(held)
	k.supers(2*layout.Panel(k.typ, true), func() {
		mark := k.next
		if k.smallFloats() {
			k.smallPanel(isum)
			k.next = mark
			return
		}
		switch {
		case k.coded() && !k.nibblePairs():
			k.sumsCoded(isum)
		case k.halfBlocks():
			k.halvesAVX2(isum)
		case k.nibblePairs():
			k.sumsNibblePairs(isum)
		case k.above() != "":
			k.sumsFiveBits(isum)
		default:
			k.sumsAVX2(isum)
		}
		k.next = mark
		k.accumulatePanel(isum)
		k.next = mark
	})
	k.finish()
}

// sumsAVX2 adds eight products of 15·127·2 in 16 bits, which holds 8.6.
func (k *panel) sumsAVX2(isum []reg.VecPhysical) {
	w, x, p := k.vecs(k.r), k.vec(), k.vec()
	for v := range 8 {
		for r := range w {
			VMOVDQU(k.row(r, layout.PanelQuants+32*v), w[r])
		}
		for t := range k.t {
			VMOVDQU(k.act(t, 32*v), x)
			for r := range w {
				s := isum[r*k.t+t]
				if v == 0 {
					VPMADDUBSW(x, w[r], s)
					continue
				}
				VPMADDUBSW(x, w[r], p)
				VPADDW(p, s, s)
			}
		}
	}
	for i, s := range isum {
		VPMADDWD(constant("ones16"), s, s)
		k.less(i%k.t, s)
	}
}

// sumsFiveBits adds four products of 31·127·2 in 16 bits, which holds 4.1.
func (k *panel) sumsFiveBits(isum []reg.VecPhysical) {
	w0, w1, p, q := k.vec(), k.vec(), k.vec(), k.vec()
	for v := 0; v < 8; v += 2 {
		for r := range k.r {
			VMOVDQU(k.row(r, layout.PanelQuants+32*v), w0)
			VMOVDQU(k.row(r, layout.PanelQuants+32*(v+1)), w1)
			for t := range k.t {
				s := isum[r*k.t+t]
				VPMADDUBSW(k.act(t, 32*v), w0, p)
				VPMADDUBSW(k.act(t, 32*(v+1)), w1, q)
				VPADDW(q, p, p)
				if v == 0 && k.offset() == 0 {
					VPMADDWD(constant("ones16"), p, s)
					continue
				}
				VPMADDWD(constant("ones16"), p, p)
				if v == 0 {
					k.start(t, s)
				}
				VPADDD(p, s, s)
			}
		}
	}
}

// sumsCoded adds as many products in 16 bits as these hold.
func (k *panel) sumsCoded(isum []reg.VecPhysical) {
	room := k.room(2)
	w, p := k.vecs(room), k.vec()
	for r := range k.r {
		if k.twoSums() && k.offset() > 0 {
			VMOVDQU(k.row(r, layout.PanelMin), w[0])
			VPBLENDW(U8(0xaa), k.row(r, layout.PanelHigh), w[0], w[0])
		}
		for t := range k.t {
			s := isum[r*k.t+t]
			if !k.twoSums() || k.offset() == 0 {
				k.start(t, s)
				continue
			}
			VPMADDWD(k.act(t, layout.ActPairs), w[0], p)
			VPSLLD(U8(byte(bits.Len(uint(k.offset()))-1)), p, p)
			k.zero(s)
			VPSUBD(p, s, s)
		}
		for v := 0; v < 8; v += room {
			for i := range w {
				VMOVDQU(k.row(r, layout.PanelQuants+32*(v+i)), w[i])
			}
			scale := constant("ones16")
			if k.twoSums() {
				scale = k.row(r, layout.PanelMin)
				if v >= 4 {
					scale = k.row(r, layout.PanelHigh)
				}
			}
			for t := range k.t {
				k.addProducts(isum[r*k.t+t], w, t, v, scale, p)
			}
		}
	}
}

// nibblePairs reports whether bytes are expanded to two nibbles each. AVX2 has few units for products; products of
// nibbles can be added in 16 bits, but those of bytes must be widened one by one.
func (k *panel) nibblePairs() bool { return k.offset() == 128 }

// sumsNibblePairs adds (16·high + low − 128)·x.
func (k *panel) sumsNibblePairs(isum []reg.VecPhysical) {
	high, lo, hi, x, p := k.vecs(len(isum)), k.vec(), k.vec(), k.vec(), k.vec()
	for v := range 8 {
		for r := range k.r {
			VMOVDQU(k.row(r, layout.PanelQuants+64*v), lo)
			VMOVDQU(k.row(r, layout.PanelQuants+64*v+32), hi)
			for t := range k.t {
				i := r*k.t + t
				VMOVDQU(k.act(t, 32*v), x)
				if v == 0 {
					VPMADDUBSW(x, lo, isum[i])
					VPMADDUBSW(x, hi, high[i])
					continue
				}
				VPMADDUBSW(x, lo, p)
				VPADDW(p, isum[i], isum[i])
				VPMADDUBSW(x, hi, p)
				VPADDW(p, high[i], high[i])
			}
		}
	}
	for i, s := range isum {
		VPMADDWD(constant("ones16"), s, s)
		VPMADDWD(constant("ones16"), high[i], high[i])
		VPADDD(k.act(i%k.t, layout.ActNeg8), high[i], high[i])
		VPSLLD(U8(4), high[i], high[i])
		VPADDD(high[i], s, s)
	}
}

// halvesAVX2 leaves scale·Σ of both halves in isum. Two products of 63·127·2 fit 16 bits; VPMADDWD by the scale widens
// and scales at once.
func (k *panel) halvesAVX2(isum []reg.VecPhysical) {
	w0, w1, p, q := k.vec(), k.vec(), k.vec(), k.vec()
	for r := range k.r {
		VMOVDQU(k.row(r, layout.PanelMin), w0)
		VPBLENDW(U8(0xaa), k.row(r, layout.PanelHigh), w0, w0)
		for t := range k.t {
			VPMADDWD(k.act(t, layout.ActPairs), w0, isum[r*k.t+t])
			VPSLLD(U8(5), isum[r*k.t+t], isum[r*k.t+t])
		}
		// The sums are subtracted from 32·Σ and the sign turned at the end.
		for v := 0; v < 8; v += 2 {
			VMOVDQU(k.row(r, layout.PanelQuants+32*v), w0)
			VMOVDQU(k.row(r, layout.PanelQuants+32*(v+1)), w1)
			scale := layout.PanelMin
			if v >= 4 {
				scale = layout.PanelHigh
			}
			for t := range k.t {
				VPMADDUBSW(k.act(t, 32*v), w0, p)
				VPMADDUBSW(k.act(t, 32*(v+1)), w1, q)
				VPADDW(q, p, p)
				VPMADDWD(k.row(r, scale), p, p)
				VPSUBD(p, isum[r*k.t+t], isum[r*k.t+t])
			}
		}
	}
	VPXOR(p, p, p)
	for _, s := range isum {
		VPSUBD(s, p, s)
	}
}

func (k *panel) accumulatePanel(isum []reg.VecPhysical) {
	dw, s, m := k.vec(), k.vec(), reg.VecPhysical(nil)
	if k.minima() {
		m = k.vec()
	}
	if k.nibbleMinima() {
		k.least = k.vec()
	}
	for r := range k.r {
		k.load(k.row(r, layout.PanelScale), dw)
		switch {
		case k.nibbleMinima():
			k.load(k.row(r, layout.PanelLeast), k.least)
			k.load(k.row(r, layout.PanelLeast+32), m)
		case m != nil:
			k.load(k.row(r, layout.PanelMin), m)
		}
		for t := range k.t {
			k.accumulate(r, t, isum[r*k.t+t], dw, m, s)
		}
	}
}

// panelCodes loads the operands of expandCoded, of types that need some.
func (k *tile) panelCodes() *codes {
	if !k.coded() {
		return nil
	}
	return k.codes(codebookName(k.typ))
}

// expandCoded writes groups [from, to), within one half of the eight, for types with codes that are looked up or have
// two or three bits.
func (k *tile) expandCoded(isa string, r, from, to int, c *codes, at func(int) Mem) {
	w, tmp := k.vec(), k.vec()
	for v := from; v < to; v++ {
		k.group(c, r, v, w, tmp)
		k.lift(w)
		if isa == "VNNI" || k.offset() != 128 {
			VMOVDQU(w, at(layout.PanelQuants+32*v))
			continue
		}
		VPSRLW(U8(4), w, tmp)
		VPAND(constant("mask0f"), w, w)
		VPAND(constant("mask0f"), tmp, tmp)
		VMOVDQU(w, at(layout.PanelQuants+64*v))
		VMOVDQU(tmp, at(layout.PanelQuants+64*v+32))
	}
}

// scaled reports whether panels of 512-bit vectors hold bytes that were multiplied by their half-blocks' scales. That
// is so if products are small enough: Q2_K's are 0 to 45.
func (k *tile) scaled() bool { return k.nibbleMinima() }

// apart reports whether such panels keep the scales of halves apart.
func (k *tile) apart() bool { return k.twoSums() && !k.scaled() }

// expand emits what turns n superblocks of a row into a panel's row.
func expand(isa string, typ quant.Type) {
	name := "expand" + short(typ) + isa
	TEXT(name, NOSPLIT, "func(dst *byte, w *byte, n uintptr)")
	Doc(fmt.Sprintf("%s writes n superblocks of a packed %s row as a panel's. Scalar twin: superblock in unpack.go.", name, typ))
	dst, w, n := Load(Param("dst"), GP64()), Load(Param("w"), GP64()), Load(Param("n"), GP64())
	expandRow(isa, typ, dst, w, n)
	VZEROUPPER()
	RET()
}

// expandStrip emits what turns n superblocks of some rows, an even number, into a strip. A call for each row took a
// third of the time where rows are short.
func expandStrip(typ quant.Type) {
	name := "expandStrip" + short(typ)
	TEXT(name, NOSPLIT, "func(dst *byte, pairBytes uintptr, w *byte, rowBytes, n, rows uintptr)")
	Doc(fmt.Sprintf("%s writes n superblocks of packed %s rows as a strip's. Scalar twin: superblock in unpack.go.", name, typ))
	rowBytes, rows := Load(Param("rowBytes"), GP64()), Load(Param("rows"), GP64())
	dst, w, n, other, turn := GP64(), GP64(), GP64(), Load(Param("pairBytes"), GP64()), GP64()
	SUBQ(Imm(32), other) // from the second row of a pair to the next pair
	MOVQ(U32(32), turn)  // from the first to the second
	Label("row")
	MOVQ(argument("dst"), dst)
	MOVQ(argument("w"), w)
	MOVQ(argument("n"), n)
	expandRow("VNNI", typ, dst, w, n)
	ADDQ(turn, argument("dst"))
	ADDQ(rowBytes, argument("w"))
	XCHGQ(other, turn)
	DECQ(rows)
	JNZ(LabelRef("row"))
	VZEROUPPER()
	RET()
}

// expandRow turns n superblocks from w on into a panel's, at dst.
func expandRow(isa string, typ quant.Type, dst, w, n reg.Register) {
	k := &tile{isa: "AVX2", typ: typ, r: 1, t: 1, wp: w, n: n}
	c := k.panelCodes()
	Label("super")
	for _, step := range k.expansion(isa, 0, c, func(disp int) Mem { return Mem{Base: dst, Disp: 2 * disp} }) { // the rows of a pair alternate
		step()
	}
	ADDQ(U32(uint32(layout.Of(typ).Bytes)), k.wp)
	ADDQ(U32(uint32(2*layout.Panel(typ, isa == "AVX2"))), dst)
	DECQ(k.n)
	JNZ(LabelRef("super"))
}

// expansion returns the steps that write a superblock of row r as a panel's: its scales, then some of its quants each.
// Between them all registers but c's are free.
func (k *tile) expansion(isa string, r int, c *codes, at func(disp int) Mem) []func() {
	step := func(f func()) func() {
		return func() {
			mark := k.next
			f()
			k.next = mark
		}
	}
	steps := []func(){step(func() { k.expandScales(isa, r, at) })}
	for v := 0; c != nil && v < 8; v++ {
		steps = append(steps, step(func() { k.expandCoded(isa, r, v, v+1, c, at) }))
	}
	for v := 0; c == nil && v < 4; v++ {
		if k.bytes() {
			steps = append(steps, step(func() { k.expandBytes(isa, r, 2*v, at) }), step(func() { k.expandBytes(isa, r, 2*v+1, at) }))
			continue
		}
		steps = append(steps, step(func() { k.expandNibbles(r, v, at) }))
	}
	return steps
}

// expandScales writes the scales, and the minima of types that have some.
func (k *tile) expandScales(isa string, r int, at func(disp int) Mem) {
	dw, t, m := k.vec(), k.vec(), reg.VecPhysical(nil)
	if k.minima() || k.twoSums() {
		m = k.vec()
	}
	if k.smallFloats() {
		k.smallScales(r, dw, m, t)
		VMOVUPS(m, at(layout.PanelMin))
	} else {
		k.scales(r, dw, m, t)
	}
	VMOVUPS(dw, at(layout.PanelScale))
	if k.nibbleMinima() {
		VMOVUPS(m, at(layout.PanelLeast+32))
		k.halfMinima(r, t)
		VMOVUPS(t, at(layout.PanelLeast))
	}
	apart := !k.smallFloats() && (k.twoSums() && isa == "AVX2" || k.apart())
	if apart {
		k.halfScales(r, m)
	}
	if k.twoSums() && isa == "AVX2" && !k.smallFloats() {
		VPSHUFB(constant("highWords"), m, t)
		VMOVDQU(t, at(layout.PanelHigh))
		VPSHUFB(constant("lowWords"), m, m)
	}
	if k.minima() && !k.nibbleMinima() || apart {
		if layout.FormOf(k.typ) == layout.BlockMinima { // which adds them
			VXORPS(constant("signs"), m, m)
		}
		VMOVUPS(m, at(layout.PanelMin))
	}
}

// expandBytes writes group v of quants of eight bits.
func (k *tile) expandBytes(isa string, r, v int, at func(disp int) Mem) {
	lo, hi := k.vec(), k.vec()
	VMOVDQU(k.row(r, k.super().Quants+32*v), lo)
	VPXOR(constant("x80"), lo, lo)
	if isa == "VNNI" {
		VMOVDQU(lo, at(layout.PanelQuants+32*v))
		return
	}
	VPSRLW(U8(4), lo, hi)
	VPAND(constant("mask0f"), lo, lo)
	VPAND(constant("mask0f"), hi, hi)
	VMOVDQU(lo, at(layout.PanelQuants+64*v))
	VMOVDQU(hi, at(layout.PanelQuants+64*v+32))
}

// expandNibbles writes groups v and v+4 of quants of four bits and more.
func (k *tile) expandNibbles(r, v int, at func(disp int) Mem) {
	lo, hi, h := k.vec(), k.vec(), reg.VecPhysical(nil)
	above := k.above()
	if above != "" {
		h = k.vec()
	}
	VMOVDQU(k.row(r, k.super().Quants+32*v), lo)
	VPSRLW(U8(4), lo, hi)
	for half, w := range []reg.VecPhysical{lo, hi} {
		VPAND(constant("mask0f"), w, w)
		if above != "" {
			k.highBits(r, v+4*half, h)
			VPAND(constant(above), h, h)
			VPOR(h, w, w)
		}
		k.lift(w)
		VMOVDQU(w, at(layout.PanelQuants+32*(v+4*half)))
	}
}
