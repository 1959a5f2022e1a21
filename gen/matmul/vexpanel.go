package main

import (
	"encoding/binary"
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/ir"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/powerinfer-go/powerinfer/internal/compute/cpu/layout"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// vexPanel is a panel's tile for CPUs with AVX-VNNI: VPDPBUSD with 16 registers of 256 bits. Panels are the same as for
// 512-bit vectors. One kernel serves all types with scales of one form; their offsets are a parameter. Twelve sums hide
// the latency of the products and leave no registers for accumulators.
type vexPanel struct{ panel }

func vexPanels() {
	for _, typ := range []quant.Type{quant.Q8_0, quant.Q4_K} {
		for _, t := range []int{3, 1} {
			k := &vexPanel{panel{tile{isa: "AVXVNNI", typ: typ, r: 4, t: t, paired: true, memory: t > 1, parted: true}}}
			k.emit()
		}
	}
}

func (k *vexPanel) emit() {
	k.prologue("panel")
	Doc(fmt.Sprintf("panel%s%s%dx%d computes out[t][r] of %d rows and %d tokens of types with the form of scales of %s.", short(k.typ), k.isa, k.r, k.t, k.r, k.t, k.typ),
		"Scalar twin: tileGeneric in matmul_generic.go.")
	count := AllocLocal(16)
	if !k.minima() {
		shift := GP64()
		MOVQ(k.part, shift)
		SHRQ(U8(layout.PartShift), shift)
		MOVQ(shift, count)
	}
	isum := k.vecs(k.r * k.t)
	k.supers(2*layout.Panel(k.typ, false), func() {
		mark := k.next
		k.sums(isum, count)
		k.next = mark
		k.accumulatePanel(isum)
		k.next = mark
	})
	k.finish()
}

// sums adds products of unsigned bytes to −offset·Σ. The offset is 1<<count, or 0 if count is above 31.
func (k *vexPanel) sums(isum []reg.VecPhysical, count Mem) {
	x, w := k.vecs(k.t), k.vec()
	for t := range k.t {
		if k.minima() {
			k.zero(isum[t])
		} else {
			VMOVDQU(k.act(t, layout.ActNeg8), x[t])
			VPSRAD(U8(3), x[t], x[t])
			VPSLLD(count, x[t], isum[t])
		}
		for r := 1; r < k.r; r++ {
			VMOVDQA(isum[t], isum[r*k.t+t])
		}
	}
	for v := range 8 {
		for t := range k.t {
			VMOVDQU(k.act(t, 32*v), x[t])
		}
		for r := range k.r {
			VMOVDQU(k.row(r, layout.PanelQuants+32*v), w)
			for t := range k.t {
				dotBytesVEX(x[t], w, isum[r*k.t+t])
			}
		}
	}
}

// dotBytesVEX adds products of w's unsigned and x's signed bytes by VPDPBUSD in VEX form, which Go's assembler does not
// know.
func dotBytesVEX(x, w, sum reg.VecPhysical) {
	Comment(fmt.Sprintf("VEX.VPDPBUSD %s, %s, %s", x.Asm(), w.Asm(), sum.Asm()))
	vex(map0F38, bits256|prefix66, 0x50, int(sum.PhysicalIndex()), int(w.PhysicalIndex()), int(x.PhysicalIndex()))
}

// Parts of the VEX prefix.
const map0F38, bits256, prefix66 = 2, 1 << 2, 1

// vex emits an instruction of three registers in VEX form. form is the length and the prefix.
func vex(table, form, opcode byte, dst, src1, src2 int) {
	not := func(v, bit int) byte { return byte(^v >> bit & 1) }
	emitFive(0xc4, not(dst, 3)<<7|1<<6|not(src2, 3)<<5|table, byte(^src1&15)<<3|form, opcode, 0xc0|byte(dst&7)<<3|byte(src2&7))
}

// emitFive emits an instruction of five bytes.
func emitFive(b ...byte) {
	Instruction(&ir.Instruction{Opcode: "LONG", Operands: []Op{U32(binary.LittleEndian.Uint32(b))}})
	Instruction(&ir.Instruction{Opcode: "BYTE", Operands: []Op{U8(b[4])}})
}
