package main

import (
	"fmt"
	"strings"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/powerinfer-go/powerinfer/internal/compute/cpu/layout"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// A reading is the order of a stream's rows, and how they are prefetched.
type reading int

const (
	near      reading = iota // consecutive rows, which the hardware prefetches
	paged                    // the same in small pages; the next page is prefetched, because the hardware stops at the end of one
	far                      // consecutive rows, prefetched well before
	scattered                // rows chosen by index; the next ones are prefetched
)

// farAhead is the distance in bytes at which a far stream prefetches: further than the hardware's prefetchers, which
// end at a page. It is slower than they are as long as activations stay in the first-level cache, and faster by half
// where those come from the second.
const farAhead = 8 << 10

// lineMore is the number of bytes that rows in sequence are prefetched beyond each superblock: one line, which the next
// superblock's prefetches ask for again. Without it, superblocks of 106 and 114 bytes came from memory at half the speed
// on Zen 4, where all other sizes were as fast as with it.
const lineMore = 64

// pageAhead is a small page: one line a superblock has the processor look up the next page's address and begin to read
// there. Of mapped files that was 3 to 8 % faster; huge pages, which a file seldom has, would be 20 to 30 %.
const pageAhead = 4 << 10

// stream emits one token's products with many rows, one row after the other, so that memory is read strictly in
// sequence.
func stream(isa string, typ quant.Type, order reading) {
	k := &tile{isa: isa, typ: typ, r: 1, t: 1, unlifted: true}
	k.oneToken(map[reading]string{near: "stream", far: "far", scattered: "scatterOne"}[order], "", order, func(isum reg.VecPhysical) func() {
		if k.vnni() {
			return k.superblockZ(isum)
		}
		return func() { k.superblock([]reg.VecPhysical{isum}) }
	})
}

// oneToken emits the loop of a stream named name. prepare fills what the loop keeps in registers; what it returns adds
// a superblock.
func (k *tile) oneToken(name, where string, order reading, prepare func(isum reg.VecPhysical) func()) {
	signature, what := "func(out *float32, w *byte, rowBytes uintptr, x *byte, n uintptr, rows uintptr)", "consecutive rows"
	if order == scattered {
		signature, what = strings.Replace(signature, "x *byte", "index *int32, x *byte", 1), "rows chosen by index"
	}
	name += short(k.typ) + k.isa
	TEXT(name, NOSPLIT, signature)
	Doc(fmt.Sprintf("%s computes one token's products with %s of %s%s. Scalar twin: tileGeneric in matmul_generic.go.", name, what, k.typ, where))
	out, w, rowBytes := Load(Param("out"), GP64()), Load(Param("w"), GP64()), Load(Param("rowBytes"), GP64())
	x, n, rows := Load(Param("x"), GP64()), Load(Param("n"), GP64()), Load(Param("rows"), GP64())
	k.wp, k.xp, k.n = GP64(), GP64(), GP64()
	acc := k.vec()
	k.facc = []Op{acc}
	var index, ahead reg.Register
	if order == scattered {
		index, ahead = Load(Param("index"), GP64()), GP64()
	}
	isum := k.vec()
	body := prepare(isum)
	Label("row")
	if order == scattered {
		scatteredRow(k.wp, w, rowBytes, index, 0)
		MOVQ(k.wp, ahead)
		CMPQ(rows, U8(rowsAhead))
		JLE(LabelRef("last"))
		scatteredRow(ahead, w, rowBytes, index, 4*rowsAhead)
		Label("last")
	} else {
		MOVQ(w, k.wp)
		ADDQ(rowBytes, w)
	}
	MOVQ(x, k.xp)
	MOVQ(n, k.n)
	VXORPS(acc.AsX(), acc.AsX(), acc.AsX())
	k.supers(k.super().Bytes, func() {
		switch order {
		case scattered:
			k.fetch(ahead, k.super().Bytes)
		case paged:
			k.ask(Mem{Base: k.wp, Disp: pageAhead}, 1)
		case far:
			k.ask(Mem{Base: k.wp, Disp: farAhead}, k.super().Bytes+lineMore)
		}
		body()
	})
	horizontal([]reg.VecPhysical{acc}, isum.AsX())
	VMOVSS(isum.AsX(), Mem{Base: out})
	ADDQ(U8(4), out)
	if order == scattered {
		ADDQ(U8(4), index)
	}
	DECQ(rows)
	JNZ(LabelRef("row"))
	VZEROUPPER()
	RET()
}

// scatter emits one token's products with rows chosen by index, several at a time, and prefetches the next ones. A row
// of a few kilobytes ends before the hardware's prefetchers start, so the number of requests that a core has open
// limits the speed. Four rows at a time keep more of them open than one does: 3 to 20 % faster on Zen 4 (not in Q6_K in
// 256 bits), which then reads 15 to 20 GB/s of the 30 that rows in order give. Prefetching into the first-level cache,
// a longer distance, or only a row's first lines was slower.
func scatter(isa string, typ quant.Type) {
	k := &tile{isa: isa, typ: typ, r: scatterRows, t: 1}
	name := "scatter" + short(typ) + isa
	TEXT(name, NOSPLIT, "func(out *float32, w *byte, rowBytes uintptr, index *int32, x *byte, n uintptr, rows uintptr)")
	Doc(fmt.Sprintf("%s computes one token's products with %s rows chosen by index, %d at a time. Scalar twin: tileGeneric in matmul_generic.go.", name, typ, scatterRows))
	next := AllocLocal(8 * scatterRows)
	out, index := Load(Param("out"), GP64()), Load(Param("index"), GP64())
	rows := Load(Param("rows"), GP64())
	k.xp, k.n, k.off = GP64(), GP64(), GP64()
	k.picked = make([]reg.Register, scatterRows)
	for i := range k.picked {
		k.picked[i] = GP64()
	}
	ahead := GP64()
	acc, isum := k.vecs(scatterRows), k.vecs(scatterRows)
	for _, v := range acc {
		k.facc = append(k.facc, v)
	}
	Label("rows")
	base, rowBytes := Load(Param("w"), GP64()), Load(Param("rowBytes"), GP64())
	for i, r := range k.picked {
		scatteredRow(r, base, rowBytes, index, 4*i)
		MOVQ(r, next.Offset(8*i))
		k.zero(acc[i])
	}
	ADDQ(U8(4*scatterRows), index)
	CMPQ(rows, U8(scatterRows))
	JEQ(LabelRef("last"))
	for i := range k.picked {
		scatteredRow(ahead, base, rowBytes, index, 4*i)
		MOVQ(ahead, next.Offset(8*i))
	}
	Label("last")
	XORQ(k.off, k.off)
	Load(Param("x"), k.xp)
	Load(Param("n"), k.n)
	Label("super")
	for i := range k.picked {
		MOVQ(next.Offset(8*i), ahead)
		k.ask(Mem{Base: ahead, Index: k.off, Scale: 1}, k.super().Bytes)
	}
	k.superblock(isum)
	ADDQ(U32(uint32(k.super().Bytes)), k.off)
	ADDQ(U32(layout.ActBytes), k.xp)
	DECQ(k.n)
	JNZ(LabelRef("super"))
	horizontal(acc, isum[0].AsX())
	VMOVUPS(isum[0].AsX(), Mem{Base: out})
	ADDQ(U8(4*scatterRows), out)
	SUBQ(U8(scatterRows), rows)
	JNZ(LabelRef("rows"))
	VZEROUPPER()
	RET()
}

// scatterRows is the number of rows chosen by index that are computed at a time: the same as the tiles of one token.
const scatterRows = 4

// rowsAhead is the number of scattered rows by which prefetches run ahead: computing them takes longer than the
// memory's latency.
const rowsAhead = 4

// scatteredRow points dst at the row with the number that is stored disp bytes after index.
func scatteredRow(dst, w, rowBytes, index reg.Register, disp int) {
	MOVLQSX(Mem{Base: index, Disp: disp}, dst)
	IMULQ(rowBytes, dst)
	ADDQ(w, dst)
}

// fetch prefetches the bytes at ahead that one step of all rows takes.
func (k *tile) fetch(ahead reg.Register, bytes int) {
	k.ask(Mem{Base: ahead}, bytes)
	ADDQ(U32(uint32(bytes)), ahead)
}

// ask prefetches bytes at m into the second-level cache, which has room for more requests than the first, unless k is
// close. Past the weights' end the processor ignores it.
func (k *tile) ask(m Mem, bytes int) {
	prefetch := PREFETCHT1
	if k.close {
		prefetch = PREFETCHT0
	}
	for b := 0; b < bytes; b += 64 {
		prefetch(m.Offset(b))
	}
}

// fetchLines emits what asks for lines of memory before they are read.
func fetchLines() {
	TEXT("fetchLines", NOSPLIT, "func(p *byte, lines uintptr)")
	Doc("fetchLines brings so many lines of 64 bytes from p on into the second-level cache. It has no scalar twin, as it computes nothing.")
	p, lines := Load(Param("p"), GP64()), Load(Param("lines"), GP64())
	Label("line")
	PREFETCHT1(Mem{Base: p})
	ADDQ(U8(64), p)
	DECQ(lines)
	JNZ(LabelRef("line"))
	RET()
}

// superblockZ adds one superblock of one row and token with 512-bit vectors. Each holds two groups; their sums are
// added at the end.
func (k *tile) superblockZ(isum reg.VecPhysical) func() {
	if k.coded() {
		return k.codedZ(isum)
	}
	dw, s, m, lo, hi, mask := k.vec(), k.vec(), k.vec(), k.vec(), k.vec(), k.vec()
	finish := func() {
		VEXTRACTI64X4(U8(1), isum.AsZ(), lo)
		VPADDD(lo, isum, isum)
	}
	switch {
	case k.bytes():
		VMOVDQU32(constant("x80"), mask.AsZ())
		return func() {
			k.start(0, isum)
			for v := 0; v < 4; v++ {
				VPXORD(k.row(0, k.super().Quants+64*v), mask.AsZ(), lo.AsZ())
				VPDPBUSD(k.act(0, 64*v), lo.AsZ(), isum.AsZ())
			}
			finish()
			k.scales(0, dw, nil, s)
			k.accumulate(0, 0, isum, dw, nil, s)
		}
	case k.halfBlocks():
		return k.sixBitZ(isum, dw, s, m, lo, hi, mask)
	}
	VMOVDQU32(constant("mask0f"), mask.AsZ())
	var turn, fifth, h, w reg.VecPhysical // for types with five bits
	if k.above() != "" {
		turn, fifth, h, w = zmm(k.vec()), zmm(k.vec()), zmm(k.vec()), zmm(k.vec())
		VMOVDQU32(constant("turn5"), turn)
		VMOVDQU32(constant(k.above()), fifth)
	}
	var c *sixBitConstants
	if k.typ.Traits().Scales == quant.SixBits {
		c = sixBitMemory()
		for i := range c {
			v := k.vec().AsZ().(reg.VecPhysical)
			VMOVDQU32(c[i], v)
			c[i] = v
		}
	}
	return func() {
		k.start(0, isum)
		if h != nil {
			VBROADCASTI64X4(k.row(0, k.super().High), h)
			VPROLVD(turn, h, h)
		}
		for v := range 2 {
			VMOVDQU32(k.row(0, k.super().Quants+64*v), lo.AsZ())
			VPSRLW(U8(4), lo.AsZ(), hi.AsZ())
			VPANDD(mask.AsZ(), lo.AsZ(), lo.AsZ())
			VPANDD(mask.AsZ(), hi.AsZ(), hi.AsZ())
			if h != nil { // groups 2v and 2v+1, then those four further on
				VPTERNLOGD(U8(orAnd), fifth, h, lo.AsZ())
				VPRORD(U8(4), h, w)
				VPTERNLOGD(U8(orAnd), fifth, w, hi.AsZ())
				if v == 0 {
					VPRORD(U8(2), h, h)
				}
			}
			VPDPBUSD(k.act(0, 64*v), lo.AsZ(), isum.AsZ())
			VPDPBUSD(k.act(0, 128+64*v), hi.AsZ(), isum.AsZ())
		}
		finish()
		if c != nil {
			k.sixBitScalesZ(0, dw, m, s, c)
			k.accumulate(0, 0, isum, dw, m, s)
			return
		}
		if !k.minima() {
			m = nil
		}
		k.scales(0, dw, m, s)
		k.accumulate(0, 0, isum, dw, m, s)
	}
}

func (k *tile) sixBitZ(isum, dw, s, second, lo, hi, mask reg.VecPhysical) func() {
	high, h, h2 := k.vec(), k.vec(), k.vec()
	VMOVDQU32(constant("mask0f"), mask.AsZ())
	VMOVDQU32(constant("mask30"), high.AsZ())
	return func() {
		VMOVDQU32(k.act(0, layout.ActLo32), isum)
		VMOVDQU32(k.act(0, layout.ActHi32), second)
		VMOVDQU32(k.row(0, k.super().High), h.AsZ())
		for v := range 2 {
			VMOVDQU32(k.row(0, k.super().Quants+64*v), lo.AsZ())
			VPSRLW(U8(4), lo.AsZ(), hi.AsZ())
			VPANDD(mask.AsZ(), lo.AsZ(), lo.AsZ())
			VPANDD(mask.AsZ(), hi.AsZ(), hi.AsZ())
			VPSLLW(U8(byte(4-2*v)), h.AsZ(), h2.AsZ())
			VPTERNLOGD(U8(orAnd), high.AsZ(), h2.AsZ(), lo.AsZ())
			VPDPBUSD(k.act(0, 64*v), lo.AsZ(), isum.AsZ())
			if v == 0 {
				VPTERNLOGD(U8(orAnd), high.AsZ(), h.AsZ(), hi.AsZ())
			} else {
				VPSRLW(U8(2), h.AsZ(), h2.AsZ())
				VPTERNLOGD(U8(orAnd), high.AsZ(), h2.AsZ(), hi.AsZ())
			}
			VPDPBUSD(k.act(0, 128+64*v), hi.AsZ(), second.AsZ())
		}
		VEXTRACTI64X4(U8(1), isum.AsZ(), lo)
		VEXTRACTI64X4(U8(1), second.AsZ(), hi)
		VPADDD(lo, isum, isum)
		VPADDD(hi, second, second)
		VPMOVSXBW(k.row(0, 0), lo)
		VPSLLD(U8(16), lo, hi)
		VPSRAD(U8(16), hi, hi)
		VPSRAD(U8(16), lo, lo)
		VPMULLD(hi, isum, isum)
		VPMULLD(lo, second, second)
		VPADDD(second, isum, isum)
		k.scales(0, dw, nil, s)
		k.accumulate(0, 0, isum, dw, nil, s)
	}
}
