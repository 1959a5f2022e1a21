package main

import (
	"fmt"
	"math"

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
	decodeWide("Q8_0", 34, func(src reg.Register, scale reg.VecVirtual) [2]reg.VecVirtual {
		lo, hi := ZMM(), ZMM()
		VPMOVSXBD(at(src, 2), lo)
		VPMOVSXBD(at(src, 18), hi)
		for _, v := range []reg.VecVirtual{lo, hi} {
			VCVTDQ2PS(v, v)
			VMULPS(scale, v, v)
		}
		return [2]reg.VecVirtual{lo, hi}
	})
	decodeWide("Q4_0", 18, func(src reg.Register, scale reg.VecVirtual) [2]reg.VecVirtual {
		all, lo, hi := ZMM(), ZMM(), ZMM()
		VMULPS(nibbles(), scale, all)
		VPMOVZXBD(at(src, 2), lo)
		VPSRLD(Imm(4), lo, hi)
		VPERMPS(all, lo, lo) // the lowest four bits count
		VPERMPS(all, hi, hi)
		return [2]reg.VecVirtual{lo, hi}
	})
}

// nibbles is the values of Q4_0's nibbles, without the scale.
func nibbles() Mem {
	m := GLOBL("nibbles", RODATA|NOPTR)
	for i := range 16 {
		DATA(4*i, U32(math.Float32bits(float32(i-8))))
	}
	return m
}

// decodeWide is decodeBlocks in 512-bit vectors: on Zen 4 it takes two thirds of the time. load returns a block's
// elements.
func decodeWide(name string, bytes int, load func(src reg.Register, scale reg.VecVirtual) [2]reg.VecVirtual) {
	function("decode"+name+"AVX512", "func(dst *float32, src, ahead *byte, blocks int)",
		fmt.Sprintf("writes the elements of blocks of %s. Scalar twin: quant.Decode.", name))
	dst, src, ahead, blocks := pointer("dst"), pointer("src"), pointer("ahead"), pointer("blocks")
	Label("blocks")
	prefetch(ahead, bytes)
	scale := ZMM()
	VPBROADCASTW(at(src, 0), scale.AsY())
	VCVTPH2PS(scale.AsY(), scale)
	for i, v := range load(src, scale) {
		VMOVUPS(v, at(dst, 64*i))
	}
	ADDQ(U32(uint32(bytes)), src)
	ADDQ(U32(128), dst)
	DECQ(blocks)
	JNZ(LabelRef("blocks"))
	end()
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
