package main

import (
	"math/bits"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/powerinfer-go/powerinfer/internal/compute/cpu/layout"
)

// nibbles loads quant vector v of row r and splits it: lo holds group v, hi group v+4.
func (k *tile) nibbles(r, v int, lo, hi, mask reg.VecPhysical) {
	k.load(k.row(r, k.super().Quants+32*v), lo)
	VPSRLW(U8(4), lo, hi)
	k.and(mask, lo, lo)
	k.and(mask, hi, hi)
}

// offset returns the offset of unsigned quants above their values: that of panels, or of rows as they are packed.
func (k *tile) offset() int {
	if k.unlifted {
		return layout.Offset(k.typ) - lift(k.typ)
	}
	return layout.Offset(k.typ)
}

// start sets sum to the offset's part for token t's activations: −offset·Σ. Offsets are zero or a power of two.
func (k *tile) start(t int, sum reg.VecPhysical) {
	switch o := k.offset(); {
	case o == 0:
		k.zero(sum)
	case o == 8:
		k.load(k.act(t, layout.ActNeg8), sum)
	case o < 8:
		k.load(k.act(t, layout.ActNeg8), sum)
		VPSRAD(U8(byte(bits.Len(uint(8/o))-1)), sum, sum)
	case !k.vnni():
		k.load(k.act(t, layout.ActNeg8), sum)
		VPSLLD(U8(byte(bits.Len(uint(o/8))-1)), sum, sum)
	default:
		VPSLLD(U8(byte(bits.Len(uint(o/8))-1)), k.act(t, layout.ActNeg8), sum)
	}
}

// less adds the same to a sum; of offsets up to 8.
func (k *tile) less(t int, sum reg.VecPhysical) {
	if k.offset() > 0 {
		VPADDD(k.act(t, layout.ActNeg8), sum, sum)
	}
}

// above is the constant that masks a quant's bits above the fourth in the place where highBits leaves them, "" without
// such bits.
func (k *tile) above() string {
	return map[int]string{5: "mask10", 6: "mask30"}[k.typ.Traits().Bits]
}

func (k *tile) fourBitVNNI(isum []reg.VecPhysical) {
	for t := range k.t {
		for r := range k.r {
			k.start(t, isum[r*k.t+t])
		}
	}
	mask := k.vec()
	k.load(constant("mask0f"), mask)
	lo, hi := k.vecs(k.r), k.vecs(k.r)
	x0, x1 := k.vec(), k.vec()
	high := reg.VecPhysical(nil)
	if above := k.above(); above != "" {
		high = k.vec()
		k.load(constant(above), high)
	}
	for v := range 4 {
		for r := range lo {
			k.nibbles(r, v, lo[r], hi[r], mask)
			if high != nil {
				k.highBits(r, v, x0)
				VPTERNLOGD(U8(orAnd), high, x0, lo[r])
				k.highBits(r, v+4, x1)
				VPTERNLOGD(U8(orAnd), high, x1, hi[r])
			}
		}
		for t := range k.t {
			k.load(k.act(t, 32*v), x0)
			k.load(k.act(t, 32*(v+4)), x1)
			for r := range lo {
				VPDPBUSD(x0, lo[r], isum[r*k.t+t])
			}
			for r := range lo {
				VPDPBUSD(x1, hi[r], isum[r*k.t+t])
			}
		}
	}
}

// fiveBitAVX2 adds four products of 31·127·2 in 16 bits, which holds 4.1.
func (k *tile) fiveBitAVX2(isum []reg.VecPhysical) {
	mask, lo, hi, p, q := k.vec(), k.vec(), k.vec(), k.vec(), k.vec()
	k.load(constant("mask0f"), mask)
	for v := range 4 {
		for r := range k.r {
			k.nibbles(r, v, lo, hi, mask)
			for i, w := range []reg.VecPhysical{lo, hi} {
				k.highBits(r, v+4*i, p)
				VPAND(constant("mask10"), p, p)
				VPOR(p, w, w)
			}
			for t := range k.t {
				acc := isum[r*k.t+t]
				VPMADDUBSW(k.act(t, 32*v), lo, p)
				VPMADDUBSW(k.act(t, 32*(v+4)), hi, q)
				VPADDW(q, p, p)
				if v == 0 && k.offset() == 0 {
					VPMADDWD(constant("ones16"), p, acc)
					continue
				}
				VPMADDWD(constant("ones16"), p, p)
				if v == 0 {
					k.start(t, acc)
				}
				VPADDD(p, acc, acc)
			}
		}
	}
}

