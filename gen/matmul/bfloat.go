package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/ir"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// Weights of BF16 against activations rounded to it, by AVX-512's dot products of BF16 pairs: twice the
// products of float32 FMA. n counts groups of 32 elements. The scalar twin is dotBF16Generic in bfloat.go.

// bfloats emits the tiles, and what goes with them.
func bfloats() {
	for _, rt := range [][2]int{{1, 1}, {4, 1}, {4, 2}, {4, 3}, {4, 4}, {3, 8}} {
		(&tile{isa: "BF16", typ: quant.BF16, r: rt[0], t: rt[1], wide: true}).bfloat()
	}
	scatterBFloats(quant.BF16)
	streamBFloats(quant.BF16, near)
	streamBFloats(quant.BF16, far)
	expandBFloats(quant.BF16)
	roundBFloats()
}

// evex emits a three-register instruction of AVX512_BF16, which Go's assembler does not know: map 0F38, W0, 512 bits.
func evex(prefix, opcode byte, src2, src1, dst reg.VecPhysical) {
	d, a, b := dst.PhysicalIndex(), src1.PhysicalIndex(), src2.PhysicalIndex()
	not := func(v reg.Index, bit int) byte { return byte(^v >> bit & 1) }
	p0 := not(d, 3)<<7 | not(b, 4)<<6 | not(b, 3)<<5 | not(d, 4)<<4 | 2
	p1 := byte(^a&15)<<3 | 1<<2 | prefix
	p2 := byte(2<<5) | not(a, 4)<<3
	modrm := 0xc0 | byte(d&7)<<3 | byte(b&7)
	Instruction(&ir.Instruction{Opcode: "LONG", Operands: []Op{U32(uint32(0x62) | uint32(p0)<<8 | uint32(p1)<<16 | uint32(p2)<<24)}})
	Instruction(&ir.Instruction{Opcode: "WORD", Operands: []Op{U16(uint16(opcode) | uint16(modrm)<<8)}})
}

// dotBF16 adds to each float32 of acc the products of two pairs of BF16.
func dotBF16(x, w, acc reg.VecPhysical) {
	Comment(fmt.Sprintf("VDPBF16PS %s, %s, %s", x.Asm(), w.Asm(), acc.Asm()))
	evex(2, 0x52, x, w, acc)
}

// toBF16 rounds lo and hi to the halves of dst.
func toBF16(lo, hi, dst reg.VecPhysical) {
	Comment(fmt.Sprintf("VCVTNE2PS2BF16 %s, %s, %s", lo.Asm(), hi.Asm(), dst.Asm()))
	evex(3, 0x72, lo, hi, dst)
}

// pairs loads 32 weights as BF16; t0 and t1 are free.
func (k *tile) pairs(m Mem, w, t0, t1 reg.VecPhysical) {
	if k.typ == quant.BF16 {
		VMOVDQU32(m, w)
		return
	}
	VCVTPH2PS(m, t0)
	m.Disp += 32
	VCVTPH2PS(m, t1)
	toBF16(t0, t1, w)
}

// bfloat emits a tile; the accumulators come first, so that everything else is free in the end.
func (k *tile) bfloat() {
	k.next = 32 - k.r*k.t
	k.prologue("tile")
	k.next = 0
	w, x, t0, t1 := k.vecs(k.r), k.vec(), k.vec(), k.vec()
	ahead := reg.Register(nil)
	if k.t <= 4 { // more tokens use a panel, which is in a cache
		ahead = k.nextRows()
	}
	Label("loop")
	if ahead != nil {
		k.fetchRows(ahead, 64)
	}
	for r := range w {
		k.pairs(k.row(r, 0), w[r], t0, t1)
	}
	for t := range k.t {
		VMOVDQU32(k.act(t, 0), x)
		for r := range w {
			dotBF16(x, w[r], k.facc[r*k.t+t].(reg.VecPhysical))
		}
	}
	ADDQ(U8(64), k.wp)
	k.advance(64)
	DECQ(k.n)
	JNZ(LabelRef("loop"))
	k.finish()
}

