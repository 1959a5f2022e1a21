package main

import (
	"github.com/powerinfer-go/powerinfer/gen/filelayout"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// fileScales writes half h's part of a packed row's header to d. In BlockMin the minima come after the scales.
func (k *kernel) fileScales(d vec, h int) {
	mark := k.vecs
	w, upper := k.w[0], k.vec()
	switch k.typ {
	case quant.MXFP4:
		k.gather('b', "zip1.b", "zip1.h", d, 0, h)
	case quant.Q4_1, quant.Q5_1:
		k.gather('s', "zip1.h", "zip1", d, 0, h)
	case quant.Q6_K:
		k.load('d', d, w, filelayout.Q6K+8*h)
	case quant.Q2_K:
		k.load('d', d, w, 8*h)
	case quant.Q3_K: // four bits are in the nibbles of eight bytes, two in four bytes
		k.load('d', d, w, filelayout.Q3KLow)
		if h == 0 {
			k.op("and", d, d, k.masks[0x0f])
		} else {
			k.shift("ushr", 8, d, d, 4)
		}
		k.load('s', upper, w, filelayout.Q3KUpper)
		k.dup(upper, upper, 0)
		k.shiftBytes(upper, upper, func(i int) int { return 4 - 4*h - i/4*2 })
		k.less32(d, upper)
	case quant.IQ4_XS: // four bits in nibbles, two in pairs
		k.load('d', d, w, 0)
		index := k.vec()
		k.constant(index, k.table, filelayout.XSHigh+byte(h))
		k.tbl(upper, d, index)
		k.constant(index, k.table, filelayout.XSLow+byte(2*h), filelayout.XSLow+byte(2*h), filelayout.XSLow+1+byte(2*h), filelayout.XSLow+1+byte(2*h))
		k.tbl(d, d, index)
		k.shiftBytes(d, d, func(i int) int { return -4 * (i % 2) })
		k.op("and", d, d, k.masks[0x0f])
		k.shiftBytes(upper, upper, func(i int) int { return 4 - 2*(i%4) })
		k.less32(d, upper)
	default:
		k.gather('h', "zip1.h", "zip1", d, 0, h)
	}
	k.vecs = mark
}

// less32 makes scales of four bits in d and of two above them in upper, and subtracts 32.
func (k *kernel) less32(d, upper vec) {
	k.op("bit", d, upper, k.masks[0x30])
	k.movi(upper, 32)
	k.op("sub.b", d, d, upper)
}

// unitAt is the place of the unit in a file's superblock; of types with two the second follows.
func unitAt(typ quant.Type) int {
	switch typ {
	case quant.Q2_K:
		return filelayout.Q2KUnit
	case quant.Q3_K:
		return filelayout.Q3KUnit
	case quant.Q6_K:
		return filelayout.Q6KUnit
	case quant.TQ2_0:
		return filelayout.TQUnit
	}
	return 0 // IQ4_XS
}

// fileSixBits loads scales and minima of SixBits. Bytes 4… hold six bits of scales 0 to 3, bytes 8… of minima 0 to 3,
// and their upper two bits belong to scales and minima 4 to 7. The lower four bits of those are in bytes 12…: the
// scales' in the low nibbles, the minima's in the high ones.
func (k *kernel) fileSixBits(f factors, h int) {
	mark := k.vecs
	head, upper, w := k.vec(), k.vec(), k.w[0]
	if h == 0 {
		k.load('d', head, w, 4)
		k.op("and", head, head, k.masks[0x3f])
	} else {
		k.load('s', head, w, 12)
		k.shift("ushr", 8, upper, head, 4)
		k.op("zip1", head, head, upper)
		k.op("and", head, head, k.masks[0x0f])
		k.load('d', upper, w, 4)
		k.shift("ushr", 8, upper, upper, 2)
		k.op("bit", head, upper, k.masks[0x30])
	}
	k.op2("uxtl.b", head, head)
	k.op2("uxtl", f.scale, head)
	k.op2("uxtl2", f.min, head)
	k.op2("ucvtf", f.scale, f.scale)
	k.op2("ucvtf", f.min, f.min)
	k.load('s', head, w, 0)
	k.op2("fcvtl", head, head)
	k.by("fmul", f.scale, f.scale, head, 0)
	k.by("fmul", f.min, f.min, head, 1)
	k.vecs = mark
}
