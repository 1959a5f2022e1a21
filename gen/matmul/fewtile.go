package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/powerinfer-go/powerinfer/internal/compute/cpu/layout"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// fewTile is a tile of a few tokens over packed rows in 512-bit vectors. Each holds two groups of a row, which are
// neighbours in it and in the activations. At the end of a superblock the sums of two rows are folded into one vector,
// with the first row in its lower half, so that the next steps compute both at once, as in a panel.
type fewTile struct {
	widePanel
	sums        [][]reg.VecPhysical // sums of whole blocks, or of first and second halves: [row%2][pair][token]
	mask, table reg.VecPhysical
	high        []reg.VecPhysical // each row's bits above the others, if there is room for them
}

const (
	// fewTokens is the largest number of tokens of such a tile.
	fewTokens = 4
	// A tile prefetches weights fewAhead rows after its first one. The rows between take longer to compute than memory
	// takes to answer.
	fewAhead = 8
)

// fewTiles emits the tiles of a type.
func fewTiles(typ quant.Type) {
	rows := 4
	if (&tile{typ: typ}).twoSums() { // for every output
		rows = 2
	}
	for t := 2; t <= fewTokens; t++ {
		k := &fewTile{widePanel: *newWidePanel(tile{typ: typ, r: rows, t: t})}
		k.paired, k.packed = false, true
		k.emit()
	}
}

func (k *fewTile) emit() {
	k.parameters("few", k.r)
	k.accumulators(k.pairs * k.t)
	upper := GP32()
	MOVL(U32(0xff00), upper)
	KMOVW(upper, reg.K1)
	k.mask = k.vec()
	VMOVDQU32(constant(k.maskName()), k.mask)
	if k.typ.Traits().Codebook != nil {
		k.table = k.vec()
		VMOVDQU32(constant(codebookName(k.typ)), k.table)
	}
	ahead := GP64()
	LEAQ(Mem{Base: k.wp, Index: k.rb, Scale: fewAhead}, ahead)
	k.supers(k.super().Bytes, func() {
		TESTQ(U32(layout.Fetched), k.part)
		JNE(LabelRef("fetched"))
		k.fetchRows(ahead, k.super().Bytes)
		Label("fetched")
		mark := k.next
		sums := k.products()
		k.accumulatePairs(sums)
		k.next = mark
	})
	k.keep()
	if k.t > 3 {
		k.outStride3 = GP64()
		LEAQ(Mem{Base: k.outStride, Index: k.outStride, Scale: 2}, k.outStride3)
	}
	k.sumPairs()
	VZEROUPPER()
	RET()
}

// maskName names the constant that leaves a quant's lower bits, or turns the sign of a byte.
func (k *fewTile) maskName() string {
	if k.bytes() {
		return "x80"
	}
	return "mask0f"
}

// sum returns the place of the sum of row r and token t in k.sums[0], or of the sum of a half. Even rows come first.
func (k *fewTile) sum(r, t int) int { return (r%2*k.pairs+r/2)*k.t + t }

// products returns the sums of a superblock, [pair][token]: integers, or floats where halves of blocks are scaled
// apart.
func (k *fewTile) products() []reg.VecPhysical {
	pairs := k.pairs * k.t
	k.sums = [][]reg.VecPhysical{k.vecs(pairs)}
	if k.separate() {
		k.sums = append(k.sums, k.vecs(pairs))
	}
	mark := k.next
	for i := range k.sums {
		k.sums[i] = append(k.sums[i], k.vecs(pairs)...)
	}
	k.startSums()
	w, x := k.vecs(k.r), k.vec()
	k.high = nil
	if k.next+k.r <= len(ymm) {
		k.high = k.vecs(k.r)
	}
	for part := range 4 {
		sums := k.sums[part*len(k.sums)/4]
		for r := range w {
			k.quants(r, part, w[r], x)
		}
		for t := range k.t {
			VMOVDQU32(k.act(t, 64*part), x)
			for r := range w {
				VPDPBUSD(x, w[r], sums[k.sum(r, t)])
			}
		}
	}
	for _, sums := range k.sums {
		k.fold(sums, x)
	}
	k.next = mark
	if k.separate() {
		k.joinPairs(k.sums[0], k.sums[1], k.vec(), k.vec())
		k.next = mark
	}
	return k.sums[0][:pairs]
}