// fourBitAVX2 adds eight products of 15·127·2 in 16 bits, which holds 8.6.
func (k *tile) fourBitAVX2(isum []reg.VecPhysical) {
	mask, lo, hi, p := k.vec(), k.vec(), k.vec(), k.vec()
	k.load(constant("mask0f"), mask)
	for v := range 4 {
		for r := range k.r {
			k.nibbles(r, v, lo, hi, mask)
			for t := range k.t {
				acc := isum[r*k.t+t]
				if v == 0 {
					VPMADDUBSW(k.act(t, 0), lo, acc)
				} else {
					VPMADDUBSW(k.act(t, 32*v), lo, p)
					VPADDW(p, acc, acc)
				}
				VPMADDUBSW(k.act(t, 32*(v+4)), hi, p)
				VPADDW(p, acc, acc)
			}
		}
	}
	VMOVDQU(constant("ones16"), p)
	for r := range k.r {
		for t := range k.t {
			acc := isum[r*k.t+t]
			VPMADDWD(p, acc, acc)
			k.less(t, acc)
		}
	}
}

// sixBitScales leaves d·scale in dw and dmin·min in m, lane j for sub-block j.
func (k *tile) sixBitScales(r int, dw, m, tmp reg.VecPhysical) {
	if k.vnni() {
		k.sixBitScalesZ(r, dw, m, tmp, nil)
		return
	}
	VBROADCASTI128(k.row(r, 0), m)
	VCVTPH2PS(k.row(r, 0), tmp.AsX())
	field := func(at int, dst reg.VecPhysical) {
		VPSHUFB(constant("sixBitShuffle").Offset(at), m, dst)
		VPSRLVD(constant("sixBitShift"), dst, dst)
		VPAND(constant("mask63"), dst, dst)
		VCVTDQ2PS(dst, dst)
	}
	field(0, dw)
	field(32, m)
	super := k.vec()
	VBROADCASTSS(tmp.AsX(), super)
	VMULPS(super, dw, dw)
	VMOVSHDUP(tmp.AsX(), tmp.AsX())
	VBROADCASTSS(tmp.AsX(), tmp)
	VMULPS(tmp, m, m)
	k.next--
}

// sixBitConstants are the four vectors that unpack a Q4_K header, in registers if there are enough.
type sixBitConstants [4]Op

func sixBitMemory() *sixBitConstants {
	return &sixBitConstants{constant("sixBitShuffle"), constant("sixBitShift"), constant("mask63"), constant("superPair")}
}

// sixBitScalesZ unpacks scales and minima side by side in one 512-bit vector.
func (k *tile) sixBitScalesZ(r int, dw, m, tmp reg.VecPhysical, c *sixBitConstants) {
	if c == nil {
		c = sixBitMemory()
	}
	k.sixBitRowZ(r, dw.AsZ().(reg.VecPhysical), tmp.AsZ().(reg.VecPhysical), m.AsZ().(reg.VecPhysical), c)
	VEXTRACTF64X4(U8(1), dw.AsZ(), m)
}

func (k *tile) sixBitRowZ(r int, dst, t, index reg.VecPhysical, c *sixBitConstants) {
	VBROADCASTI32X4(k.row(r, 0), dst)
	VPSHUFB(c[0], dst, dst)
	VPSRLVD(c[1], dst, dst)
	VPANDD(c[2], dst, dst)
	VCVTDQ2PS(dst, dst)
	VCVTPH2PS(k.row(r, 0), t.AsX())
	if r, ok := c[3].(reg.VecPhysical); ok {
		index = r
	} else {
		VMOVDQU32(c[3], index)
	}
	VPERMPS(t, index, t)
	VMULPS(t, dst, dst)
}

func (k *tile) eightBitVNNI(isum []reg.VecPhysical) {
	flip, x, w := k.vec(), k.vec(), k.vecs(k.r)
	k.load(constant("x80"), flip)
	for t := range k.t {
		k.start(t, isum[t])
		for r := 1; r < k.r; r++ {
			VMOVDQA32(isum[t], isum[r*k.t+t])
		}
	}
	for v := range 8 {
		for r := range w {
			VPXORD(k.row(r, k.super().Quants+32*v), flip, w[r])
		}
		for t := range k.t {
			k.load(k.act(t, 32*v), x)
			for r := range w {
				VPDPBUSD(x, w[r], isum[r*k.t+t])
			}
		}
	}
}

func (k *tile) eightBitAVX2(isum []reg.VecPhysical) {
	k.signedProducts(isum, func(r, v int, w, _ reg.VecPhysical) { VMOVDQU(k.row(r, k.super().Quants+32*v), w) })
}

// signedProducts sums products of bytes with signs. quants leaves group v of row r in w, and may overwrite tmp. The
// activations get the quants' signs: 127·127·2 fits 16 bits.
func (k *tile) signedProducts(isum []reg.VecPhysical, quants func(r, v int, w, tmp reg.VecPhysical)) {
	ones, w, a, p := k.vec(), k.vec(), k.vec(), k.vec()
	VMOVDQU(constant("ones16"), ones)
	for v := range 8 {
		for r := range k.r {
			quants(r, v, w, p)
			VPABSB(w, a)
			for t := range k.t {
				acc := isum[r*k.t+t]
				VMOVDQU(k.act(t, 32*v), p)
				VPSIGNB(w, p, p)
				VPMADDUBSW(p, a, p)
				if v == 0 {
					VPMADDWD(ones, p, acc)
					continue
				}
				VPMADDWD(ones, p, p)
				VPADDD(p, acc, acc)
			}
		}
	}
}

