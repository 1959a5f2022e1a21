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

// Types of two and three bits, and those with codes that are looked up, are computed group by group. Each group becomes
// unsigned bytes, by a shuffle if there is a codebook.

// coded reports whether the type is computed this way.
func (k *tile) coded() bool { return k.typ.Traits().Bits < 4 || k.typ.Traits().Codebook != nil }

// twoSums reports whether the halves of a block have scales of their own, so that there are two sums for every output.
func (k *tile) twoSums() bool { return k.halfBlocks() || k.nibbleMinima() || k.smallFloats() }

func (k *tile) nibbleMinima() bool { return k.typ.Traits().Scales == quant.NibbleMinima }

// codebookName names the codebook's constant: values above zero, by their offset.
func codebookName(typ quant.Type) string { return "values" + short(typ) }

// signedName names the constant with the codebook's values as they are.
func signedName(typ quant.Type) string { return "signed" + short(typ) }

// defineCodebooks defines each type's 16 values, or its 8 values twice, in every 16 bytes.
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
		define(codebookName(typ), repeat(unsigned...))
		define(signedName(typ), repeat(signed...))
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

// codes holds the operands of group, in registers, or in memory if there are few.
type codes struct{ mask, third, table Op }

// codes loads them. book names the constant with the codebook, if the type has one.
func (k *tile) codes(book string) *codes {
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
	}
	if k.typ.Traits().Codebook != nil {
		c.table = kept(book)
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
		VPAND(c.third, tmp, tmp)
		VPOR(tmp, w, w)
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
		case o < 32:
			k.load(m, sum)
			VPSRAD(U8(byte(bits.Len(uint(32/o))-1)), sum, sum)
		default:
			k.load(m, sum)
			VPSLLD(U8(byte(bits.Len(uint(o/32))-1)), sum, sum)
		}
	}
}

func (k *tile) codedVNNI(isum []reg.VecPhysical) {
	for t := range k.t {
		for r := range k.r {
			k.start(t, isum[r*k.t+t])
		}
	}
	c := k.codes(codebookName(k.typ))
	w, x := k.vecs(k.r), k.vec()
	for v := range 8 {
		for r := range w {
			k.group(c, r, v, w[r], x)
		}
		for t := range k.t {
			k.load(k.act(t, 32*v), x)
			for r := range w {
				VPDPBUSD(x, w[r], isum[r*k.t+t])
			}
		}
	}
}

// narrow reports whether sums of halves fit 16 bits, so that one product of pairs scales both and adds them.
func (k *tile) narrow() bool { return max(k.largest()-k.offset(), k.offset())*127*16 < 1<<15 }

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

// splitWords leaves the lower words of s in low, and keeps the upper ones, as numbers with a sign.
func (k *tile) splitWords(s, low reg.VecPhysical) {
	VPSLLD(U8(16), s, low)
	VPSRAD(U8(16), low, low)
	VPSRAD(U8(16), s, s)
}

