package main

import (
	"github.com/powerinfer-go/powerinfer/internal/compute/cpu/layout"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// factors hold the numbers that multiply the sums of a row's blocks.
type factors struct {
	scale, min    vec // min: of types with minima; of NibbleMinima the unit, with its sign turned
	first, second vec // integer factors of halves; of SmallFloats their scales
	least         vec // minima of halves as words, of NibbleMinima
}

func (k *kernel) factors(r, h int) factors {
	if k.panel != "" {
		return k.panelFactors(r, h)
	}
	w, unit := k.w[r], k.header(layout.Of(k.typ).Unit)
	if k.filed {
		unit = unitAt(k.typ)
	}
	if k.small() {
		return k.smallScales(w, h)
	}
	f := factors{scale: k.vec()}
	switch k.traits().Scales {
	case quant.BlockScale:
		k.scales(f.scale, w, h)
		k.op2("fcvtl", f.scale, f.scale)
	case quant.BlockMin:
		f.min = k.vec()
		k.scales(f.scale, w, h)
		if k.filed {
			k.op2("fcvtl2", f.min, f.scale)
		}
		k.op2("fcvtl", f.scale, f.scale)
		if !k.filed {
			k.load('d', f.min, w, k.header(layout.Minima+8*h))
			k.op2("fcvtl", f.min, f.min)
		}
	case quant.SixBits:
		f.min = k.vec()
		if k.filed {
			k.fileSixBits(f, h)
		} else {
			k.sixBits(f, w, h)
		}
	case quant.Exponents:
		least := k.scratch("least", k.leastExponent)
		k.scales(f.scale, w, h)
		k.op2("uxtl.b", f.scale, f.scale)
		k.op2("uxtl", f.scale, f.scale)
		k.shift("shl", 32, f.scale, f.scale, 23)
		k.op("umax", f.scale, f.scale, least)
	default:
		k.unit(f.scale, w, unit)
	}
	if k.traits().Halvings > 0 {
		k.op("fmul", f.scale, f.scale, k.scratch("halved", k.halved))
	}
	switch k.traits().Scales {
	case quant.ByteBlocks:
		b := k.vec()
		k.scales(b, w, h)
		k.op2("sxtl.b", b, b)
		k.op2("sxtl", b, b)
		k.op2("scvtf", b, b)
		k.op("fmul", f.scale, f.scale, b)
	case quant.HalfBlocks:
		f.first, f.second = k.vec(), k.vec()
		k.scales(f.second, w, h)
		k.op2("sxtl.b", f.second, f.second)
		k.split(f)
	case quant.NibbleMinima:
		f.first, f.second, f.min, f.least = k.vec(), k.vec(), k.vec(), k.vec()
		k.scales(f.second, w, h)
		k.shift("ushr", 8, f.least, f.second, 4)
		k.op2("uxtl.b", f.least, f.least)
		k.op("and", f.second, f.second, k.scratch("nibble", k.nibble))
		k.op2("uxtl.b", f.second, f.second)
		k.split(f)
		k.unit(f.min, w, unit+2)
		k.op2("fneg", f.min, f.min)
	}
	return f
}

// scales loads what the header has of half h: a number, a byte or two for each block.
func (k *kernel) scales(d vec, w reg, h int) {
	if k.filed {
		k.fileScales(d, h)
		return
	}
	switch k.traits().Scales {
	case quant.Exponents, quant.ByteBlocks:
		k.load('s', d, w, k.header(4*h))
	default:
		k.load('d', d, w, k.header(8*h))
	}
}

// small reports whether the halves of a block have float scales.
func (k *kernel) small() bool { return k.traits().Scales == quant.SmallFloats }

// smallScales loads SmallFloats.
func (k *kernel) smallScales(w reg, h int) factors {
	f := factors{first: k.vec(), second: k.vec()}
	f.scale = f.first // which panels keep, too
	factor := k.vec()
	k.load('s', factor, w, k.header(layout.Of(k.typ).Unit))
	for i, d := range []vec{f.first, f.second} {
		k.load('s', d, w, k.header(8*i+4*h))
		k.op2("uxtl.b", d, d)
		k.op2("uxtl", d, d)
		k.shift("shl", 32, d, d, layout.ScaleShift)
		k.op2("xtn", d, d)
		k.op2("fcvtl", d, d)
		k.by("fmul", d, d, factor, 0)
	}
	k.vecs = factor
	return f
}

// addParts adds the sums of halves to acc, multiplied by SmallFloats' scales and by the activations' at x+at.
func (k *kernel) addParts(acc, first, second, w0, w1 vec, x reg, at int) {
	k.op2("scvtf", first, first)
	k.op2("scvtf", second, second)
	k.op("fmul", second, second, w1)
	k.op("fmla", second, first, w0)
	k.load('q', first, x, at)
	k.op("fmla", acc, second, first)
}

// leastExponent sets lanes to half the smallest normal number.
func (k *kernel) leastExponent(d vec) { k.lanes(d, 0x40, 16) }

// halved sets lanes to what units are multiplied by.
func (k *kernel) halved(d vec) { k.power(d, k.traits().Halvings) }

// nibble masks the low nibble of every byte.
func (k *kernel) nibble(d vec) { k.movi(d, 0x0f) }

// split makes first and second of the words in second.
func (k *kernel) split(f factors) {
	k.shift("shl", 32, f.first, f.second, 16)
	k.shift("sshr", 32, f.first, f.first, 16)
	k.shift("sshr", 32, f.second, f.second, 16)
}

// unit loads a binary16 number into every lane as float32.
func (k *kernel) unit(d vec, w reg, at int) {
	k.load('h', d, w, at)
	k.halfToSingle(d, d)
	k.dup(d, d, 0)
}

// sixBits loads scales and minima of SixBits.
func (k *kernel) sixBits(f factors, w reg, h int) {
	head, index := k.vec(), k.vec()
	k.load('q', head, w, k.header(0))
	field := func(base int, d vec) {
		var b []byte
		for j := 4 * h; j < 4*h+4; j++ {
			at := base + 6*j/8
			next := byte(at + 1)
			if at == 15 {
				next = 0xff // nothing
			}
			b = append(b, byte(at), next, 0xff, 0xff)
		}
		k.constant(index, k.table, b...)
		k.tbl(d, head, index)
		k.op("ushl", d, d, k.shifts)
		k.op("and", d, d, k.masks[63])
		k.op2("ucvtf", d, d)
	}
	field(4, f.scale)
	field(10, f.min)
	k.op2("fcvtl", head, head)
	k.by("fmul", f.scale, f.scale, head, 0)
	k.by("fmul", f.min, f.min, head, 1)
}

// panelFactors loads what expand has written.
func (k *kernel) panelFactors(r, h int) factors {
	f := factors{scale: k.vec()}
	load := func(d *vec, at int) {
		*d = k.vec()
		k.load('q', *d, k.w[r], at+16*h)
	}
	if !k.small() {
		k.load('q', f.scale, k.w[r], layout.NeonScale+16*h)
	}
	if k.traits().Scales.Minima() {
		load(&f.min, layout.NeonMin)
	}
	if k.twoSums() {
		load(&f.first, layout.NeonFirst)
		load(&f.second, layout.NeonSecond)
	}
	if k.traits().Scales == quant.NibbleMinima {
		load(&f.least, layout.NeonLeast)
	}
	return f
}

// accumulate adds what the sums of a row's blocks and a token make to acc.
func (k *kernel) accumulate(sums []*sum, f factors, s vec, t, h int, acc vec) {
	isum := sums[0].all
	if k.small() {
		k.addParts(acc, isum, sums[1].all, f.first, f.second, k.x[t], layout.ActScale+16*h)
		return
	}
	if k.twoSums() {
		k.op("mul", isum, isum, f.first)
		k.op("mla", isum, sums[1].all, f.second)
	}
	k.op2("scvtf", isum, isum)
	if k.traits().Scales == quant.NibbleMinima {
		other := sums[1].all
		k.load('q', s, k.x[t], layout.ActPairs+16*h)
		k.op("smull2.h", other, s, f.least)
		k.op("smull.h", s, s, f.least)
		k.op("addp", s, s, other)
		k.op2("scvtf", s, s)
		k.op("fmul", s, s, f.min)
		k.op("fmla", s, isum, f.scale)
		k.load('q', other, k.x[t], layout.ActScale+16*h)
		k.op("fmla", acc, s, other)
		return
	}
	k.load('q', s, k.x[t], layout.ActScale+16*h)
	k.op("fmul", s, s, f.scale)
	k.op("fmla", acc, isum, s)
	if !k.traits().Scales.Minima() {
		return
	}
	k.load('q', s, k.x[t], layout.ActDSum+16*h)
	if k.traits().Scales == quant.BlockMin { // minima are added
		k.op("fmla", acc, f.min, s)
	} else {
		k.op("fmls", acc, f.min, s)
	}
}
