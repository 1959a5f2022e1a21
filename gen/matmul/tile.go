package main

import (
	"fmt"
	"slices"
	"strings"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/powerinfer-go/powerinfer/internal/compute/cpu/layout"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

type tile struct {
	isa  string // "AVX2", "AVXVNNI", "VNNI" or "BF16"
	typ  quant.Type
	name string // in the names of kernels, if it is not the type's
	r, t int
	next int // vector registers handed out
	most int // the kernel's share of vector registers, if others use the rest; otherwise 0

	out, outStride reg.Register
	outStride3     reg.Register // for wide panels
	wp             reg.Register // superblock of row 0
	rb, rb3        reg.Register // row stride and 3×
	xp, xs, xs3    reg.Register // activations of token 0, stride and 3×
	upper          reg.Register // activations of token 4, if there are more than four
	n              reg.Register
	acc, part      reg.Register
	facc           []Op            // [r*T+t], registers or stack
	least          reg.VecPhysical // NibbleMinima: the row's minima as words
	memory         bool            // accumulators stay in acc
	wide           bool            // vectors are 512-bit ones
	paired         bool            // rows are a panel's: every 32 bytes of a row, then the next row's 32 bytes
	near           bool            // the next rows are left to the hardware's prefetcher
	unlifted       bool            // quants have the offset of packed rows, not that of their form's panels
	parted         bool            // a kernel of one token may also be called for a part of the columns
	close          bool            // the next rows are prefetched into the first-level cache

	picked []reg.Register // addresses of rows chosen by index; nil: rows are rb apart
	off    reg.Register   // from those to the current superblock
}

var ymm = []reg.VecPhysical{
	reg.Y0, reg.Y1, reg.Y2, reg.Y3, reg.Y4, reg.Y5, reg.Y6, reg.Y7, reg.Y8, reg.Y9, reg.Y10, reg.Y11, reg.Y12, reg.Y13, reg.Y14, reg.Y15,
	reg.Y16, reg.Y17, reg.Y18, reg.Y19, reg.Y20, reg.Y21, reg.Y22, reg.Y23, reg.Y24, reg.Y25, reg.Y26, reg.Y27, reg.Y28, reg.Y29, reg.Y30, reg.Y31,
}

// partly reports whether a kernel may be called for a part of the columns.
func (k *tile) partly() bool { return k.t > 1 || k.parted }

// short returns the type as it stands in names of kernels.
func (k *tile) short() string {
	if k.name != "" {
		return k.name
	}
	return short(k.typ)
}

// what names the form of the rows.
func (k *tile) what() string {
	if layout.FormOf(k.typ) != layout.Own {
		return "expanded"
	}
	return k.typ.String()
}

// super holds the offsets of the parts of a packed superblock.
func (k *tile) super() layout.Super { return layout.Of(k.typ) }

// bytes reports whether quants are bytes with a sign.
func (k *tile) bytes() bool { return k.typ.Traits().Bits == 8 }

// halfBlocks reports whether the halves of a block have scales of their own.
func (k *tile) halfBlocks() bool { return k.typ.Traits().Scales == quant.HalfBlocks }

// smallFloats reports whether they have scales that are small floats.
func (k *tile) smallFloats() bool { return k.typ.Traits().Scales == quant.SmallFloats }

// minima reports whether products have a minimum subtracted.
func (k *tile) minima() bool { return k.typ.Traits().Scales.Minima() }

// vnni reports whether there are 32 registers and their EVEX forms.
func (k *tile) vnni() bool { return k.isa == "VNNI" || k.isa == "BF16" }

func (k *tile) vec() reg.VecPhysical {
	limit := 16
	if k.vnni() {
		limit = 32
	}
	if k.most > 0 {
		limit = k.most
	}
	if k.next == limit {
		panic(fmt.Sprintf("%s %s %dx%d needs more than %d vector registers", k.isa, k.typ, k.r, k.t, limit))
	}
	k.next++
	if k.wide {
		return ymm[k.next-1].AsZ().(reg.VecPhysical)
	}
	return ymm[k.next-1]
}

// vecBytes is the size of an accumulator.
func (k *tile) vecBytes() int {
	if k.wide {
		return 64
	}
	return 32
}

func (k *tile) vecs(n int) []reg.VecPhysical {
	v := make([]reg.VecPhysical, n)
	for i := range v {
		v[i] = k.vec()
	}
	return v
}

// EVEX forms have separate mnemonics for operations that are untyped in VEX.
func (k *tile) and(a, b, d Op) {
	if k.vnni() {
		VPANDD(a, b, d)
	} else {
		VPAND(a, b, d)
	}
}

func (k *tile) load(m, d Op) {
	if k.vnni() {
		VMOVDQU32(m, d)
	} else {
		VMOVDQU(m, d)
	}
}

func (k *tile) zero(d Op) {
	if k.vnni() {
		VPXORD(d, d, d)
	} else {
		VPXOR(d, d, d)
	}
}

// row addresses byte disp of the current superblock of weight row r.
func (k *tile) row(r, disp int) Mem {
	if k.picked != nil {
		return Mem{Base: k.picked[r], Index: k.off, Scale: 1, Disp: disp}
	}
	if k.paired {
		return strided(k.wp, k.rb, k.rb3, r/2, 2*disp+32*(r%2))
	}
	return strided(k.wp, k.rb, k.rb3, r, disp)
}

// act addresses byte disp of the current superblock of token t.
func (k *tile) act(t, disp int) Mem {
	if t >= 4 {
		return strided(k.upper, k.xs, k.xs3, t-4, disp)
	}
	return strided(k.xp, k.xs, k.xs3, t, disp)
}

// advance moves the activations on by that many bytes.
func (k *tile) advance(bytes int) {
	ADDQ(U32(uint32(bytes)), k.xp)
	if k.upper != nil {
		ADDQ(U32(uint32(bytes)), k.upper)
	}
}

func strided(p, s, s3 reg.Register, i, disp int) Mem {
	m := Mem{Base: p, Disp: disp}
	switch i {
	case 1:
		m.Index, m.Scale = s, 1
	case 2:
		m.Index, m.Scale = s, 2
	case 3:
		m.Index, m.Scale = s3, 1
	}
	return m
}

// prologue loads the parameters and the accumulators. Tiles of several tokens may be called for a part of the
// columns: acc keeps the accumulators between the parts.
func (k *tile) prologue(kind string) { k.prologueOf(kind, k.r) }

// prologueOf is prologue for a kernel of that many rows; its accumulators are for k.r rows.
func (k *tile) prologueOf(kind string, rows int) {
	k.parameters(kind, rows)
	k.accumulators(k.r * k.t)
}

// parameters loads the parameters of a kernel of that many rows.
func (k *tile) parameters(kind string, rows int) {
	name := fmt.Sprintf("%s%s%s%dx%d", kind, k.short(), k.isa, rows, k.t)
	signature := "func(out *float32, outStride uintptr, w *byte, rowBytes uintptr, x *byte, xStride uintptr, n uintptr)"
	if k.partly() {
		signature = strings.TrimSuffix(signature, ")") + ", acc *float32, part uintptr)"
	}
	TEXT(name, NOSPLIT, signature)
	Doc(fmt.Sprintf("%s computes out[t][r] of %d %s rows and %d tokens. Scalar twin: tileGeneric in matmul_generic.go.", name, rows, k.what(), k.t))
	k.out, k.outStride = Load(Param("out"), GP64()), Load(Param("outStride"), GP64())
	k.wp, k.rb = Load(Param("w"), GP64()), Load(Param("rowBytes"), GP64())
	k.xp, k.xs = Load(Param("x"), GP64()), Load(Param("xStride"), GP64())
	k.n = Load(Param("n"), GP64())
	if k.r > 3 {
		k.rb3 = GP64()
		LEAQ(Mem{Base: k.rb, Index: k.rb, Scale: 2}, k.rb3)
	}
	if k.t > 3 {
		k.xs3 = GP64()
		LEAQ(Mem{Base: k.xs, Index: k.xs, Scale: 2}, k.xs3)
	}
	if k.t > 4 {
		k.upper = GP64()
		LEAQ(Mem{Base: k.xp, Index: k.xs, Scale: 4}, k.upper)
	}
}

// accumulators loads that many vectors with zeros, or with acc's sums of earlier parts.
func (k *tile) accumulators(n int) {
	k.facc = make([]Op, n)
	for i := range k.facc {
		k.facc[i] = k.vec()
		k.zero(k.facc[i])
	}
	if !k.partly() {
		return
	}
	k.acc, k.part = Load(Param("acc"), GP64()), Load(Param("part"), GP64())
	TESTQ(U32(layout.FirstPart), k.part)
	if k.memory {
		z := k.facc[0]
		k.next -= len(k.facc)
		for i := range k.facc {
			k.facc[i] = Mem{Base: k.acc, Disp: k.vecBytes() * i}
		}
		JEQ(LabelRef("begin"))
		for _, m := range k.facc {
			VMOVUPS(z, m)
		}
	} else {
		JNE(LabelRef("begin"))
		for i, v := range k.facc {
			VMOVUPS(Mem{Base: k.acc, Disp: k.vecBytes() * i}, v)
		}
	}
	Label("begin")
}

// finish keeps the accumulators for the next part or sums them up.
func (k *tile) finish() {
	if k.partly() {
		k.keep()
	}
	if k.wide {
		k.fold()
	}
	k.epilogue()
}

// keep returns with the accumulators in acc unless the part is the last.
func (k *tile) keep() {
	TESTQ(U32(layout.LastPart), k.part)
	JNE(LabelRef("sum"))
	if !k.memory {
		for i, v := range k.facc {
			VMOVUPS(v, Mem{Base: k.acc, Disp: k.vecBytes() * i})
		}
	}
	VZEROUPPER()
	RET()
	Label("sum")
}

// emit writes the tile of a quantised type.
func (k *tile) emit() {
	k.memory = k.r*k.t > 8
	k.prologue("tile")
	isum := k.vecs(k.r * k.t)
	ahead := k.nextRows()
	k.supers(k.super().Bytes, func() {
		if ahead != nil {
			k.fetchRows(ahead, k.super().Bytes)
		}
		k.superblock(isum)
	})
	k.finish()
}

// fetchRows prefetches the bytes at ahead that a step takes: for one token in the order of memory, for several in the
// tile's order, because it may be called for a part of the columns.
func (k *tile) fetchRows(ahead reg.Register, bytes int) {
	if k.t == 1 {
		k.fetch(ahead, k.r*bytes)
		return
	}
	for r := range k.r {
		k.ask(strided(ahead, k.rb, k.rb3, r, 0), bytes)
	}
	ADDQ(U32(uint32(bytes)), ahead)
}

// nextRows points after a tile's rows: while the tile computes, it prefetches the next one's rows from there. For one
// token it does so in the order of memory. For several tokens it takes superblocks in the tile's order, because the
// tile may be called for a part of the columns: the first tile of tokens brings rows from memory; the others find them
// in a cache and lose little by prefetching.
func (k *tile) nextRows() reg.Register {
	if k.r == 1 || k.near || k.t > 1 && !k.vnni() {
		return nil
	}
	ahead := GP64()
	LEAQ(Mem{Base: k.wp, Index: k.rb, Scale: uint8(k.r &^ 1)}, ahead)
	if k.r%2 == 1 {
		ADDQ(k.rb, ahead)
	}
	return ahead
}

// supers walks n superblocks of the weights and the activations.
func (k *tile) supers(bytes int, body func()) {
	Label("super")
	body()
	ADDQ(U32(uint32(bytes)), k.wp)
	ADDQ(U32(layout.ActBytes), k.xp)
	DECQ(k.n)
	JNZ(LabelRef("super"))
}

// superblock adds one superblock to every accumulator.
func (k *tile) superblock(isum []reg.VecPhysical) {
	mark := k.next
	switch {
	case k.coded() && k.vnni():
		k.codedVNNI(isum)
	case k.coded():
		k.codedAVX2(isum)
	case k.bytes() && k.vnni():
		k.eightBitVNNI(isum)
	case k.bytes():
		k.eightBitAVX2(isum)
	case k.halfBlocks() && k.vnni():
		k.sixBitVNNI(isum)
	case k.halfBlocks():
		k.sixBitAVX2(isum)
	case k.vnni():
		k.fourBitVNNI(isum)
	case k.above() != "":
		k.fiveBitAVX2(isum)
	default:
		k.fourBitAVX2(isum)
	}
	k.next = mark
	dw, s, m := k.vec(), k.vec(), reg.VecPhysical(nil)
	if k.minima() {
		m = k.vec()
	}
	if k.nibbleMinima() {
		k.least = k.vec()
	}
	for r := range k.r {
		if k.nibbleMinima() {
			k.halfMinima(r, k.least)
		}
		k.scales(r, dw, m, s)
		for t := range k.t {
			k.accumulate(r, t, isum[r*k.t+t], dw, m, s)
		}
	}
	k.next = mark
}

// scales leaves the scales of row r's blocks in dw, and the minima, if there are any, in m.
func (k *tile) scales(r int, dw, m, tmp reg.VecPhysical) {
	switch k.typ.Traits().Scales {
	case quant.BlockMin:
		VCVTPH2PS(k.row(r, 0), dw)
		VCVTPH2PS(k.row(r, layout.Minima), m)
	case quant.SixBits:
		k.sixBitScales(r, dw, m, tmp)
	case quant.HalfBlocks, quant.ByteBlocks, quant.SuperScale:
		k.unit(r, k.super().Unit, dw)
	case quant.NibbleMinima:
		k.unit(r, k.super().Unit, dw)
		k.unit(r, k.super().Unit+2, m)
	case quant.Exponents:
		VPMOVZXBD(k.row(r, 0), dw)
		VPSLLD(U8(23), dw, dw)
		VPMAXUD(constant("leastExponent"), dw, dw)
	default:
		VCVTPH2PS(k.row(r, 0), dw)
	}
	if n := k.typ.Traits().Halvings; n > 0 {
		VMULPS(constant(fmt.Sprintf("halved%d", n)), dw, dw)
	}
	if k.typ.Traits().Scales == quant.ByteBlocks {
		VPMOVSXBD(k.row(r, 0), tmp)
		VCVTDQ2PS(tmp, tmp)
		VMULPS(tmp, dw, dw)
	}
}

// unit leaves the binary16 number at byte at of row r's superblock in every lane of dst.
func (k *tile) unit(r, at int, dst reg.VecPhysical) {
	VPBROADCASTW(k.row(r, at), dst.AsX())
	VCVTPH2PS(dst.AsX(), dst)
}

// accumulate adds isum·dw·dx, and of types with minima those times Σx, to the float accumulator of (r, t). It
// overwrites isum and s.
func (k *tile) accumulate(r, t int, isum, dw, m, s reg.VecPhysical) {
	VCVTDQ2PS(isum, isum)
	acc := k.facc[r*k.t+t]
	if k.nibbleMinima() {
		k.accumulateHalves(t, isum, dw, m, s, acc)
		return
	}
	VMULPS(k.act(t, layout.ActScale), dw, s)
	if !k.memory {
		VFMADD231PS(isum, s, acc)
		if m != nil {
			k.minimum(t, m, acc)
		}
		return
	}
	VFMADD213PS(acc, isum, s) // s = s·isum + acc
	if m != nil {
		k.minimum(t, m, s)
	}
	VMOVUPS(s, acc)
}

// accumulateHalves adds to acc what isum·dw exceeds the minima of halves times their activations' sums by, times the
// activations' scale.
func (k *tile) accumulateHalves(t int, isum, dw, m, s reg.VecPhysical, acc Op) {
	VPMADDWD(k.act(t, layout.ActPairs), k.least, s)
	VCVTDQ2PS(s, s)
	VMULPS(m, s, s)
	VFMSUB213PS(s, dw, isum) // isum = dw·isum − s
	if !k.memory {
		VFMADD231PS(k.act(t, layout.ActScale), isum, acc)
		return
	}
	VMOVUPS(k.act(t, layout.ActScale), s)
	VFMADD213PS(acc, s, isum) // isum = s·isum + acc
	VMOVUPS(isum, acc)
}

// minimum subtracts m·Σx of token t from sum; BlockMin's it adds.
func (k *tile) minimum(t int, m, sum Op) {
	if k.typ.Traits().Scales == quant.BlockMin {
		VFMADD231PS(k.act(t, layout.ActDSum), m, sum)
		return
	}
	VFNMADD231PS(k.act(t, layout.ActDSum), m, sum)
}

// epilogue sums lanes as ((0+1)+(2+3))+((4+5)+(6+7)) and stores the tile. Everything but the accumulators is dead
// here; the horizontal adds exist in VEX form only, so they work in registers below 16.
func (k *tile) epilogue() {
	var free []reg.VecPhysical
	for _, y := range ymm[:16] {
		if !slices.ContainsFunc(k.facc, func(o Op) bool { return o == Op(y) }) {
			free = append(free, y)
		}
	}
	for t := range k.t {
		a := free[:k.r]
		for r := range a {
			VMOVUPS(k.facc[r*k.t+t], a[r])
		}
		sum := free[k.r].AsX()
		horizontal(a, sum)
		switch k.r {
		case 4:
			VMOVUPS(sum, Mem{Base: k.out})
		case 3:
			VMOVQ(sum, Mem{Base: k.out})
			VEXTRACTPS(U8(2), sum, Mem{Base: k.out, Disp: 8})
		case 2:
			VMOVQ(sum, Mem{Base: k.out})
		default:
			VMOVSS(sum, Mem{Base: k.out})
		}
		if t+1 < k.t {
			ADDQ(k.outStride, k.out)
		}
	}
	VZEROUPPER()
	RET()
}

// horizontal leaves the lane sums of one to four vectors in the lanes of sum.
func horizontal(a []reg.VecPhysical, sum reg.Register) {
	switch len(a) {
	case 4:
		VHADDPS(a[1], a[0], a[0])
		VHADDPS(a[3], a[2], a[2])
		VHADDPS(a[2], a[0], a[0])
	case 3:
		VHADDPS(a[1], a[0], a[0])
		VHADDPS(a[2], a[2], a[2])
		VHADDPS(a[2], a[0], a[0])
	case 2:
		VHADDPS(a[1], a[0], a[0])
		VHADDPS(a[0], a[0], a[0])
	default:
		VHADDPS(a[0], a[0], a[0])
		VHADDPS(a[0], a[0], a[0])
	}
	VEXTRACTF128(U8(1), a[0], sum)
	VADDPS(sum, a[0].AsX(), sum)
}
