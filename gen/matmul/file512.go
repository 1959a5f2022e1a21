package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/powerinfer-go/powerinfer/gen/filelayout"
	"github.com/powerinfer-go/powerinfer/internal/compute/cpu/layout"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// Kernels of rows as files have them, in 512-bit vectors.

func zmm(v reg.VecPhysical) reg.VecPhysical { return v.AsZ().(reg.VecPhysical) }

// kept is a constant in a register.
func (k *fileRow) kept(name string) reg.VecPhysical {
	v := zmm(k.vec())
	VMOVDQU32(constant(name), v)
	return v
}

// bodyZ adds a superblock of four or six bits with 512-bit vectors of two groups each. Permutations of the whole
// superblock find the groups. High nibbles of four bits are multiplied in place and their sums divided by 16, which is
// exact, because shifts and permutations are most of a core's work for these types.
func (k *fileRow) bodyZ(isum reg.VecPhysical) func() {
	var places [4]reg.VecPhysical
	for p := range places {
		if k.typ == quant.Q4_0 && p >= 2 {
			break
		}
		places[p] = k.kept(fmt.Sprintf("filePlaces%s%d", short(k.typ), p))
	}
	dw, s, second, w := k.vec(), k.vec(), k.vec(), zmm(k.vec())
	switch k.typ {
	case quant.Q4_0:
		return k.fourBitBlocksZ(isum, dw, s, second, places)
	case quant.Q5_K:
		return k.fiveBitZ(isum, dw, s, second, w, places)
	case quant.Q4_K:
		return k.fourBitZ(isum, dw, s, second, w, places)
	}
	return k.sixBitFileZ(isum, dw, s, second, w, places)
}

// fourBitBlocksZ finds groups 0 and 1 in the first and in the last 64 bytes but 8 of a superblock, groups 2 and 3 ten
// and eight bytes further on. It needs no more than two loads for a permutation so.
func (k *fileRow) fourBitBlocksZ(isum, dw, s, high reg.VecPhysical, places [4]reg.VecPhysical) func() {
	low, top, scales := k.kept("mask0f"), k.kept("maskf0"), k.kept("filePlacesScales")
	front, behind, w, v := zmm(k.vec()), zmm(k.vec()), zmm(k.vec()), zmm(k.vec())
	return func() {
		VMOVDQU32(k.row(0, 0), front)
		VMOVDQU32(k.row(0, 72), behind)
		VMOVDQU32(k.act(0, layout.ActNeg8), isum)
		VPXORD(high, high, high)
		VMOVDQA32(front, w)
		VPERMT2W(behind, places[0], w)
		VPERMT2W(behind, scales, front)
		VMOVDQU32(k.row(0, 10), v)
		VPERMT2W(k.row(0, 80), places[1], v)
		for i, v := range []reg.VecPhysical{w, v} {
			VPANDD(top, v, behind)
			VPANDD(low, v, v)
			VPDPBUSD(k.act(0, 64*i), v, zmm(isum))
			VPDPBUSD(k.act(0, 128+64*i), behind, zmm(high))
		}
		VPSRAD(U8(4), zmm(high), zmm(high))
		VPADDD(zmm(high), zmm(isum), zmm(isum))
		VEXTRACTI64X4(U8(1), zmm(isum), dw)
		VPADDD(dw, isum, isum)
		VCVTPH2PS(front.AsX(), dw)
		k.accumulate(0, 0, isum, dw, nil, s)
	}
}

// fourBitZ multiplies every other block, the ones in high nibbles, by 16.
func (k *fileRow) fourBitZ(isum, dw, s, m, w reg.VecPhysical, places [4]reg.VecPhysical) func() {
	mask, shift := k.kept("fileMasks4"), k.kept("fileShift4")
	scales := k.fileScalesZ(dw, m, s)
	front, behind := zmm(k.vec()), zmm(k.vec())
	return func() {
		VPXORD(isum, isum, isum)
		VMOVDQU32(k.row(0, filelayout.SixBits), front)
		VMOVDQU32(k.row(0, filelayout.SixBits+64), behind)
		for p, at := range places {
			VMOVDQA32(front, w)
			VPERMT2D(behind, at, w)
			VPANDD(mask, w, w)
			VPDPBUSD(k.act(0, 64*p), w, zmm(isum))
		}
		VEXTRACTI64X4(U8(1), zmm(isum), dw)
		VPADDD(dw, isum, isum)
		VPSRAVD(shift.AsY(), isum, isum)
		scales()
		k.accumulate(0, 0, isum, dw, m, s)
	}
}