func (k *tile) codedAVX2(isum []reg.VecPhysical) {
	if k.offset() == 128 {
		k.signedAVX2(isum)
		return
	}
	c, room := k.codes(codebookName(k.typ)), k.room(2)
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

// startAVX2 leaves −offset·Σ in sum. If halves have scales, Σ is multiplied by them.
func (k *tile) startAVX2(r, t int, sum, tmp reg.VecPhysical) {
	if !k.twoSums() || k.offset() == 0 {
		k.start(t, sum)
		return
	}
	k.halfScales(r, tmp)
	VPMADDWD(k.act(t, layout.ActPairs), tmp, tmp)
	VPSLLD(U8(byte(bits.Len(uint(k.offset()))-1)), tmp, tmp)
	k.zero(sum)
	VPSUBD(tmp, sum, sum)
}

// scaleWords returns the words that widen sums of the groups from v on, which are all in the same half: ones, or in q
// the scales of row r's halves.
func (k *tile) scaleWords(r, v int, q reg.VecPhysical) Op {
	if !k.twoSums() {
		return constant("ones16")
	}
	if v%4 == 0 {
		k.halfScales(r, q)
		VPSHUFB(constant([]string{"lowWords", "highWords"}[v/4]), q, q)
	}
	return q
}

// signedAVX2 multiplies values with their signs, because products of unsigned ones do not fit 16 bits.
func (k *tile) signedAVX2(isum []reg.VecPhysical) {
	c := k.codes(signedName(k.typ))
	k.signedProducts(isum, func(r, v int, w, tmp reg.VecPhysical) { k.group(c, r, v, w, tmp) })
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

// codedZ adds one superblock of one row and token with 512-bit vectors, each of two groups.
func (k *tile) codedZ(isum reg.VecPhysical) func() {
	traits := k.typ.Traits()
	dw, s, m, second := k.vec(), k.vec(), k.vec(), k.vec()
	if k.nibbleMinima() {
		k.least = k.vec()
	}
	kept := func(name string) reg.VecPhysical {
		v := zmm(k.vec())
		VMOVDQU32(constant(name), v)
		return v
	}
	w, q, high := [2]reg.VecPhysical{zmm(k.vec()), zmm(k.vec())}, zmm(k.vec()), zmm(k.vec())
	width := 4
	if traits.Bits < 4 {
		width = 2
	}
	mask := kept(map[int]string{2: "mask03", 4: "mask0f"}[width])
	var turn, third, table reg.VecPhysical
	if traits.Bits == 3 {
		turn, third = kept("turn3"), kept("mask04")
	}
	if traits.Codebook != nil {
		table = kept(codebookName(k.typ))
	}
	return func() {
		if k.twoSums() {
			k.startHalves(0, isum, second)
		} else {
			k.start(0, isum)
			k.zero(second) // two chains of sums
		}
		if turn != nil {
			VBROADCASTI64X4(k.row(0, k.super().High), high)
			VPROLVD(turn, high, high)
		}
		for i := range 4 { // pairs of groups; those that share a load follow each other
			pair := i
			if width == 4 {
				pair = i/2 + 2*(i%2)
			}
			w, shift := w[i%2], 2*pair
			if width == 4 {
				shift = pair / 2 * 4
			}
			if shift == 0 {
				VMOVDQU32(k.row(0, k.super().Quants+64*pair), q)
				VPANDD(mask, q, w)
			} else {
				VPSRLW(U8(byte(shift)), q, w)
				VPANDD(mask, w, w)
			}
			if turn != nil {
				if pair > 0 {
					VPRORD(U8(2), high, high)
				}
				VPTERNLOGD(U8(orAnd), third, high, w)
			}
			if table != nil {
				VPSHUFB(w, table, w)
			}
			VPDPBUSD(k.act(0, 64*pair), w, zmm([]reg.VecPhysical{isum, second}[pair/2]))
		}
		lo, hi := w[0].AsY().(reg.VecPhysical), w[1].AsY().(reg.VecPhysical)
		if k.twoSums() {
			VEXTRACTI64X4(U8(1), zmm(isum), lo)
			VEXTRACTI64X4(U8(1), zmm(second), hi)
			VPADDD(lo, isum, isum)
			VPADDD(hi, second, second)
			if k.nibbleMinima() {
				VPMOVZXBW(k.row(0, 0), lo)
				VPSRLW(U8(4), lo, k.least)
				VPANDD(constant("low4Words"), lo, lo)
			} else {
				k.halfScales(0, lo)
			}
			if k.narrow() {
				VPSLLD(U8(16), second, second)
				VPTERNLOGD(U8(orAnd), constant("lowerWords"), isum, second)
				VPMADDWD(lo, second, isum)
			} else {
				k.splitWords(lo, hi)
				VPMULLD(hi, isum, isum)
				VPMULLD(lo, second, second)
				VPADDD(second, isum, isum)
			}
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
