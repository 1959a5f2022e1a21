package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/powerinfer-go/powerinfer/internal/compute/cpu/layout"
)

// Types with float scales for halves of blocks (quant.SmallFloats): both integer sums are converted to floats, which
// hold them exactly, and are scaled as floats. Every kernel adds in the same order: the second half, then the first
// one, and both times the activations' scale.

// smallScales leaves the scales of row r's first halves in s0, and of its second ones in s1.
func (k *tile) smallScales(r int, s0, s1, tmp reg.VecPhysical) {
	for i, s := range []reg.VecPhysical{s0, s1} {
		VPMOVZXBW(k.row(r, 8*i), s.AsX())
		VPSLLW(U8(layout.ScaleShift), s.AsX(), s.AsX())
		VCVTPH2PS(s.AsX(), s)
	}
	VBROADCASTSS(k.row(r, k.super().Unit), tmp)
	VMULPS(tmp, s0, s0)
	VMULPS(tmp, s1, s1)
}

// addSmall adds (s0·first + s1·second)·dx to the float accumulator of (r, t). It overwrites first and second.
func (k *tile) addSmall(r, t int, first, second, s0, s1 reg.VecPhysical) {
	VCVTDQ2PS(first, first)
	VCVTDQ2PS(second, second)
	VMULPS(s1, second, second)
	VFMADD231PS(s0, first, second)
	acc := k.facc[r*k.t+t]
	if !k.memory {
		VFMADD231PS(k.act(t, layout.ActScale), second, acc)
		return
	}
	VMOVUPS(k.act(t, layout.ActScale), first)
	VFMADD213PS(acc, first, second) // second = first·second + acc
	VMOVUPS(second, acc)
}

// smallPanel adds a superblock of a panel's rows, row by row, as there are few registers. first are the registers for
// the sums of first halves.
func (k *panel) smallPanel(first []reg.VecPhysical) {
	second, w, p := k.vecs(k.t), k.vecs(2), k.vec()
	for r := range k.r {
		for t := range k.t {
			k.startHalves(t, first[t], second[t])
		}
		for v := 0; v < 8; v += len(w) {
			for i := range w {
				VMOVDQU(k.row(r, layout.PanelQuants+32*(v+i)), w[i])
			}
			sums := first
			if v >= 4 {
				sums = second
			}
			for t := range k.t {
				k.addProducts(sums[t], w, t, v, constant("ones16"), p)
			}
		}
		VMOVUPS(k.row(r, layout.PanelScale), w[0])
		VMOVUPS(k.row(r, layout.PanelMin), w[1])
		for t := range k.t {
			k.addSmall(r, t, first[t], second[t], w[0], w[1])
		}
	}
}