// fold adds the upper half of every accumulator to the lower.
func (k *tile) fold() {
	for i, f := range k.facc {
		z := f.(reg.VecPhysical)
		y := z.AsY().(reg.VecPhysical)
		VEXTRACTF64X4(U8(1), z, reg.Y0)
		VADDPS(reg.Y0, y, y)
		k.facc[i] = y
	}
}

// scatterBFloats emits one token's products with rows chosen by index, four at a time, while the next four are asked
// for.
func scatterBFloats(typ quant.Type) {
	k := &tile{isa: "BF16", typ: typ, r: 4, t: 1, wide: true}
	name := "scatter" + short(typ) + "BF16"
	TEXT(name, NOSPLIT, "func(out *float32, w *byte, rowBytes uintptr, index *int32, x *byte, n uintptr, rows uintptr)")
	Doc(fmt.Sprintf("%s computes one token's products with %s rows chosen by index, four at a time. Scalar twin: dotBF16Generic in bfloat.go.", name, typ))
	next := AllocLocal(4 * 8)
	out, index := Load(Param("out"), GP64()), Load(Param("index"), GP64())
	x, rows := Load(Param("x"), GP64()), Load(Param("rows"), GP64())
	row := []reg.GPVirtual{GP64(), GP64(), GP64(), GP64()}
	off, left, ahead := GP64(), GP64(), GP64()
	acc := k.vecs(4)
	k.facc = []Op{acc[0], acc[1], acc[2], acc[3]}
	w, xv, t0, t1 := k.vec(), k.vec(), k.vec(), k.vec()
	Label("quad")
	base, rowBytes := Load(Param("w"), GP64()), Load(Param("rowBytes"), GP64())
	for i, r := range row {
		scatteredRow(r, base, rowBytes, index, 4*i)
		MOVQ(r, next.Offset(8*i))
		VPXORD(acc[i], acc[i], acc[i])
	}
	CMPQ(rows, U8(4))
	JEQ(LabelRef("last"))
	for i := range row {
		scatteredRow(ahead, base, rowBytes, index, 16+4*i)
		MOVQ(ahead, next.Offset(8*i))
	}
	Label("last")
	XORQ(off, off)
	Load(Param("n"), left)
	Label("groups")
	VMOVDQU32(Mem{Base: x, Index: off, Scale: 1}, xv)
	for i := range row {
		MOVQ(next.Offset(8*i), ahead)
		PREFETCHT1(Mem{Base: ahead, Index: off, Scale: 1})
		k.pairs(Mem{Base: row[i], Index: off, Scale: 1}, w, t0, t1)
		dotBF16(xv, w, acc[i])
	}
	ADDQ(U8(64), off)
	DECQ(left)
	JNZ(LabelRef("groups"))
	for i := range acc {
		y := acc[i].AsY().(reg.VecPhysical)
		VEXTRACTF64X4(U8(1), acc[i], xv.AsY())
		VADDPS(xv.AsY(), y, y)
		acc[i] = y
	}
	horizontal(acc, xv.AsX())
	VMOVUPS(xv.AsX(), Mem{Base: out})
	ADDQ(U8(16), out)
	ADDQ(U8(16), index)
	SUBQ(U8(4), rows)
	JNZ(LabelRef("quad"))
	VZEROUPPER()
	RET()
}

