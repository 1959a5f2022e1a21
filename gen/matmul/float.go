package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// float emits F32, F16 and BF16 over n groups of 8 elements; hp walks the weights.
func (k *tile) float() {
	w := make([]reg.VecPhysical, k.r)
	for r := range w {
		w[r] = k.vec()
	}
	x := k.vec()
	k.prologue("tile")
	size := 2
	if k.typ == "F32" {
		size = 4
	}
	Label("loop")
	k.prefetch()
	for r := range w {
		switch k.typ {
		case "F32":
			VMOVUPS(k.row(r, 0), w[r])
		case "F16":
			VCVTPH2PS(k.row(r, 0), w[r])
		case "BF16":
			VPMOVZXWD(k.row(r, 0), w[r])
			VPSLLD(U8(16), w[r], w[r])
		}
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

// prefetch asks for the same place of the rows that the next tile of a decoded token reads. Past the weights' end the
// processor ignores it.
func (k *tile) prefetch() {
	if k.t != 1 || k.r != 4 {
		return
	}
	ahead := GP64()
	LEAQ(Mem{Base: k.wp, Index: k.rb, Scale: 4}, ahead)
	for r := range k.r {
		PREFETCHT1(strided(ahead, k.rb, k.rb3, r, 0))
	}
}
