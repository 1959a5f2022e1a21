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

// defineCodebooks defines each type's 16 values, or its 8 values twice, in every 16 bytes.
func defineCodebooks() {
	for _, typ := range quantised() {
		values := typ.Traits().Codebook
		if values == nil {
			continue
		}
		var unsigned []byte
		for _, v := range slices.Concat(values, values)[:16] {
			unsigned = append(unsigned, byte(int(v)+layout.Offset(typ)))
		}
		define(codebookName(typ), repeat(unsigned...))
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

// codes loads them.
func (k *tile) codes() *codes {
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
		c.table = kept(codebookName(k.typ))
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
		case o == 32:
			k.load(m, sum)
		case o < 32:
			k.load(m, sum)
			VPSRAD(U8(byte(bits.Len(uint(32/o))-1)), sum, sum)
		default:
			panic("sums of halves start otherwise without AVX-512")
		}
	}
}

func (k *tile) codedVNNI(isum []reg.VecPhysical) {
	for t := range k.t {
		for r := range k.r {
			k.start(t, isum[r*k.t+t])
		}
	}
	c := k.codes()
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
	c, room := k.codes(), k.room(2)
	w, p := k.vecs(room), k.vec()
	k.vec()
	for r := range k.r {
		for t := range k.t {
			k.start(t, isum[r*k.t+t])
		}
		for v := 0; v < 8; v += room {
			for i := range w {
				k.group(c, r, v+i, w[i], p)
			}
			for t := range k.t {
				k.addProducts(isum[r*k.t+t], w, t, v, constant("ones16"), p)
			}
		}
	}
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
	dw, s, second := k.vec(), k.vec(), k.vec()
	kept := func(name string) reg.VecPhysical {
		v := zmm(k.vec())
		VMOVDQU32(constant(name), v)
		return v
	}
	w, q := [2]reg.VecPhysical{zmm(k.vec()), zmm(k.vec())}, zmm(k.vec())
	mask, table := kept("mask0f"), kept(codebookName(k.typ))
	return func() {
		k.start(0, isum)
		k.zero(second)     // two chains of sums
		for v := range 2 { // a load that meets two lines takes as long as two: low nibbles, then high ones, of each
			VMOVDQU32(k.row(0, k.super().Quants+64*v), q)
			VPANDD(mask, q, w[0])
			VPSRLW(U8(4), q, w[1])
			VPANDD(mask, w[1], w[1])
			for half, sum := range []reg.VecPhysical{isum, second} {
				VPSHUFB(w[half], table, w[half])
				VPDPBUSD(k.act(0, 64*(v+2*half)), w[half], zmm(sum))
			}
		}
		lo := w[0].AsY().(reg.VecPhysical)
		VPADDD(zmm(second), zmm(isum), zmm(isum))
		VEXTRACTI64X4(U8(1), zmm(isum), lo)
		VPADDD(lo, isum, isum)
		k.scales(0, dw, nil, s)
		k.accumulate(0, 0, isum, dw, nil, s)
	}
}