// streamBFloats emits one token's products with consecutive rows, one after the other: one stream of memory.
func streamBFloats(typ quant.Type, kind reading) {
	k := &tile{isa: "BF16", typ: typ, r: 1, t: 1, wide: true}
	name := map[reading]string{near: "stream", far: "far"}[kind] + short(typ) + "BF16"
	TEXT(name, NOSPLIT, "func(out *float32, w *byte, rowBytes uintptr, x *byte, n uintptr, rows uintptr)")
	Doc(fmt.Sprintf("%s computes one token's products with consecutive rows of %s. Scalar twin: dotBF16Generic in bfloat.go.", name, typ))
	out, next, rowBytes := Load(Param("out"), GP64()), Load(Param("w"), GP64()), Load(Param("rowBytes"), GP64())
	x, n, rows := Load(Param("x"), GP64()), Load(Param("n"), GP64()), Load(Param("rows"), GP64())
	w, off, left := GP64(), GP64(), GP64()
	acc, v, xv, t0, t1 := k.vec(), k.vec(), k.vec(), k.vec(), k.vec()
	Label("row")
	MOVQ(next, w)
	ADDQ(rowBytes, next)
	XORQ(off, off)
	MOVQ(n, left)
	VPXORD(acc, acc, acc)
	Label("group")
	if kind == far {
		k.ask(Mem{Base: w, Index: off, Scale: 1, Disp: farAhead}, 64)
	}
	VMOVDQU32(Mem{Base: x, Index: off, Scale: 1}, xv)
	k.pairs(Mem{Base: w, Index: off, Scale: 1}, v, t0, t1)
	dotBF16(xv, v, acc)
	ADDQ(U8(64), off)
	DECQ(left)
	JNZ(LabelRef("group"))
	y := acc.AsY().(reg.VecPhysical)
	VEXTRACTF64X4(U8(1), acc, xv.AsY())
	VADDPS(xv.AsY(), y, y)
	horizontal([]reg.VecPhysical{y}, xv.AsX())
	VMOVSS(xv.AsX(), Mem{Base: out})
	ADDQ(U8(4), out)
	DECQ(rows)
	JNZ(LabelRef("row"))
	VZEROUPPER()
	RET()
}

// expandBFloats emits what makes a panel's row: n groups of 32 weights as BF16.
func expandBFloats(typ quant.Type) {
	k := &tile{isa: "BF16", typ: typ, r: 1, t: 1, wide: true}
	name := "expand" + short(typ) + "BF16"
	TEXT(name, NOSPLIT, "func(dst *byte, w *byte, n uintptr)")
	Doc(fmt.Sprintf("%s writes n groups of 32 %s weights as BF16. Scalar twin: bf16Weight in bfloat.go.", name, typ))
	dst, w, n := Load(Param("dst"), GP64()), Load(Param("w"), GP64()), Load(Param("n"), GP64())
	v, t0, t1 := k.vec(), k.vec(), k.vec()
	Label("group")
	k.pairs(Mem{Base: w}, v, t0, t1)
	VMOVDQU32(v, Mem{Base: dst})
	ADDQ(U8(64), w)
	ADDQ(U8(64), dst)
	DECQ(n)
	JNZ(LabelRef("group"))
	VZEROUPPER()
	RET()
}

// roundBFloats emits the rounding of activations.
func roundBFloats() {
	k := &tile{isa: "BF16", wide: true}
	TEXT("roundBF16", NOSPLIT, "func(dst *byte, x *float32, n uintptr)")
	Pragma("noescape") // or a row's padded rest would be allocated
	Doc("roundBF16 rounds n groups of 32 float32 to BF16. Scalar twin: roundBF16Generic in bfloat.go.")
	dst, x, n := Load(Param("dst"), GP64()), Load(Param("x"), GP64()), Load(Param("n"), GP64())
	lo, hi := k.vec(), k.vec()
	Label("group")
	VMOVUPS(Mem{Base: x}, lo)
	VMOVUPS(Mem{Base: x, Disp: 64}, hi)
	toBF16(lo, hi, lo)
	VMOVDQU32(lo, Mem{Base: dst})
	ADDQ(U32(128), x)
	ADDQ(U8(64), dst)
	DECQ(n)
	JNZ(LabelRef("group"))
	VZEROUPPER()
	RET()
}