// fiveBitZ shifts high nibbles down, as fifth bits leave no room for products 16 times as large.
func (k *fileRow) fiveBitZ(isum, dw, s, m, w reg.VecPhysical, places [4]reg.VecPhysical) func() {
	mask, shift, fifth, turn := k.kept("mask0f"), k.kept("fileShift4"), k.kept("mask10"), k.kept("fileTurn5")
	var above [4]reg.VecPhysical
	for p := range above {
		above[p] = k.kept(fmt.Sprintf("filePlacesFifth%d", p))
	}
	scales := k.fileScalesZ(dw, m, s)
	front, behind, bits, high := zmm(k.vec()), zmm(k.vec()), k.vec(), zmm(k.vec())
	return func() {
		VPXORD(isum, isum, isum)
		VMOVDQU32(k.row(0, filelayout.Q5K), front)
		VMOVDQU32(k.row(0, filelayout.Q5K+64), behind)
		VMOVDQU32(k.row(0, filelayout.SixBits), bits)
		for p, at := range places {
			VMOVDQA32(front, w)
			VPERMT2D(behind, at, w)
			VPSRLVD(shift, w, w)
			VPANDD(mask, w, w)
			VPERMD(zmm(bits), above[p], high)
			VPROLVD(turn, high, high)
			VPTERNLOGD(U8(orAnd), fifth, high, w)
			VPDPBUSD(k.act(0, 64*p), w, zmm(isum))
		}
		VEXTRACTI64X4(U8(1), zmm(isum), dw)
		VPADDD(dw, isum, isum)
		scales()
		k.accumulate(0, 0, isum, dw, m, s)
	}
}

// fileScalesZ loads what unpacking six-bit scales keeps in registers, and returns what leaves d·scale in dw and
// dmin·min in m.
func (k *fileRow) fileScalesZ(dw, m, s reg.VecPhysical) func() {
	super := k.kept("superPair")
	header, low, top := k.vec().AsX(), k.vec().AsX(), k.vec().AsX()
	var fields [5]reg.VecPhysical
	for i, name := range []string{"fileFieldLow", "fileFieldHigh", "fileFieldMask", "fileFieldNibbles", "mask30"} {
		fields[i] = k.vec().AsX().(reg.VecPhysical)
		VMOVDQU32(constant(name), fields[i])
	}
	return func() {
		VMOVDQU32(k.row(0, 0), header)
		VPSHUFB(fields[0], header, low)
		VPSHUFB(fields[1], header, top)
		VCVTPH2PS(header, s.AsX())
		VPSRLW(U8(4), low, header)
		VPANDD(fields[2], low, low)
		VPSRLW(U8(2), top, top)
		VPTERNLOGD(U8(orAnd), fields[3], header, low)
		VPTERNLOGD(U8(orAnd), fields[4], top, low)
		VPMOVZXBD(low, zmm(dw))
		VCVTDQ2PS(zmm(dw), zmm(dw))
		VPERMPS(zmm(s), super, zmm(s))
		VMULPS(zmm(s), zmm(dw), zmm(dw))
		VEXTRACTF64X4(U8(1), zmm(dw), m)
	}
}

// sixBitFileZ keeps sums of first and second halves of blocks apart, as sixBitZ does.
func (k *fileRow) sixBitFileZ(isum, dw, s, second, w reg.VecPhysical, places [4]reg.VecPhysical) func() {
	mask, shift, mask30, turn := k.kept("mask0f"), k.kept("fileShift6"), k.kept("mask30"), k.kept("fileTurn6")
	var above [4]reg.VecPhysical
	for p := range above {
		above[p] = k.kept(fmt.Sprintf("filePlacesHigh%d", p))
	}
	front, behind, bits, high := zmm(k.vec()), zmm(k.vec()), zmm(k.vec()), zmm(k.vec())
	lo, hi := k.vec(), k.vec()
	return func() {
		VMOVDQU32(k.act(0, layout.ActLo32), isum)
		VMOVDQU32(k.act(0, layout.ActHi32), second)
		VMOVDQU32(k.row(0, 0), front)
		VMOVDQU32(k.row(0, 64), behind)
		VMOVDQU32(k.row(0, filelayout.Q6KHigh), bits)
		for p, at := range places {
			VMOVDQA32(front, w)
			VPERMT2D(behind, at, w)
			VPSRLVD(shift, w, w)
			VPANDD(mask, w, w)
			VPERMD(bits, above[p], high)
			VPROLVD(turn, high, high)
			VPTERNLOGD(U8(orAnd), mask30, high, w)
			sum := isum
			if p >= 2 {
				sum = second
			}
			VPDPBUSD(k.act(0, 64*p), w, zmm(sum))
		}
		VEXTRACTI64X4(U8(1), zmm(isum), lo)
		VEXTRACTI64X4(U8(1), zmm(second), hi)
		VPADDD(lo, isum, isum)
		VPADDD(hi, second, second)
		VPMOVSXBW(k.row(0, filelayout.Q6K), lo)
		VPSLLD(U8(16), lo, hi)
		VPSRAD(U8(16), hi, hi)
		VPSRAD(U8(16), lo, lo)
		VPMULLD(hi, isum, isum)
		VPMULLD(lo, second, second)
		VPADDD(second, isum, isum)
		k.tile.scales(0, dw, nil, s)
		k.accumulate(0, 0, isum, dw, nil, s)
	}
}
