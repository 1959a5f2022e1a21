package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// decodes emits what turns blocks of the cache into floats.
func decodes() {
	decodeBlocks("Q8_0", 34, func(src reg.Register, i int, y reg.VecVirtual) {
		VPMOVSXBD(at(src, 2+8*i), y)
	})
	decodeNibbles()
}

// decodeBlocks emits the decoding of blocks of 32 elements that begin with a half, the scale. load brings eight
// integers, number i of four, into y.
func decodeBlocks(name string, bytes int, load func(src reg.Register, i int, y reg.VecVirtual)) {
	function("decode"+name+"AVX2", "func(dst *float32, src, ahead *byte, blocks int)",
		fmt.Sprintf("writes the elements of blocks of %s. Scalar twin: quant.Decode.", name))
	dst, src, ahead, blocks := pointer("dst"), pointer("src"), pointer("ahead"), pointer("blocks")
	Label("blocks")
	prefetch(ahead, bytes)
	scale := blockScale(src)
	for i := range 4 {
		y := YMM()
		load(src, i, y)
		VCVTDQ2PS(y, y)
		VMULPS(scale, y, y)
		VMOVUPS(y, at(dst, 32*i))
	}
	ADDQ(U32(uint32(bytes)), src)
	ADDQ(U32(128), dst)
	DECQ(blocks)
	JNZ(LabelRef("blocks"))
	end()
}

// blockScale returns the half at src in all lanes.
func blockScale(src reg.Register) reg.VecVirtual {
	half, scale := GP32(), YMM()
	MOVWLZX(at(src, 0), half)
	VMOVD(half, scale.AsX())
	VCVTPH2PS(scale.AsX(), scale.AsX())
	VBROADCASTSS(scale.AsX(), scale)
	return scale
}

// decodeNibbles emits the decoding of blocks of Q4_0: a scale, then sixteen bytes with the first elements in their low
// nibbles.
func decodeNibbles() {
	function("decodeQ4_0AVX2", "func(dst *float32, src, ahead *byte, blocks int)", "writes the elements of blocks of Q4_0. Scalar twin: quant.Decode.")
	dst, src, ahead, blocks := pointer("dst"), pointer("src"), pointer("ahead"), pointer("blocks")
	low, middle := YMM(), YMM()
	VMOVUPS(table("lowNibble", func(int) uint32 { return 15 }), low)
	VMOVUPS(table("middleNibble", func(int) uint32 { return 8 }), middle)
	Label("blocks")
	prefetch(ahead, 18)
	scale := blockScale(src)
	for i := range 2 {
		y, high := YMM(), YMM()
		VPMOVZXBD(at(src, 2+8*i), y)
		VPSRLD(Imm(4), y, high)
		VPAND(low, y, y)
		for j, v := range []reg.VecVirtual{y, high} {
			VPSUBD(middle, v, v)
			VCVTDQ2PS(v, v)
			VMULPS(scale, v, v)
			VMOVUPS(v, at(dst, 32*i+64*j))
		}
	}
	ADDQ(U32(18), src)
	ADDQ(U32(128), dst)
	DECQ(blocks)
	JNZ(LabelRef("blocks"))
	end()
}