// highBits leaves in h the bits above the fourth of group v of row r in place, among other bits.
func (k *tile) highBits(r, v int, h reg.VecPhysical) {
	if k.typ.Traits().Bits == 5 {
		k.load(k.row(r, k.super().High), h)
		switch {
		case v < 4:
			VPSLLW(U8(byte(4-v)), h, h)
		case v > 4:
			VPSRLW(U8(byte(v-4)), h, h)
		}
		return
	}
	k.load(k.row(r, k.super().High+32*(v%2)), h)
	switch v / 2 {
	case 0:
		VPSLLW(U8(4), h, h)
	case 1:
		VPSLLW(U8(2), h, h)
	case 3:
		VPSRLW(U8(2), h, h)
	}
}

// Truth tables of VPTERNLOG, with the index 4·dst + 2·src + last.
const (
	orAnd = 0xf8 // dst | src & last
)

// sixBitVNNI leaves scale·Σ of both halves, exact in 32 bits (64·127·16·128·2 < 2^26), in isum.
func (k *tile) sixBitVNNI(isum []reg.VecPhysical) {
	second := k.vecs(k.r * k.t)
	mask, high, x0, x1 := k.vec(), k.vec(), k.vec(), k.vec()
	lo, hi := k.vecs(k.r), k.vecs(k.r)
	k.load(constant("mask0f"), mask)
	k.load(constant("mask30"), high)
	for t := range k.t {
		for r := range k.r {
			k.load(k.act(t, layout.ActLo32), isum[r*k.t+t])
			k.load(k.act(t, layout.ActHi32), second[r*k.t+t])
		}
	}
	for v := range 4 {
		for r := range k.r {
			k.nibbles(r, v, lo[r], hi[r], mask)
			k.highBits(r, v, x0)
			VPTERNLOGD(U8(orAnd), high, x0, lo[r])
			k.highBits(r, v+4, x1)
			VPTERNLOGD(U8(orAnd), high, x1, hi[r])
		}
		for t := range k.t {
			k.load(k.act(t, 32*v), x0)
			k.load(k.act(t, 32*(v+4)), x1)
			for r := range k.r {
				VPDPBUSD(x0, lo[r], isum[r*k.t+t])
				VPDPBUSD(x1, hi[r], second[r*k.t+t])
			}
		}
	}
	for r := range k.r {
		VPMOVSXBW(k.row(r, 0), x0)
		VPSLLD(U8(16), x0, x1)
		VPSRAD(U8(16), x1, x1)
		VPSRAD(U8(16), x0, x0)
		for t := range k.t {
			i := r*k.t + t
			VPMULLD(x1, isum[i], isum[i])
			VPMULLD(x0, second[i], second[i])
			VPADDD(second[i], isum[i], isum[i])
		}
	}
}

// sixBitAVX2 leaves the same in isum. Two products of 63·127·2 fit 16 bits; VPMADDWD by the scale widens and scales at
// once.
func (k *tile) sixBitAVX2(isum []reg.VecPhysical) {
	w, w2, p, q, sc := k.vec(), k.vec(), k.vec(), k.vec(), k.vec()
	six := func(r, v int, w reg.VecPhysical) {
		k.load(k.row(r, k.super().Quants+32*(v%4)), w)
		if v >= 4 {
			VPSRLW(U8(4), w, w)
		}
		VPAND(constant("mask0f"), w, w)
		k.highBits(r, v, p)
		VPAND(constant("mask30"), p, p)
		VPOR(p, w, w)
	}
	for r := range k.r {
		for t := range k.t {
			if t == 0 {
				VPMOVSXBW(k.row(r, 0), sc)
			}
			acc := isum[r*k.t+t]
			VPMADDWD(k.act(t, layout.ActPairs), sc, acc)
			VPSLLD(U8(5), acc, acc)
		}
		// acc = 32·Σ; the sums are subtracted from it and its sign turned at the end.
		for v := 0; v < 8; v += 2 {
			six(r, v, w)
			six(r, v+1, w2)
			words := "lowWords"
			if v >= 4 {
				words = "highWords"
			}
			if v%4 == 0 {
				if v == 4 {
					VPMOVSXBW(k.row(r, 0), sc)
				}
				VPSHUFB(constant(words), sc, sc)
			}
			for t := range k.t {
				acc := isum[r*k.t+t]
				VPMADDUBSW(k.act(t, 32*v), w, p)
				VPMADDUBSW(k.act(t, 32*(v+1)), w2, q)
				VPADDW(q, p, p)
				VPMADDWD(sc, p, p)
				VPSUBD(p, acc, acc)
			}
		}
		zero := q
		VPXOR(zero, zero, zero)
		for t := range k.t {
			VPSUBD(isum[r*k.t+t], zero, isum[r*k.t+t])
		}
	}
}
