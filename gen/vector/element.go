package main

import (
	"math/bits"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// element is a type of the cache that kernels read without decoding it first.
type element struct {
	suffix   string                                   // suffix of the function's name
	elements int                                      // elements of a row that a step takes: 8, or 32 for types with blocks
	bytes    int                                      // bytes of these elements
	load     func(from Mem, to reg.VecVirtual)        // as many elements as lanes: eight, or sixteen
	twice    func(from Mem, to reg.VecVirtual)        // eight elements, in both halves of a 512-bit vector
	integers func(from Mem, i int, to reg.VecVirtual) // types with blocks: loads the i-th of four times eight integers, which are multiplied by the scale
}

func cached() []element {
	return []element{
		{suffix: "AVX2", elements: 8, bytes: 16, load: func(from Mem, to reg.VecVirtual) { VCVTPH2PS(from, to) }, twice: func(from Mem, to reg.VecVirtual) {
			VBROADCASTI32X4(from, to.AsY())
			VCVTPH2PS(to.AsY(), to)
		}},
		{suffix: "BF16AVX2", elements: 8, bytes: 16, load: func(from Mem, to reg.VecVirtual) {
			VPMOVZXWD(from, to)
			VPSLLD(Imm(16), to, to)
		}, twice: func(from Mem, to reg.VecVirtual) {
			VBROADCASTI32X4(from, to.AsY())
			VPMOVZXWD(to.AsY(), to)
			VPSLLD(Imm(16), to, to)
		}},
		{
			suffix: "F32AVX2", elements: 8, bytes: 32, load: func(from Mem, to reg.VecVirtual) { VMOVUPS(from, to) },
			twice: func(from Mem, to reg.VecVirtual) { VBROADCASTF32X8(from, to) },
		},
		{suffix: "Q8_0AVX2", elements: 32, bytes: 34, integers: func(from Mem, i int, to reg.VecVirtual) {
			VPMOVSXBD(from.Offset(8*i), to)
		}},
		{suffix: "Q4_0AVX2", elements: 32, bytes: 18, integers: func(from Mem, i int, to reg.VecVirtual) {
			VPMOVZXBD(from.Offset(8*(i%2)), to)
			if i < 2 {
				VPAND(table("lowNibble", func(int) uint32 { return 15 }), to, to)
			} else {
				VPSRLD(Imm(4), to, to)
			}
			VPSUBD(table("middleNibble", func(int) uint32 { return 8 }), to, to)
		}},
	}
}

// rowBytes turns a row's elements into its bytes.
func (c element) rowBytes(n reg.Register) {
	if c.elements == 8 {
		SHLQ(Imm(uint64(bits.Len(uint(c.bytes/8))-1)), n)
		return
	}
	SHRQ(Imm(5), n)
	IMUL3Q(U32(uint32(c.bytes)), n, n)
}

// scale returns the scale of a block in all lanes.
func (c element) scale(block Mem) reg.VecVirtual {
	v := YMM()
	VPBROADCASTW(block, v.AsX())
	VCVTPH2PS(v.AsX(), v)
	return v
}

// quarter brings eight elements of a block into y, as decoding it would: products of integers and scales are exact.
func (c element) quarter(block Mem, i int, scale, y reg.VecVirtual) {
	c.integers(block.Offset(2), i, y)
	VCVTDQ2PS(y, y)
	VMULPS(scale, y, y)
}