// startSums sets every sum to the offset's part for the activations: −offset·Σ.
func (k *fewTile) startSums() {
	for t := range k.t {
		at := k.sum(0, t)
		if k.separate() {
			k.startHalves(t, k.sums[0][at].AsY(), k.sums[1][at].AsY())
		} else {
			k.start(t, k.sums[0][at].AsY().(reg.VecPhysical))
		}
		for r := 1; r < k.r; r++ {
			for _, sums := range k.sums {
				VMOVDQA32(sums[at], sums[k.sum(r, t)])
			}
		}
	}
}

// quants leaves groups 2·part and 2·part+1 of row r in w. It overwrites tmp.
func (k *fewTile) quants(r, part int, w, tmp reg.VecPhysical) {
	bits, low := k.typ.Traits().Bits, k.super().Quants
	if bits == 8 {
		VPXORD(k.row(r, low+64*part), k.mask, w)
		return
	}
	low += 64 * (part % 2)
	if part < 2 {
		VPANDD(k.row(r, low), k.mask, w)
	} else {
		VPSRLW(U8(4), k.row(r, low), w)
		VPANDD(k.mask, w, w)
	}
	switch {
	case bits == 5:
		k.turned(r, part, w, tmp)
	case bits == 6:
		high := k.row(r, k.super().High)
		switch left := 4 - 2*part; {
		case left > 0:
			VPSLLW(U8(byte(left)), high, tmp)
		case left < 0:
			VPSRLW(U8(byte(-left)), high, tmp)
		default:
			VMOVDQU32(high, tmp)
		}
		VPTERNLOGD(U8(orAnd), constant(k.above()), tmp, w)
	}
	if k.table != nil {
		VPSHUFB(w, k.table, w)
	}
}

// turned adds the fifth bits to both groups of w. A rotation brings the bits of the first two groups to their place,
// and a mask removes the others; each further part needs a rotation by two more bits.
func (k *fewTile) turned(r, part int, w, tmp reg.VecPhysical) {
	further := part
	if k.high != nil {
		tmp, further = k.high[r], min(part, 1)
	}
	if part == 0 || k.high == nil {
		VBROADCASTI64X4(k.row(r, k.super().High), tmp)
		VPROLVD(constant("turn5"), tmp, tmp)
	}
	if further > 0 {
		VPRORD(U8(byte(2*further)), tmp, tmp)
	}
	VPTERNLOGD(U8(orAnd), constant(k.above()), tmp, w)
}

// fold writes, to each vector of an even row, the sum of its halves to the lower half, and the next row's sum to the
// upper half.
func (k *fewTile) fold(sums []reg.VecPhysical, tmp reg.VecPhysical) {
	pairs := k.pairs * k.t
	for i, even := range sums[:pairs] {
		odd := sums[pairs+i]
		VALIGNQ(U8(4), even, odd, tmp) // the upper half of even, then the lower one of odd
		VPADDD(tmp, even, even)
		VPADDD(tmp, odd, reg.K1, even)
	}
}

// joinRows makes f write each row's part of pair p to half of dst. It overwrites tmp.
func (k *widePanel) joinRows(p int, dst, tmp reg.VecPhysical, f func(r int, dst reg.VecPhysical)) {
	f(2*p, dst.AsY().(reg.VecPhysical))
	f(2*p+1, tmp.AsY().(reg.VecPhysical))
	VINSERTI64X4(U8(1), tmp.AsY(), dst, dst)
}

// packedScales is pairScales of packed rows.
func (k *widePanel) packedScales(p int, dw, m reg.VecPhysical) {
	mark := k.next
	dw2, m2, s := k.vec(), k.vec(), k.vec()
	for i, v := range [][2]reg.VecPhysical{{dw, m}, {dw2, m2}} {
		minima := reg.VecPhysical(nil)
		if k.minima() {
			minima = v[1].AsY().(reg.VecPhysical)
		}
		k.scales(2*p+i, v[0].AsY().(reg.VecPhysical), minima, s.AsY().(reg.VecPhysical))
	}
	VINSERTI64X4(U8(1), dw2.AsY(), dw, dw)
	if k.minima() {
		VINSERTI64X4(U8(1), m2.AsY(), m, m)
	}
	k.next = mark
}

// packedWords leaves the scales of halves of both rows' blocks in dst as words.
func (k *widePanel) packedWords(p int, dst, tmp reg.VecPhysical) {
	k.joinRows(p, dst, tmp, k.halfScales)
}
