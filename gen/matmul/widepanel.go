package main

import (
	"math/bits"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/powerinfer-go/powerinfer/internal/compute/cpu/layout"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// widePanel is a panel's tile in 512-bit vectors: each holds what two rows have in a 256-bit one, which lie together in a panel. That
// halves the instructions and the loads of activations, of which both rows meet the same.
type widePanel struct {
	tile
	pairs int // of rows
}

func newWidePanel(k tile) *widePanel {
	k.isa, k.paired, k.memory, k.wide = "VNNI", true, true, true
	return &widePanel{k, k.r / 2}
}

func (k *widePanel) emit() {
	rows := k.r
	k.r = k.pairs // accumulators are those of pairs
	k.prologueOf("panel", rows)
	sums := k.vecs(k.pairs * k.t)
	k.supers(2*layout.Panel(k.typ, false), func() {
		mark := k.next
		if k.apart() {
			k.halves(sums)
		} else {
			k.sums(sums)
		}
		k.next = mark
		k.accumulatePairs(sums)
		k.next = mark
	})
	k.r, k.wide = rows, false
	facc := make([]Op, rows*k.t)
	for i := range facc {
		r, t := i/k.t, i%k.t
		facc[i] = Mem{Base: k.acc, Disp: 64*(r/2*k.t+t) + 32*(r%2)}
	}
	k.facc = facc
	k.finish()
}

// pair addresses what rows 2p and 2p+1 have at disp of a panel's superblock.
func (k *widePanel) pair(p, disp int) Mem { return strided(k.wp, k.rb, k.rb3, p, 2*disp) }

// both loads 32 bytes of token t's activations for both rows.
func (k *widePanel) both(t, disp int, dst reg.VecPhysical) {
	VBROADCASTI64X4(k.act(t, disp), dst)
}

// times multiplies by a power of two, or divides by it where that leaves no rest.
func times(v reg.VecPhysical, factor, divisor int) {
	switch {
	case factor > divisor:
		VPSLLD(U8(byte(bits.Len(uint(factor/divisor))-1)), v, v)
	case factor < divisor:
		VPSRAD(U8(byte(bits.Len(uint(divisor/factor))-1)), v, v)
	}
}

// begin leaves in sum what the offset makes of token t's activations: −offset·Σ. tmp is free.
func (k *widePanel) begin(t int, sum, tmp reg.VecPhysical) {
	switch o := k.offset(); {
	case o == 0 || k.odd():
		k.zero(sum)
	case k.scaled(): // 8·Σ·(1/8 − 16) is −scaledOffset·Σ
		k.both(t, layout.ActNeg8, tmp)
		VPSLLD(U8(4), tmp, sum)
		VPSRAD(U8(3), tmp, tmp)
		VPSUBD(tmp, sum, sum)
	default:
		k.both(t, layout.ActNeg8, sum)
		times(sum, o, 8)
	}
}

// sums adds products of bytes that share what scale they still have with all of their block.
func (k *widePanel) sums(sums []reg.VecPhysical) {
	w, x := k.vecs(k.pairs), k.vec()
	for t := range k.t {
		k.begin(t, sums[t], x)
		for p := 1; p < k.pairs; p++ {
			VMOVDQA32(sums[t], sums[p*k.t+t])
		}
	}
	for v := range 8 {
		for p := range w {
			VMOVDQU32(k.pair(p, layout.PanelQuants+32*v), w[p])
		}
		for t := range k.t {
			k.both(t, 32*v, x)
			for p := range w {
				VPDPBUSD(x, w[p], sums[p*k.t+t])
			}
		}
	}
	if !k.odd() {
		return
	}
	for t := range k.t { // 2·sum − oddOffset·Σ, which is 8·Σ·(1/8 − 17)
		k.both(t, layout.ActNeg8, x)
		VPSRAD(U8(3), x, w[0])
		VPSUBD(w[0], x, w[0])
		VPSLLD(U8(4), x, x)
		VPADDD(w[0], x, x)
		for p := range k.pairs {
			sum := sums[p*k.t+t]
			VPADDD(sum, sum, sum)
			VPADDD(x, sum, sum)
		}
	}
}

// join is joinHalves, but leaves a float. Sums that are not narrow are scaled as such: each product is exact (64·127·16·128 < 2^24), and
// what rounds is the addition alone, as where the sum of integers is turned into a float.
func (k *widePanel) join(first, second, s0, s1 reg.VecPhysical) {
	if k.narrow() {
		k.joinHalves(first, second, s0, s1)
		VCVTDQ2PS(first, first)
		return
	}
	VCVTDQ2PS(first, first)
	VCVTDQ2PS(second, second)
	VMULPS(s0, first, first)
	VFMADD231PS(s1, second, first)
}

// halves leaves scale·Σ of both halves in first, as floats.
func (k *widePanel) halves(first []reg.VecPhysical) {
	second := k.vecs(k.pairs * k.t)
	lo, hi := k.vecs(k.pairs), k.vecs(k.pairs)
	x0, x1 := k.vec(), k.vec()
	for t := range k.t {
		for i, sums := range [][]reg.VecPhysical{first, second} {
			if k.offset() == 0 {
				k.zero(sums[t])
			} else {
				k.both(t, layout.ActLo32+i*(layout.ActHi32-layout.ActLo32), sums[t])
				times(sums[t], k.offset(), 32)
			}
			for p := 1; p < k.pairs; p++ {
				VMOVDQA32(sums[t], sums[p*k.t+t])
			}
		}
	}
	for v := range 4 {
		for p := range k.pairs {
			VMOVDQU32(k.pair(p, layout.PanelQuants+32*v), lo[p])
			VMOVDQU32(k.pair(p, layout.PanelQuants+32*(v+4)), hi[p])
		}
		for t := range k.t {
			k.both(t, 32*v, x0)
			k.both(t, 32*(v+4), x1)
			for p := range k.pairs {
				VPDPBUSD(x0, lo[p], first[p*k.t+t])
				VPDPBUSD(x1, hi[p], second[p*k.t+t])
			}
		}
	}
	for p := range k.pairs {
		VMOVDQU32(k.pair(p, layout.PanelMin), x0)
		k.splitWords(x0, x1)
		if !k.narrow() {
			VCVTDQ2PS(x0, x0)
			VCVTDQ2PS(x1, x1)
		}
		for t := range k.t {
			k.join(first[p*k.t+t], second[p*k.t+t], x1, x0)
		}
	}
}

// accumulatePairs adds sums·dw·dx, and of types with minima those times Σx, to the float accumulators.
func (k *widePanel) accumulatePairs(sums []reg.VecPhysical) {
	dx, s := k.vec(), k.vec()
	dw, m, least := k.vecs(k.pairs), make([]reg.VecPhysical, k.pairs), make([]reg.VecPhysical, k.pairs)
	for p := range k.pairs {
		VMOVUPS(k.pair(p, layout.PanelScale), dw[p])
		switch {
		case k.nibbleMinima():
			m[p], least[p] = k.vec(), k.vec()
			VMOVDQU32(k.pair(p, layout.PanelLeast), least[p])
			VMOVUPS(k.pair(p, layout.PanelLeast+32), m[p])
		case k.minima():
			m[p] = k.vec()
			VMOVUPS(k.pair(p, layout.PanelMin), m[p])
		}
	}
	for t := range k.t {
		k.both(t, layout.ActScale, dx)
		for p := range k.pairs {
			i := p*k.t + t
			acc := k.facc[i]
			if !k.apart() {
				VCVTDQ2PS(sums[i], sums[i])
			}
			if k.nibbleMinima() {
				k.both(t, layout.ActPairs, s)
				VPMADDWD(s, least[p], s)
				VCVTDQ2PS(s, s)
				VMULPS(m[p], s, s)
				VFMSUB213PS(s, dw[p], sums[i]) // sum = dw·sum − s
				VFMADD213PS(acc, dx, sums[i])  // sum = dx·sum + acc
				VMOVUPS(sums[i], acc)
				continue
			}
			VMULPS(dx, dw[p], s)
			VFMADD213PS(acc, sums[i], s) // s = s·sum + acc
			if m[p] != nil {
				k.lessMinima(t, s, m[p], sums[i])
			}
			VMOVUPS(s, acc)
		}
	}
}

// lessMinima subtracts the minima of token t's blocks from s, or adds those of types that add them. tmp is free.
func (k *widePanel) lessMinima(t int, s, m, tmp reg.VecPhysical) {
	k.both(t, layout.ActDSum, tmp)
	if k.typ.Traits().Scales == quant.BlockMin {
		VFMADD231PS(tmp, m, s)
	} else {
		VFNMADD231PS(tmp, m, s)
	}
}
