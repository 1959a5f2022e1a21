package main

import (
	"fmt"
	"math/bits"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/powerinfer-go/powerinfer/internal/compute/cpu/layout"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// widePanel is a panel's tile in 512-bit vectors. Each holds the 256-bit vectors of two rows, which are neighbours in a
// panel. That halves the instructions and the loads of activations, because both rows use the same ones.
type widePanel struct {
	tile
	pairs  int  // pairs of rows
	base   int  // the first vector register that is the tile's
	packed bool // rows are no panel's, but packed ones
}

// panelRows is the number of a tile's rows. Six were up to a tenth faster than four for blocks with only a scale:
// activations are loaded less often.
func panelRows(typ quant.Type) int {
	if k := (&tile{typ: typ}); k.nibbleMinima() || k.twoSums() {
		return 4
	}
	return 6
}

func newWidePanel(k tile) *widePanel {
	k.isa, k.paired, k.wide = "VNNI", true, true
	return &widePanel{tile: k, pairs: k.r / 2}
}

// strip emits the tile of a quantised type's strips. It computes several tiles of tokens, because a call for each took
// a twentieth of the time, and prefetches memory for later before each of them.
func (k *widePanel) strip() {
	rows := k.r
	k.r = k.pairs // accumulators are for pairs
	name := fmt.Sprintf("strip%s%s%dx%d", k.short(), k.isa, rows, k.t)
	TEXT(name, NOSPLIT, "func(out *float32, outStride uintptr, w *byte, rowBytes uintptr, x *byte, xStride, n uintptr, acc *float32, part, tiles uintptr, "+
		"next *byte, lines uintptr)")
	Doc(fmt.Sprintf("%s computes out[t][r] of %d %s rows and %d tokens, tiles times, and brings lines of memory from next on before each tile.", name, rows, k.what(), k.t),
		"Scalar twin: tileGeneric in matmul_generic.go.")
	k.out, k.outStride = Load(Param("out"), GP64()), Load(Param("outStride"), GP64())
	k.rb, k.xs = Load(Param("rowBytes"), GP64()), Load(Param("xStride"), GP64())
	if k.t > 3 {
		k.outStride3, k.xs3 = GP64(), GP64()
		LEAQ(Mem{Base: k.outStride, Index: k.outStride, Scale: 2}, k.outStride3)
		LEAQ(Mem{Base: k.xs, Index: k.xs, Scale: 2}, k.xs3)
	}
	Label("tile")
	k.ask()
	k.wp, k.xp = Load(Param("w"), GP64()), Load(Param("x"), GP64())
	k.n, k.acc = Load(Param("n"), GP64()), Load(Param("acc"), GP64())
	k.facc = make([]Op, k.pairs*k.t)
	k.next = 0
	for i := range k.facc {
		k.facc[i] = k.vec()
		k.zero(k.facc[i])
	}
	TESTQ(U32(layout.FirstPart), argument("part"))
	JNE(LabelRef("begin"))
	for i, v := range k.facc {
		VMOVUPS(Mem{Base: k.acc, Disp: k.vecBytes() * i}, v)
	}
	Label("begin")
	sums := k.vecs(k.pairs * k.t)
	k.supers(2*layout.Panel(k.typ, false), func() {
		mark := k.next
		if k.separate() {
			k.halves(sums)
		} else {
			k.sums(sums)
		}
		k.next = mark
		k.accumulatePairs(sums)
		k.next = mark
	})
	TESTQ(U32(layout.LastPart), argument("part"))
	JNE(LabelRef("sum"))
	for i, v := range k.facc {
		VMOVUPS(v, Mem{Base: k.acc, Disp: k.vecBytes() * i})
	}
	JMP(LabelRef("done"))
	Label("sum")
	k.sumPairs()
	Label("done")
	k.nextTile()
	JNZ(LabelRef("tile"))
	VZEROUPPER()
	RET()
}

// argument returns the place of an argument. The called function may change it.
func argument(name string) Mem {
	b, err := Param(name).Resolve()
	if err != nil {
		panic(err)
	}
	return b.Addr
}

// ask asks for the next lines of memory.
func (k *widePanel) ask() {
	next, lines := Load(Param("next"), GP64()), Load(Param("lines"), GP64())
	TESTQ(lines, lines)
	JEQ(LabelRef("asked"))
	Label("line")
	PREFETCHT1(Mem{Base: next})
	ADDQ(U8(64), next)
	DECQ(lines)
	JNZ(LabelRef("line"))
	MOVQ(next, argument("next"))
	Label("asked")
}

// nextTile continues with the next tile of tokens; the flags say whether there is one.
func (k *widePanel) nextTile() {
	if k.t == 4 {
		LEAQ(Mem{Base: k.out, Index: k.outStride, Scale: 4}, k.out)
	} else {
		ADDQ(k.outStride, k.out)
	}
	x := Load(Param("x"), GP64())
	LEAQ(Mem{Base: x, Index: k.xs, Scale: uint8(k.t)}, x)
	MOVQ(x, argument("x"))
	ADDQ(U32(uint32(k.vecBytes()*k.pairs*k.t)), argument("acc"))
	DECQ(argument("tiles"))
}

// sumPairs sums the lanes of four tokens' accumulators at a time, as epilogue does, and stores the tile. A 512-bit
// vector's lower half is the pair's first row.
func (k *widePanel) sumPairs() {
	k.next = k.base + k.pairs*k.t
	index, tmp := k.vec(), k.vec()
	VMOVDQU32(constant("byToken"), index)
	for t := 0; t < k.t; t += 4 {
		for p := 0; p < k.pairs; p += 2 {
			a := k.quarters(p, t, tmp)
			b := a
			if p+1 < k.pairs {
				b = k.quarters(p+1, t, tmp)
			}
			joined(VSHUFF32X4, a, b, tmp) // four tokens of each row
			VPERMPS(a, index, a)
			for i := range min(4, k.t) {
				out := strided(k.out, k.outStride, k.outStride3, i, 8*p)
				piece := a.AsX()
				if i > 0 {
					piece = tmp.AsX()
					VEXTRACTF32X4(U8(byte(i)), a, piece)
				}
				if p+1 < k.pairs {
					VMOVUPS(piece, out)
				} else {
					VMOVQ(piece, out)
				}
			}
		}
		if t+4 < k.t {
			LEAQ(Mem{Base: k.out, Index: k.outStride, Scale: 4}, k.out)
		}
	}
}

// quarters sums pair p's lanes of four tokens from t on by fours: 128-bit lane l of the result holds the tokens' sums
// of lanes 4l…. If the tile has one token, it takes the place of all four.
func (k *widePanel) quarters(p, t int, tmp reg.VecPhysical) reg.VecPhysical {
	a := make([]reg.VecPhysical, 4)
	for i := range a {
		a[i] = k.facc[p*k.t+min(t+i, k.t-1)].(reg.VecPhysical)
	}
	if k.t == 1 {
		joined(VSHUFPS, a[0], a[0], tmp)
		joined(VSHUFPS, a[0], a[0], tmp)
		return a[0]
	}
	joined(VSHUFPS, a[0], a[1], tmp)
	joined(VSHUFPS, a[2], a[3], tmp)
	joined(VSHUFPS, a[0], a[2], tmp)
	return a[0]
}

// joined writes to a the sums of neighbours in a, followed by the sums of neighbours in b. shuffle gives the unit.
func joined(shuffle func(...Op), a, b, tmp reg.VecPhysical) {
	const even, odd = 0x88, 0xdd
	shuffle(U8(even), b, a, tmp)
	shuffle(U8(odd), b, a, a)
	VADDPS(a, tmp, a)
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

// begin sets sum to the offset's part for token t's activations: −offset·Σ.
func (k *widePanel) begin(t int, sum reg.VecPhysical) {
	switch o := k.offset(); {
	case o == 0:
		k.zero(sum)
	default:
		k.both(t, layout.ActNeg8, sum)
		times(sum, o, 8)
	}
}

// beginSums is begin of all sums.
func (k *widePanel) beginSums(sums []reg.VecPhysical) {
	for t := range k.t {
		k.begin(t, sums[t])
		for p := 1; p < k.pairs; p++ {
			VMOVDQA32(sums[t], sums[p*k.t+t])
		}
	}
}

// sums adds products of bytes that share what scale they still have with all of their block.
func (k *widePanel) sums(sums []reg.VecPhysical) {
	w, x := k.vecs(k.pairs), k.vec()
	k.beginSums(sums)
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
}

// join leaves s0·first + s1·second in first, as floats. Each product is exact (64·127·16·128 < 2^24), so only the
// addition rounds, as when the sum of integers becomes a float.
func (k *widePanel) join(first, second, s0, s1 reg.VecPhysical) {
	VCVTDQ2PS(first, first)
	VCVTDQ2PS(second, second)
	VMULPS(s0, first, first)
	VFMADD231PS(s1, second, first)
}

// beginHalves sets the sums of halves to the offset's part for their activations.
func (k *widePanel) beginHalves(first, second []reg.VecPhysical) {
	for t := range k.t {
		for i, sums := range [][]reg.VecPhysical{first, second} {
			k.both(t, layout.ActLo32+i*(layout.ActHi32-layout.ActLo32), sums[t])
			times(sums[t], k.offset(), 32)
			for p := 1; p < k.pairs; p++ {
				VMOVDQA32(sums[t], sums[p*k.t+t])
			}
		}
	}
}

// separate reports whether the sums of blocks' halves are separate until they are scaled.
func (k *widePanel) separate() bool { return k.twoSums() && (k.packed || !k.scaled()) }

// halves leaves scale·Σ of both halves in first, as floats.
func (k *widePanel) halves(first []reg.VecPhysical) {
	second := k.vecs(k.pairs * k.t)
	lo, hi := k.vecs(k.pairs), k.vecs(k.pairs)
	x0, x1 := k.vec(), k.vec()
	k.beginHalves(first, second)
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
	k.joinPairs(first, second, x0, x1)
}

// joinPairs leaves scale·Σ of both halves in first, as floats. x0 and x1 are free.
func (k *widePanel) joinPairs(first, second []reg.VecPhysical, x0, x1 reg.VecPhysical) {
	for p := range k.pairs {
		if k.smallFloats() {
			k.joinSmall(p, first, second, x1, x0)
			continue
		}
		if k.packed {
			k.packedWords(p, x0, x1)
		} else {
			VMOVDQU32(k.pair(p, layout.PanelMin), x0)
		}
		k.splitWords(x0, x1)
		VCVTDQ2PS(x0, x0)
		VCVTDQ2PS(x1, x1)
		for t := range k.t {
			k.join(first[p*k.t+t], second[p*k.t+t], x1, x0)
		}
	}
}

// joinSmall leaves the sums of pair p's small floats in first, as addSmall makes them.
func (k *widePanel) joinSmall(p int, first, second []reg.VecPhysical, s0, s1 reg.VecPhysical) {
	VMOVUPS(k.pair(p, layout.PanelScale), s0)
	VMOVUPS(k.pair(p, layout.PanelMin), s1)
	for i := p * k.t; i < (p+1)*k.t; i++ {
		VCVTDQ2PS(first[i], first[i])
		VCVTDQ2PS(second[i], second[i])
		VMULPS(s1, second[i], second[i])
		VFMADD213PS(second[i], s0, first[i]) // first = s0·first + second
	}
}

// accumulatePairs adds sums·dw·dx, and of types with minima those times Σx, to the float accumulators.
func (k *widePanel) accumulatePairs(sums []reg.VecPhysical) {
	dx, s, dw, m, least := k.vec(), k.vec(), k.vec(), k.vec(), reg.VecPhysical(nil)
	if k.nibbleMinima() {
		least = k.vec()
	}
	for p := range k.pairs {
		k.pairScales(p, dw, m, least)
		for t := range k.t {
			k.both(t, layout.ActScale, dx)
			i := p*k.t + t
			acc := k.facc[i].(reg.VecPhysical)
			if !k.separate() {
				VCVTDQ2PS(sums[i], sums[i])
			}
			if k.nibbleMinima() {
				k.both(t, layout.ActPairs, s)
				VPMADDWD(s, least, s)
				VCVTDQ2PS(s, s)
				VMULPS(m, s, s)
				VFMSUB213PS(s, dw, sums[i]) // sum = dw·sum − s
				VFMADD231PS(dx, sums[i], acc)
				continue
			}
			if k.smallFloats() {
				VFMADD231PS(dx, sums[i], acc)
				continue
			}
			VMULPS(dx, dw, s)
			VFMADD231PS(sums[i], s, acc)
			if k.minima() {
				k.lessMinima(t, acc, m, sums[i])
			}
		}
	}
}

// pairScales leaves the scales of pair p's rows in dw, and their minima in m, or in least with the unit in m. Small
// floats have none: their sums are scaled.
func (k *widePanel) pairScales(p int, dw, m, least reg.VecPhysical) {
	if k.packed {
		k.packedScales(p, dw, m)
		return
	}
	if !k.smallFloats() {
		VMOVUPS(k.pair(p, layout.PanelScale), dw)
	}
	switch {
	case k.nibbleMinima():
		VMOVDQU32(k.pair(p, layout.PanelLeast), least)
		VMOVUPS(k.pair(p, layout.PanelLeast+32), m)
	case k.minima():
		VMOVUPS(k.pair(p, layout.PanelMin), m)
	}
}

// lessMinima subtracts the minima of token t's blocks from s. tmp is free.
func (k *widePanel) lessMinima(t int, s, m, tmp reg.VecPhysical) {
	k.both(t, layout.ActDSum, tmp)
	VFNMADD231PS(tmp, m, s)
}
