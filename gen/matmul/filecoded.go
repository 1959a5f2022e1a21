package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/powerinfer-go/powerinfer/gen/filelayout"
	"github.com/powerinfer-go/powerinfer/internal/compute/cpu/layout"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// Packing of types with parts and with codes stored like Q4_0's, or like Q6_K's bit pairs.

// filePacked reports whether there is an assembly kernel for a type. packParts packs the others, with codes from grids
// or digits.
func filePacked(typ quant.Type) bool {
	switch typ {
	case quant.Q5_0, quant.Q5_1, quant.IQ4_NL, quant.MXFP4, quant.IQ4_XS, quant.Q2_K, quant.Q3_K, quant.TQ2_0:
		return true
	}
	return !typ.Parted()
}

// packNibbles packs eight blocks that end with 16 bytes of nibbles.
func (k *fileRow) packNibbles(to func(int) Mem, g, tmp []reg.VecPhysical) {
	size, first := k.typ.BlockBytes(), k.typ.BlockBytes()-16
	switch k.typ {
	case quant.IQ4_XS:
		size, first = 16, filelayout.XS
		k.packXSScales(to, tmp)
	case quant.MXFP4:
		low := tmp[0].AsX()
		for j := range 8 {
			VPINSRB(U8(byte(j)), k.row(0, size*j), low, low)
		}
		VMOVQ(low, to(0))
	default:
		k.blockHalves(0, tmp[0].AsX())
		VMOVDQU(tmp[0].AsX(), to(0))
	}
	if k.minima() {
		k.blockHalves(2, tmp[0].AsX())
		VMOVDQU(tmp[0].AsX(), to(layout.Minima))
	}
	if k.typ.Traits().Bits == 5 {
		k.packFifthWords(to, first-4, g, tmp)
	}
	for j := range 4 {
		k.halves(first+size*j, first+size*(j+4), g[j])
	}
	transpose(g, tmp)
	for v, w := range g {
		VMOVDQU(w, to(k.super().Quants+32*v))
	}
}

// packFifthWords packs fifth bits that each block has in a word from byte at on; bit i belongs to element i. A product
// makes shifted copies of four bits, so that each is the lowest bit of a byte; a mask keeps these.
func (k *fileRow) packFifthWords(to func(int) Mem, at int, g, tmp []reg.VecPhysical) {
	size := k.typ.BlockBytes()
	words, sum, w := g[0], g[1], tmp[0]
	for half := range 2 {
		x := []reg.VecPhysical{words, w}[half].AsX()
		VMOVD(k.row(0, at+4*size*half), x)
		for j := 1; j < 4; j++ {
			VPINSRD(U8(byte(j)), k.row(0, at+size*(j+4*half)), x, x)
		}
	}
	VINSERTI128(U8(1), w.AsX(), words, words)
	for v := range 8 {
		VPSRLD(U8(byte(4*v)), words, w)
		VPAND(constant("nibbleDwords"), w, w)
		VPMULLD(constant("bitsToBytes"), w, w)
		VPAND(constant("lowBits"), w, w)
		if v == 0 {
			VMOVDQA(w, sum)
			continue
		}
		VPSLLD(U8(byte(v)), w, w)
		VPOR(w, sum, sum)
	}
	VMOVDQU(sum, to(k.super().High))
}

// packXSScales packs IQ4_XS's unit and its scales. The file has four bits of each scale in nibbles, and two in pairs of
// a word.
func (k *fileRow) packXSScales(to func(int) Mem, tmp []reg.VecPhysical) {
	low, high := tmp[0].AsX(), tmp[1].AsX()
	unit := GP32()
	MOVWLZX(k.row(0, 0), unit)
	MOVW(unit.As16(), to(k.super().Unit))
	VPBROADCASTD(k.row(0, filelayout.XSLow), tmp[0])
	VPSRLVD(constant("nibbleShifts"), tmp[0], tmp[0]) // dword j: nibble j and the bits above it
	VPAND(constant("nibbleDwords"), tmp[0], tmp[0])
	VPBROADCASTD(k.row(0, filelayout.XSHigh), tmp[1])
	VPSRLVD(constant("pairShifts"), tmp[1], tmp[1])
	VPAND(constant("pairDwords"), tmp[1], tmp[1])
	VPSLLD(U8(4), tmp[1], tmp[1])
	VPOR(tmp[1], tmp[0], tmp[0])
	VPSUBD(constant("dwords32"), tmp[0], tmp[0])
	VEXTRACTI128(U8(1), tmp[0], high)
	VPACKSSDW(high, low, low)
	VPACKSSWB(low, low, low)
	VMOVQ(low, to(0))
}

// packPairs packs a superblock of bit pairs.
func (k *fileRow) packPairs(to func(int) Mem, three, one reg.VecPhysical, g, tmp []reg.VecPhysical) {
	units := GP32()
	from := 0
	switch k.typ {
	case quant.Q2_K:
		from = filelayout.Q2K
		VMOVDQU(k.row(0, 0), tmp[0].AsX())
		VMOVDQU(tmp[0].AsX(), to(0))
		MOVL(k.row(0, filelayout.Q2KUnit), units)
		MOVL(units, to(k.super().Unit))
	case quant.Q3_K:
		from = filelayout.Q3K
		k.pack3KScales(to, tmp)
		k.packFifth(to, 0, one, g[0], tmp)
		MOVWLZX(k.row(0, filelayout.Q3KUnit), units)
		MOVW(units.As16(), to(k.super().Unit))
	default:
		MOVWLZX(k.row(0, filelayout.TQUnit), units)
		MOVW(units.As16(), to(k.super().Unit))
	}
	k.packHigh(to(k.super().Quants), from, three, g, tmp)
}

// pack3KScales packs Q3_K's 16 scales: four bits from the nibbles of eight bytes, two from the pairs of four.
func (k *fileRow) pack3KScales(to func(int) Mem, tmp []reg.VecPhysical) {
	low, high := tmp[0].AsX(), tmp[1].AsX()
	VMOVQ(k.row(0, filelayout.Q3KLow), low)
	VPSRLW(U8(4), low, high)
	VPUNPCKLQDQ(high, low, low)
	VPAND(constant("mask0f"), low, low)
	VPBROADCASTD(k.row(0, filelayout.Q3KUpper), high)
	VPSRLVD(constant("pairShifts"), high, high)
	VPSLLW(U8(4), high, high)
	VPAND(constant("mask30"), high, high)
	VPOR(high, low, low)
	VPSUBB(constant("bytes32"), low, low)
	VMOVDQU(low, to(0))
}

// defineFileCoded defines what these kernels need.
func defineFileCoded() {
	define("nibbleDwords", repeat(15, 0, 0, 0))
	define("pairDwords", repeat(3, 0, 0, 0))
	define("bitsToBytes", repeat(0x81, 0x40, 0x20, 0)) // bit i of a nibble to bit 8i
	define("lowBits", repeat(1, 1, 1, 1))
	define("dwords32", repeat(32, 0, 0, 0))
	define("bytes32", repeat(32))
	var nibbles, pairs []byte
	for j := range 8 {
		nibbles, pairs = append(nibbles, byte(4*j), 0, 0, 0), append(pairs, byte(2*j), 0, 0, 0)
	}
	define("nibbleShifts", repeat(nibbles...))
	define("pairShifts", repeat(pairs...))
}
