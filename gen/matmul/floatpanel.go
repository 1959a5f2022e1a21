package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"

	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// floatPanel is a panel's tile for float types with products that keep all bits: two pairs of rows as float32 against
// eight tokens. A 512-bit vector holds eight elements of each row of a pair, so that lanes add up in the order of the
// other kernels. A tile has many tokens, because it reads the panel from the second-level cache.
type floatPanel struct{ widePanel }

func floatPanels() {
	(&floatPanel{*newWidePanel(tile{typ: quant.F32, r: 4, t: 8})}).emit()
	for _, typ := range []quant.Type{quant.F32, quant.F16, quant.BF16} {
		expandFloats(typ)
	}
}

func (k *floatPanel) emit() {
	rows := k.r
	k.r = k.pairs
	k.prologueOf("panel", rows)
	w, x := k.vecs(k.pairs), k.vecs(4)
	Label("group")
	for p := range w {
		VMOVUPS(strided(k.wp, k.rb, k.rb3, p, 0), w[p])
	}
	for t := range k.t {
		k.both(t, 0, x[t%4])
		for p := range w {
			VFMADD231PS(x[t%4], w[p], k.facc[p*k.t+t])
		}
	}
	ADDQ(U8(64), k.wp)
	k.advance(32)
	DECQ(k.n)
	JNZ(LabelRef("group"))
	k.keep()
	k.outStride3 = GP64()
	LEAQ(Mem{Base: k.outStride, Index: k.outStride, Scale: 2}, k.outStride3)
	k.sumPairs()
	VZEROUPPER()
	RET()
}

// expandFloats emits what makes a row of such a panel: groups of eight weights as float32.
func expandFloats(typ quant.Type) {
	k := &tile{isa: "AVX2", typ: typ, r: 1, t: 1}
	name := "expand" + short(typ) + "VNNI"
	TEXT(name, NOSPLIT, "func(dst *byte, w *byte, n uintptr)")
	Doc(fmt.Sprintf("%s writes n groups of 8 %s weights as float32, of two rows in turn. Scalar twin: quant.Decode.", name, typ))
	dst, w, n := Load(Param("dst"), GP64()), Load(Param("w"), GP64()), Load(Param("n"), GP64())
	v := k.vec()
	Label("group")
	k.widen(Mem{Base: w}, v)
	VMOVUPS(v, Mem{Base: dst})
	ADDQ(U8(byte(8*k.floatBytes())), w)
	ADDQ(U8(64), dst)
	DECQ(n)
	JNZ(LabelRef("group"))
	VZEROUPPER()
	RET()
}
