package main

import (
	"math/bits"
	"slices"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/powerinfer-go/powerinfer/internal/compute/cpu/layout"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// Types of two and three bits, and those whose codes are looked up, are computed on group by group: each becomes
// unsigned bytes, by a shuffle where there is a codebook.

// coded reports whether the type is computed on so.
func (k *tile) coded() bool { return k.typ.Traits().Bits < 4 || k.typ.Traits().Codebook != nil }

// twoSums reports whether the halves of a block have scales of their own, so that there are two sums for every output.
func (k *tile) twoSums() bool { return k.halfBlocks() || k.nibbleMinima() || k.smallFloats() }

func (k *tile) nibbleMinima() bool { return k.typ.Traits().Scales == quant.NibbleMinima }

// codebookName names the codebook's constant: values above zero, by their offset, or with their sign.
func codebookName(typ quant.Type, signed bool) string {
	if signed {
		return "signed" + short(typ)
	}
	return "values" + short(typ)
}

// defineCodebooks defines each type's 16 values, or 8 of them twice, in every 16 bytes.
func defineCodebooks() {
	for _, typ := range quantised() {
		values := typ.Traits().Codebook
		if values == nil {
			continue
		}
		var unsigned, signed []byte
		for _, v := range slices.Concat(values, values)[:16] {
			unsigned, signed = append(unsigned, byte(int(v)+layout.Offset(typ))), append(signed, byte(v))
		}
		define(codebookName(typ, false), repeat(unsigned...))
		define(codebookName(typ, true), repeat(signed...))
	}
}

// largest returns the largest unsigned quant.
func (k *tile) largest() int {
	if values := k.typ.Traits().Codebook; values != nil {
		return int(slices.Max(values)) + layout.Offset(k.typ)
	}
	return 1<<k.typ.Traits().Bits - 1
}

// room returns how many products of pairs 16 bits hold the sum of, at most most.
func (k *tile) room(most int) int { return min(most, 32767/(2*127*k.largest())) }

// codes holds the operands of group, in registers, or in memory where there are few.
type codes struct{ mask, third, table Op }

// codes loads them. signed has the codebook leave signs.
func (k *tile) codes(signed bool) *codes {
	c := &codes{}
	kept := func(name string) Op {
		v := k.vec()
		k.load(constant(name), v)
		return v
	}
	mask := "mask0f"
	if k.typ.Traits().Bits < 4 {
		mask = "mask03"
	}
	c.mask = kept(mask)
	if k.typ.Traits().Bits == 3 {
		c.third = constant("mask04")
		if k.vnni() {
			c.third = kept("mask04")
		}
	}
	if k.typ.Traits().Codebook != nil {
		c.table = kept(codebookName(k.typ, signed))
	}
	return c
}

// group leaves the quants of group v of row r in w. It overwrites tmp.
func (k *tile) group(c *codes, r, v int, w, tmp reg.VecPhysical) {
	low := k.super().Quants
	shift := 4 * (v / 4)
	if k.typ.Traits().Bits < 4 {
		low, shift = low+32*(v%2), 2*(v/2)
	} else {
		low += 32 * (v % 4)
	}
	if shift == 0 {
		k.and(k.row(r, low), c.mask, w)
	} else {
		k.load(k.row(r, low), w)
		VPSRLW(U8(byte(shift)), w, w)
		k.and(c.mask, w, w)
	}
	if k.typ.Traits().Bits == 3 {
		k.load(k.row(r, k.super().High), tmp)
		switch {
		case v < 2:
			VPSLLW(U8(byte(2-v)), tmp, tmp)
		case v > 2:
			VPSRLW(U8(byte(v-2)), tmp, tmp)
		}
		if k.vnni() {
			VPTERNLOGD(U8(orAnd), c.third, tmp, w)
		} else {
			VPAND(c.third, tmp, tmp)
			VPOR(tmp, w, w)
		}
	}
	if c.table != nil {
		VPSHUFB(w, c.table, w)
	}
}

// startHalves leaves −offset·Σ of the halves of token t's blocks in first and second.
func (k *tile) startHalves(t int, first, second Op) {
	for i, sum := range []Op{first, second} {
		m := k.act(t, layout.ActLo32+i*(layout.ActHi32-layout.ActLo32))
		switch o := k.offset(); {
		case o == 0:
			k.zero(sum)
		case o == 32:
			k.load(m, sum)
		case k.vnni() && o < 32:
			VPSRAD(U8(byte(bits.Len(uint(32/o))-1)), m, sum)
		case k.vnni():
			VPSLLD(U8(byte(bits.Len(uint(o/32))-1)), m, sum)
		case o < 32:
			k.load(m, sum)
			VPSRAD(U8(byte(bits.Len(uint(32/o))-1)), sum, sum)
		default:
			panic("sums of halves start otherwise without AVX-512")
		}
	}
}

func (k *tile) codedVNNI(isum []reg.VecPhysical) {
	second := isum
	if k.twoSums() {
		second = k.vecs(k.r * k.t)
	}
	for t := range k.t {
		for r := range k.r {
			if k.twoSums() {
				k.startHalves(t, isum[r*k.t+t], second[r*k.t+t])
			} else {
				k.start(t, isum[r*k.t+t])
			}
		}
	}
	c := k.codes(false)
	w, x := k.vecs(k.r), k.vec()
	for v := range 8 {
		sums := isum
		if v >= 4 {
			sums = second
		}
		for r := range w {
			k.group(c, r, v, w[r], x)
		}
		for t := range k.t {
			k.load(k.act(t, 32*v), x)
			for r := range w {
				VPDPBUSD(x, w[r], sums[r*k.t+t])
			}
		}
	}
	if !k.twoSums() {
		return
	}
	if k.smallFloats() {
		k.finishSmall(isum, second)
		return
	}
	s0, s1 := w[0], x
	for r := range k.r {
		k.halfScales(r, s1)
		k.splitWords(s1, s0)
		for t := range k.t {
			i := r*k.t + t
			k.joinHalves(isum[i], second[i], s0, s1)
		}
	}
}

// narrow reports whether sums of halves fit 16 bits, so that one product of pairs scales and joins them.
func (k *tile) narrow() bool {
	return k.coded() && max(k.largest()-k.offset(), k.offset())*127*16 < 1<<15
}

// halfScales leaves the 16 scales of row r as words in s.
func (k *tile) halfScales(r int, s reg.VecPhysical) {
	if !k.nibbleMinima() {
		VPMOVSXBW(k.row(r, 0), s)
		return
	}
	VPMOVZXBW(k.row(r, 0), s)
	k.and(constant("low4Words"), s, s)
}

// halfMinima leaves the 16 minima of row r as words in m.
func (k *tile) halfMinima(r int, m reg.VecPhysical) {
	VPMOVZXBW(k.row(r, 0), m)
	VPSRLW(U8(4), m, m)
}

// splitWords leaves the lower words of s in low, and keeps the upper ones, as numbers with a sign; of narrow sums it
// leaves s.
func (k *tile) splitWords(s, low reg.VecPhysical) {
	if k.narrow() {
		return
	}
	VPSLLD(U8(16), s, low)
	VPSRAD(U8(16), low, low)
	VPSRAD(U8(16), s, s)
}

// joinHalves leaves s0·first + s1·second in first, exact in 32 bits (2·128·127·16·128 < 2^27). Of narrow sums s1 holds
// both scales.
func (k *tile) joinHalves(first, second, s0, s1 reg.VecPhysical) {
	if k.narrow() {
		VPSLLD(U8(16), second, second)
		VPTERNLOGD(U8(orAnd), constant("lowerWords"), first, second)
		VPMADDWD(s1, second, first)
		return
	}
	VPMULLD(s0, first, first)
	VPMULLD(s1, second, second)
	VPADDD(second, first, first)
}

func (k *tile) codedAVX2(isum []reg.VecPhysical) {
	if k.offset() == 128 {
		k.signedAVX2(isum)
		return
	}
	c := k.codes(false)
	many := 2
	if c.table == nil {
		many = 4
	}
	room := k.room(many)
	w, p, q := k.vecs(room), k.vec(), k.vec()
	for r := range k.r {
		for t := range k.t {
			k.startAVX2(r, t, isum[r*k.t+t], p)
		}
		for v := 0; v < 8; v += room {
			for i := range w {
				k.group(c, r, v+i, w[i], p)
			}
			scale := k.scaleWords(r, v, q)
			for t := range k.t {
				k.addProducts(isum[r*k.t+t], w, t, v, scale, p)
			}
		}
	}
}

// startAVX2 leaves −offset·Σ in sum, of half-blocks with their scales.
func (k *tile) startAVX2(r, t int, sum, tmp reg.VecPhysical) {
	switch {
	case k.offset() == 0:
		k.zero(sum)
	case k.twoSums():
		k.halfScales(r, tmp)
		VPMADDWD(k.act(t, layout.ActPairs), tmp, tmp)
		VPSLLD(U8(byte(bits.Len(uint(k.offset()))-1)), tmp, tmp)
		k.zero(sum)
		VPSUBD(tmp, sum, sum)
	case k.offset() >= 8:
		k.start(t, sum)
	default:
		k.load(k.act(t, layout.ActNeg8), sum)
		VPSRAD(U8(byte(bits.Len(uint(8/k.offset()))-1)), sum, sum)
	}
}

// scaleWords returns what widens sums of the groups from v on: ones, or in q the scales of row r's halves.
func (k *tile) scaleWords(r, v int, q reg.VecPhysical) Op {
	if !k.twoSums() {
		return constant("ones16")
	}
	words := "lowWords"
	if v >= 4 {
		words = "highWords"
	}
	k.halfScales(r, q)
	VPSHUFB(constant(words), q, q)
	return q
}

// addProducts adds the products of groups v… with token t's activations to sum. It overwrites p and keeps w and scale.
func (k *tile) addProducts(sum reg.VecPhysical, w []reg.VecPhysical, t, v int, scale Op, p reg.VecPhysical) {
	tmp := k.vec()
	VPMADDUBSW(k.act(t, 32*v), w[0], p)
	for i := 1; i < len(w); i++ {
		VPMADDUBSW(k.act(t, 32*(v+i)), w[i], tmp)
		VPADDW(tmp, p, p)
	}
	VPMADDWD(scale, p, p)
	VPADDD(p, sum, sum)
	k.next--
}

// signedAVX2 moves the signs of values to activations, as unsigned ones have no room in 16 bits: 127·127·2 has.
func (k *tile) signedAVX2(isum []reg.VecPhysical) {
	c := k.codes(true)
	w, a, p := k.vec(), k.vec(), k.vec()
	for v := range 8 {
		for r := range k.r {
			k.group(c, r, v, w, p)
			VPABSB(w, a)
			for t := range k.t {
				acc := isum[r*k.t+t]
				VMOVDQU(k.act(t, 32*v), p)
				VPSIGNB(w, p, p)
				VPMADDUBSW(p, a, p)
				if v == 0 {
					VPMADDWD(constant("ones16"), p, acc)
					continue
				}
				VPMADDWD(constant("ones16"), p, p)
				VPADDD(p, acc, acc)
			}
		}
	}
}

// codedZ adds one superblock of one row and token with 512-bit vectors, each of two groups.
func (k *tile) codedZ(isum reg.VecPhysical) func() {
	traits := k.typ.Traits()
	dw, s, m, least, second := k.vec(), k.vec(), k.vec(), k.vec(), k.vec()
	kept := func(name string) reg.VecPhysical {
		v := zmm(k.vec())
		VMOVDQU32(constant(name), v)
		return v
	}
	w, h, q := [2]reg.VecPhysical{zmm(k.vec()), zmm(k.vec())}, zmm(k.vec()), zmm(k.vec())
	var mask, turn, third, table reg.VecPhysical
	if traits.Bits < 4 {
		mask = kept("mask03")
	} else {
		mask = kept("mask0f")
	}
	if traits.Bits == 3 {
		turn, third = kept("turn3"), kept("mask04")
	}
	if traits.Codebook != nil {
		table = kept(codebookName(k.typ, false))
	}
	return func() {
		if k.twoSums() {
			k.startHalves(0, isum, second)
		} else {
			k.start(0, isum)
			k.zero(second) // two chains of sums
		}
		if traits.Bits < 4 {
			VMOVDQU32(k.row(0, k.super().Quants), q)
		}
		if turn != nil {
			VBROADCASTI64X4(k.row(0, k.super().High), h)
			VPROLVD(turn, h, h)
		}
		for p := range 4 {
			w := w[p%2]
			if traits.Bits == 4 { // a load that meets two lines takes as long as two: low nibbles, then high ones, of each
				p = p/2 + 2*(p%2)
			}
			switch {
			case traits.Bits == 4 && p < 2:
				VMOVDQU32(k.row(0, k.super().Quants+64*p), q)
				VPANDD(mask, q, w)
			case traits.Bits == 4:
				VPSRLW(U8(4), q, w)
				VPANDD(mask, w, w)
			case p == 0:
				VPANDD(mask, q, w)
			default:
				VPSRLW(U8(byte(2*p)), q, w)
				VPANDD(mask, w, w)
			}
			if turn != nil {
				if p > 0 {
					VPRORD(U8(2), h, h)
				}
				VPTERNLOGD(U8(orAnd), third, h, w)
			}
			if table != nil {
				VPSHUFB(w, table, w)
			}
			sum := isum
			if p >= 2 {
				sum = second
			}
			VPDPBUSD(k.act(0, 64*p), w, zmm(sum))
		}
		lo, hi := w[0].AsY().(reg.VecPhysical), w[1].AsY().(reg.VecPhysical)
		if k.twoSums() {
			VEXTRACTI64X4(U8(1), zmm(isum), lo)
			VEXTRACTI64X4(U8(1), zmm(second), hi)
			VPADDD(lo, isum, isum)
			VPADDD(hi, second, second)
			if k.smallFloats() {
				k.smallScalesZ(0, lo, hi, s)
				k.addSmall(0, 0, isum, second, lo, hi)
				return
			}
			if k.nibbleMinima() { // one load for both
				VPMOVZXBW(k.row(0, 0), lo)
				VPSRLW(U8(4), lo, least)
				k.and(constant("low4Words"), lo, lo)
				k.least = least
			} else {
				k.halfScales(0, lo)
			}
			k.splitWords(lo, hi)
			k.joinHalves(isum, second, hi, lo)
		} else {
			VPADDD(zmm(second), zmm(isum), zmm(isum))
			VEXTRACTI64X4(U8(1), zmm(isum), lo)
			VPADDD(lo, isum, isum)
		}
		if !k.minima() {
			m = nil
		}
		k.scales(0, dw, m, s)
		k.accumulate(0, 0, isum, dw, m, s)
	}
}
