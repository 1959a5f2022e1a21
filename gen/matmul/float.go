package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// float emits F32, F16 and BF16 over n groups of 8 elements; hp walks the weights.
func (k *tile) float() {
	w := make([]reg.VecPhysical, k.r)
	for r := range w {
		w[r] = k.vec()
	}
	x := k.vec()
	kind := "tile"
	switch {
	case k.near:
		kind = "near"
	case k.close:
		kind = "close"
	}
	k.prologue(kind)
	size := k.floatBytes()
	ahead := k.nextRows()
	Label("loop")
	if ahead != nil {
		k.fetchRows(ahead, 8*size)
	}
	for r := range w {
		k.widen(k.row(r, 0), w[r])
	}
	for t := 0; t < k.t; t++ {
		VMOVUPS(k.act(t, 0), x)
		for r := range w {
			VFMADD231PS(x, w[r], k.facc[r*k.t+t])
		}
	}
	ADDQ(U8(byte(8*size)), k.wp)
	ADDQ(U8(32), k.xp)
	DECQ(k.n)
	JNZ(LabelRef("loop"))
	k.finish()
}

// scatterFloats emits one token's products with rows chosen by index, four at a time so that four sums are in flight,
// while the next four rows are prefetched. The number of rows is a multiple of four.
func scatterFloats(typ quant.Type) {
	k := &tile{isa: "AVX2", typ: typ, r: 4, t: 1}
	name := "scatter" + short(typ) + "AVX2"
	TEXT(name, NOSPLIT, "func(out *float32, w *byte, rowBytes uintptr, index *int32, x *byte, n uintptr, rows uintptr)")
	Doc(fmt.Sprintf("%s computes one token's products with %s rows chosen by index, four at a time. Scalar twin: tileGeneric in matmul_generic.go.", name, typ))
	next := AllocLocal(4 * 8)
	out, index := Load(Param("out"), GP64()), Load(Param("index"), GP64())
	x, rows := Load(Param("x"), GP64()), Load(Param("rows"), GP64())
	row := []reg.GPVirtual{GP64(), GP64(), GP64(), GP64()}
	off, left, ahead := GP64(), GP64(), GP64()
	acc, w, xv := k.vecs(4), k.vecs(4), k.vec()
	Label("quad")
	base, rowBytes := Load(Param("w"), GP64()), Load(Param("rowBytes"), GP64())
	for i, r := range row {
		scatteredRow(r, base, rowBytes, index, 4*i)
		MOVQ(r, next.Offset(8*i))
		VXORPS(acc[i], acc[i], acc[i])
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
	size, scale := k.floatBytes(), uint8(2)
	if typ == quant.F32 {
		scale = 1
	}
	step := func(u int) {
		VMOVUPS(Mem{Base: x, Index: off, Scale: scale, Disp: 32 * u}, xv)
		for i := range row {
			k.widen(Mem{Base: row[i], Index: off, Scale: 1, Disp: 8 * size * u}, w[i])
			VFMADD231PS(xv, w[i], acc[i])
		}
	}
	const unrolled = 4
	Label("groups")
	CMPQ(left, U8(unrolled))
	JLT(LabelRef("single"))
	for i := range row {
		MOVQ(next.Offset(8*i), ahead)
		for b := 0; b < unrolled*8*size; b += 64 {
			PREFETCHT1(Mem{Base: ahead, Index: off, Scale: 1, Disp: b})
		}
	}
	for u := range unrolled {
		step(u)
	}
	ADDQ(U32(uint32(unrolled*8*size)), off)
	SUBQ(U8(unrolled), left)
	JMP(LabelRef("groups"))
	Label("single")
	TESTQ(left, left)
	JEQ(LabelRef("sum"))
	step(0)
	ADDQ(U8(byte(8*size)), off)
	DECQ(left)
	JMP(LabelRef("single"))
	Label("sum")
	horizontal(acc, xv.AsX())
	VMOVUPS(xv.AsX(), Mem{Base: out})
	ADDQ(U8(16), out)
	ADDQ(U8(16), index)
	SUBQ(U8(4), rows)
	JNZ(LabelRef("quad"))
	VZEROUPPER()
	RET()
}

func (k *tile) floatBytes() int {
	if k.typ == quant.F32 {
		return 4
	}
	return 2
}

// widen loads eight weights as float32.
func (k *tile) widen(m Mem, w reg.VecPhysical) {
	switch k.typ {
	case quant.F32:
		VMOVUPS(m, w)
	case quant.F16:
		VCVTPH2PS(m, w)
	case quant.BF16:
		VPMOVZXWD(m, w)
		VPSLLD(U8(16), w, w)
	}
}
