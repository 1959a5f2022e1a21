// Command axpy writes internal/compute/cpu/kernel/axpy_amd64.s: sums of weighted rows, for the down projection of
// active neurons. The scalar twins are in axpy.go.
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

const batch = 16 // rows of one call at most: eight pairs of 15·127·2 fit 16 bits

// Layout of the local memory, which stays below the 800 bytes of functions that do not grow their stack.
const (
	localPair  = 0                        // for rows: [batch/2][2][32]byte coefficients of pairs, for low and high unpacking
	localStart = localPair + batch/2*2*32 // [2][32]byte the sums' starting values
	localScale = localStart + 2*32        // [2][2][8]f32 block scales in the sums' order
	localBytes = localScale + 2*2*32
	groupStart = batch / 2 * 32 // for groups: after [batch/2][32]byte
	groupLocal = groupStart + 2*32
	scaleBytes = 512  // f16 scales of a group's superblock
	sumBytes   = 1024 // floats of a superblock
)

var constants = map[string]Mem{}

func define(name string, v ...uint32) {
	m := GLOBL(name, RODATA|NOPTR)
	for i := 0; i < 8; i += 2 {
		DATA(4*i, U64(uint64(v[i%len(v)])|uint64(v[(i+1)%len(v)])<<32))
	}
	constants[name] = m
}

// adder emits one kernel. In vectors of pairs, bytes of rows a and b alternate; dword j of a vector of weights belongs
// to block j, so low unpacking gives blocks 0, 1, 4, 5 and high unpacking 2, 3, 6, 7.
type adder struct {
	typ   quant.Type
	group bool // neurons of a group share scales that are stored apart; otherwise every row has its own

	sum, rows, next, n reg.Register
	off                reg.Register // into rows
	coef, pairs        reg.Register
	scales, scale      reg.Register // for groups
	soon               reg.Register // bytes from scales to the next group's
	local              Mem
}

func (k *adder) quantBytes() int {
	at := layout.Of(k.typ)
	return at.Bytes - at.Quants
}

// header is the offset of a superblock's quants.
func (k *adder) header() int {
	if k.group {
		return 0
	}
	return layout.Of(k.typ).Quants
}

func (k *adder) at(disp int) Mem { return k.local.Offset(disp) }

func (k *adder) emit() {
	short := strings.ReplaceAll(k.typ.String(), "_", "")
	if k.group {
		TEXT("addGroup"+short, NOSPLIT, "func(sum *float32, rows *[16]*byte, coef *[16]int8, pairs uintptr, n uintptr, next *[16]*byte, scales *byte, scale float32, soon *byte)")
		Doc(fmt.Sprintf("addGroup%s adds pairs of weighted %s rows of one group to sum. Scalar twin: addGroupGeneric in axpy.go.", short, k.typ))
	} else {
		TEXT("addRows"+short, NOSPLIT, "func(sum *float32, rows *[16]*byte, coef *[16]float32, pairs uintptr, n uintptr, next *[16]*byte)")
		Doc(fmt.Sprintf("addRows%s adds pairs of weighted rows of %s to sum. Scalar twin: addRowsGeneric in axpy.go.", short, k.typ))
	}
	k.sum, k.rows, k.next = Load(Param("sum"), GP64()), Load(Param("rows"), GP64()), Load(Param("next"), GP64())
	k.coef, k.pairs, k.n = Load(Param("coef"), GP64()), Load(Param("pairs"), GP64()), Load(Param("n"), GP64())
	k.off = GP64()
	XORQ(k.off, k.off)
	if k.group {
		k.local = AllocLocal(groupLocal)
		k.scales, k.soon = Load(Param("scales"), GP64()), Load(Param("soon"), GP64())
		SUBQ(k.scales, k.soon)
		k.groupPairs()
	} else {
		k.local = AllocLocal(localBytes)
	}
	Label("super")
	k.prefetch()
	if !k.group {
		k.products()
		k.rowPairs()
	}
	per := 2 // vectors of weights in a pass
	for v := 0; v < k.quantBytes()/32; v += per {
		k.pass(v, per)
	}
	ADDQ(U32(uint32(k.header()+k.quantBytes())), k.off)
	ADDQ(U32(sumBytes), k.sum)
	if k.group {
		ADDQ(U32(scaleBytes), k.scales)
	}
	DECQ(k.n)
	JNZ(LabelRef("super"))
	VZEROUPPER()
	RET()
}

// prefetch asks for the same superblock of the rows of the next call, and of its group's scales.
func (k *adder) prefetch() {
	if k.group {
		for b := 0; b < scaleBytes; b += 64 {
			PREFETCHT1(Mem{Base: k.scales, Index: k.soon, Scale: 1, Disp: b})
		}
	}
	left, p, q := GP64(), GP64(), GP64()
	MOVQ(k.pairs, left)
	MOVQ(k.next, p)
	Label("fetch")
	for r := range 2 {
		MOVQ(Mem{Base: p, Disp: 8 * r}, q)
		for b := 0; b < k.header()+k.quantBytes(); b += 64 {
			PREFETCHT1(Mem{Base: q, Index: k.off, Scale: 1, Disp: b})
		}
	}
	ADDQ(U8(16), p)
	DECQ(left)
	JNZ(LabelRef("fetch"))
}

// product leaves in v the coefficient times the block scale of row r after p.
func (k *adder) product(p, c reg.Register, r int, v, tmp reg.VecPhysical) {
	q := GP64()
	MOVQ(Mem{Base: p, Disp: 8 * r}, q)
	VCVTPH2PS(Mem{Base: q, Index: k.off, Scale: 1}, v)
	VBROADCASTSS(Mem{Base: c, Disp: 4 * r}, tmp)
	VMULPS(v, tmp, v)
}

// products stores the scales with which a block's largest product becomes 127, and leaves their inverse in Y1. Blocks
// with a largest product below 2^-100 add nothing.
func (k *adder) products() {
	left, p, c := GP64(), GP64(), GP64()
	most, v, w := reg.Y0, reg.Y2, reg.Y3
	MOVQ(k.pairs, left)
	MOVQ(k.rows, p)
	MOVQ(k.coef, c)
	VPXOR(most, most, most)
	VMOVUPS(constants["absolute"], reg.Y4)
	Label("product")
	for r := range 2 {
		k.product(p, c, r, v, w)
		VANDPS(reg.Y4, v, v)
		VMAXPS(v, most, most)
	}
	ADDQ(U8(16), p)
	ADDQ(U8(8), c)
	DECQ(left)
	JNZ(LabelRef("product"))
	VCMPPS(U8(0x1d), constants["least"], most, v) // ≥
	VMOVUPS(constants["f127"], reg.Y1)
	VDIVPS(most, reg.Y1, reg.Y1)
	VANDPS(v, reg.Y1, reg.Y1)
	VMULPS(constants["inverse127"], most, most)
	VANDPS(v, most, most)
	for u := range 2 {
		for lane := range 2 {
			VMOVDQU(constants[fmt.Sprintf("blocks%d%d", u, lane)], v)
			VPERMPS(most, v, w)
			VMOVUPS(w, k.at(localScale+64*u+32*lane))
		}
	}
}

// rowPairs leaves the coefficients as bytes (a, b, a, b…) for both unpackings, and where sums start: −8·Σ.
func (k *adder) rowPairs() {
	left, p, c, at := GP64(), GP64(), GP64(), GP64()
	total, mask, a, b, d := reg.Y0, reg.Y4, reg.Y2, reg.Y3, reg.Y5
	MOVQ(k.pairs, left)
	MOVQ(k.rows, p)
	MOVQ(k.coef, c)
	LEAQ(k.at(localPair), at)
	VPXOR(total, total, total)
	VMOVDQU(constants["lowByte"], mask)
	Label("pair")
	for r, v := range []reg.VecPhysical{a, b} {
		k.product(p, c, r, v, d)
		VMULPS(v, reg.Y1, v)
		VCVTPS2DQ(v, v)
		VPADDD(v, total, total)
		VPAND(mask, v, v)
	}
	VPSLLD(U8(8), b, b)
	VPOR(b, a, a)
	VPSLLD(U8(16), a, d)
	VPOR(d, a, a)
	k.unpackings(a, d, Mem{Base: at})
	ADDQ(U8(16), p)
	ADDQ(U8(8), c)
	ADDQ(U8(64), at)
	DECQ(left)
	JNZ(LabelRef("pair"))
	VPSLLD(U8(3), total, total)
	VPXOR(a, a, a)
	VPSUBD(total, a, total)
	VPSLLD(U8(16), total, d)
	VPSRLD(U8(16), d, a)
	VPOR(a, d, a)
	k.unpackings(a, d, k.at(localStart))
}

// unpackings stores every dword of v twice, as low and as high unpacking order the blocks.
func (k *adder) unpackings(v, tmp reg.VecPhysical, m Mem) {
	VPUNPCKLDQ(v, v, tmp)
	VMOVDQU(tmp, m)
	VPUNPCKHDQ(v, v, tmp)
	VMOVDQU(tmp, m.Offset(32))
}

// groupPairs does the same for a group, which has coefficients in bytes already.
func (k *adder) groupPairs() {
	left, p, at, w, total, b := GP64(), GP64(), GP64(), GP64(), GP64(), GP64()
	MOVQ(k.pairs, left)
	MOVQ(k.coef, p)
	LEAQ(k.at(0), at)
	XORQ(total, total)
	Label("pair")
	MOVWLZX(Mem{Base: p}, w.As32())
	VMOVD(w.As32(), reg.X0)
	VPBROADCASTW(reg.X0, reg.Y0)
	VMOVDQU(reg.Y0, Mem{Base: at})
	for r := range 2 {
		MOVBQSX(Mem{Base: p, Disp: r}, b)
		ADDQ(b, total)
	}
	ADDQ(U8(2), p)
	ADDQ(U8(32), at)
	DECQ(left)
	JNZ(LabelRef("pair"))
	SHLQ(U8(3), total)
	NEGQ(total)
	VMOVD(total.As32(), reg.X0)
	VPBROADCASTW(reg.X0, reg.Y0)
	VMOVDQU(reg.Y0, k.at(groupStart))
	VMOVDQU(reg.Y0, k.at(groupStart+32))
}

// start returns the memory that holds the initial sums of unpacking u.
func (k *adder) start(u int) Mem {
	if k.group {
		return k.at(groupStart + 32*u)
	}
	return k.at(localStart + 32*u)
}

// pass adds vectors v to v+per of all rows' weights.
func (k *adder) pass(v, per int) {
	eight := k.typ.Traits().Bits == 8
	acc := []reg.VecPhysical{reg.Y8, reg.Y9, reg.Y10, reg.Y11, reg.Y12, reg.Y13, reg.Y14, reg.Y15} // [vector][nibble][unpacking]
	mask, flip := reg.Y7, reg.Y6
	a, b, x, y, t := reg.Y0, reg.Y1, reg.Y2, reg.Y3, reg.Y4
	for i, s := range acc {
		if nibble := i / 2 % 2; eight && nibble == 0 {
			VPXOR(s, s, s)
		} else {
			VMOVDQU(k.start(i%2), s)
		}
	}
	VMOVDQU(constants["lowNibble"], mask)
	if eight {
		VMOVDQU(constants["sign"], flip)
	}
	left, p, at, ra, rb := GP64(), GP64(), GP64(), GP64(), GP64()
	MOVQ(k.pairs, left)
	MOVQ(k.rows, p)
	if k.group {
		LEAQ(k.at(0), at)
	} else {
		LEAQ(k.at(localPair), at)
	}
	loop := fmt.Sprintf("pass%d", v)
	Label(loop)
	MOVQ(Mem{Base: p}, ra)
	MOVQ(Mem{Base: p, Disp: 8}, rb)
	for i := range per {
		disp := k.header() + 32*(v+i)
		VMOVDQU(Mem{Base: ra, Index: k.off, Scale: 1, Disp: disp}, a)
		VMOVDQU(Mem{Base: rb, Index: k.off, Scale: 1, Disp: disp}, b)
		if eight {
			VPXOR(flip, a, a)
			VPXOR(flip, b, b)
		}
		for nibble := range 2 {
			if nibble == 1 {
				VPSRLW(U8(4), a, a)
				VPSRLW(U8(4), b, b)
			}
			VPAND(mask, a, x)
			VPAND(mask, b, y)
			for u := range 2 {
				if u == 0 {
					VPUNPCKLBW(y, x, t)
				} else {
					VPUNPCKHBW(y, x, t)
				}
				coef := Mem{Base: at}
				if !k.group {
					coef.Disp = 32 * u
				}
				VPMADDUBSW(coef, t, t)
				s := acc[4*i+2*nibble+u]
				VPADDW(t, s, s)
			}
		}
	}
	ADDQ(U8(16), p)
	if k.group {
		ADDQ(U8(32), at)
	} else {
		ADDQ(U8(64), at)
	}
	DECQ(left)
	JNZ(LabelRef(loop))
	if k.group {
		VBROADCASTSS(NewParamAddr("scale", 56), reg.Y7)
	}
	for i := range per {
		for u := range 2 {
			for lane := range 2 {
				if eight {
					k.widen(acc[4*i+2+u], lane, a)
					VPSLLD(U8(4), a, a)
					k.widen(acc[4*i+u], lane, b)
					VPADDD(b, a, a)
					k.flush(a, x, 2*(v+i)+u, u, lane)
					continue
				}
				for nibble := range 2 {
					k.widen(acc[4*i+2*nibble+u], lane, a)
					k.flush(a, x, 2*(v+i+4*nibble)+u, u, lane)
				}
			}
		}
	}
}

// widen leaves eight words of s as dwords.
func (k *adder) widen(s reg.VecPhysical, lane int, dst reg.VecPhysical) {
	if lane == 0 {
		VPMOVSXWD(s.AsX(), dst)
		return
	}
	VEXTRACTI128(U8(1), s, dst.AsX())
	VPMOVSXWD(dst.AsX(), dst)
}

// flush adds eight scaled integers to place p of the sum.
func (k *adder) flush(v, tmp reg.VecPhysical, p, u, lane int) {
	at := Mem{Base: k.sum, Disp: 64*p + 32*lane}
	VCVTDQ2PS(v, v)
	if k.group {
		VCVTPH2PS(Mem{Base: k.scales, Disp: 32*p + 16*lane}, tmp)
		VMULPS(tmp, reg.Y7, tmp)
	} else {
		VMOVUPS(k.at(localScale+64*u+32*lane), tmp)
	}
	VFMADD213PS(at, tmp, v)
	VMOVUPS(v, at)
}

// floats emits the sum of four rows of a float type over n groups of 32 elements.
func floats(typ string) {
	TEXT("addRows"+typ, NOSPLIT, "func(sum *float32, rows *[4]*byte, coef *[4]float32, n uintptr, next *[4]*byte)")
	Doc(fmt.Sprintf("addRows%s adds four weighted rows of %s to sum. Scalar twin: addFloatsGeneric in axpy.go.", typ, typ))
	sum, n := Load(Param("sum"), GP64()), Load(Param("n"), GP64())
	p, c, next := Load(Param("rows"), GP64()), Load(Param("coef"), GP64()), Load(Param("next"), GP64())
	size := 2
	if typ == "F32" {
		size = 4
	}
	var row, ahead []reg.Register
	var coef []reg.VecVirtual
	for r := range 4 {
		at, to, v := GP64(), GP64(), YMM()
		MOVQ(Mem{Base: p, Disp: 8 * r}, at)
		MOVQ(Mem{Base: next, Disp: 8 * r}, to)
		SUBQ(at, to)
		VBROADCASTSS(Mem{Base: c, Disp: 4 * r}, v)
		row, ahead, coef = append(row, at), append(ahead, to), append(coef, v)
	}
	acc, w := YMM(), YMM()
	Label("loop")
	for r := range row {
		for b := 0; b < 32*size; b += 64 {
			PREFETCHT1(Mem{Base: row[r], Index: ahead[r], Scale: 1, Disp: b})
		}
	}
	for i := range 4 {
		at := Mem{Base: sum, Disp: 32 * i}
		VMOVUPS(at, acc)
		for r, p := range row {
			m := Mem{Base: p, Disp: 8 * size * i}
			switch typ {
			case "F32":
				VFMADD231PS(m, coef[r], acc)
				continue
			case "F16":
				VCVTPH2PS(m, w)
			case "BF16":
				VPMOVZXWD(m, w)
				VPSLLD(U8(16), w, w)
			}
			VFMADD231PS(w, coef[r], acc)
		}
		VMOVUPS(acc, at)
	}
	for _, r := range row {
		ADDQ(U32(uint32(32*size)), r)
	}
	ADDQ(U32(128), sum)
	DECQ(n)
	JNZ(LabelRef("loop"))
	VZEROUPPER()
	RET()
}

// choose emits the list of the places where x is not at most, or at least, a bound.
func choose(name, what string, predicate uint8) {
	TEXT(name, NOSPLIT, "func(dst *int32, x *float32, n uintptr, bound float32) uintptr")
	Doc(fmt.Sprintf("%s writes the places of n groups of eight floats that are %s bound. Scalar twin: chooseGeneric in choose.go.", name, what))
	dst, x, n := Load(Param("dst"), GP64()), Load(Param("x"), GP64()), Load(Param("n"), GP64())
	bound, v, at, eight := YMM(), YMM(), YMM(), YMM()
	VBROADCASTSS(NewParamAddr("bound", 24), bound)
	VMOVDQU(constants["places"], at)
	VMOVDQU(constants["eights"], eight)
	table, mask, count := GP64(), GP64(), GP64()
	LEAQ(constants["compress"], table)
	Label("loop")
	VMOVUPS(Mem{Base: x}, v)
	VCMPPS(U8(predicate), bound, v, v)
	VMOVMSKPS(v, mask.As32())
	VPMOVZXBD(Mem{Base: table, Index: mask, Scale: 8}, v)
	VPERMD(at, v, v)
	VMOVDQU(v, Mem{Base: dst})
	POPCNTQ(mask, count)
	LEAQ(Mem{Base: dst, Index: count, Scale: 4}, dst)
	VPADDD(eight, at, at)
	ADDQ(U8(32), x)
	DECQ(n)
	JNZ(LabelRef("loop"))
	start := Load(Param("dst"), GP64())
	SUBQ(start, dst)
	SHRQ(U8(2), dst)
	Store(dst, ReturnIndex(0))
	VZEROUPPER()
	RET()
}

func defineConstants() {
	define("absolute", 0x7fffffff)
	define("least", 0x0d800000) // 2^-100
	define("f127", 0x42fe0000)
	define("inverse127", 0x3c010204)
	define("lowByte", 0xff)
	define("lowNibble", 0x0f0f0f0f)
	define("sign", 0x80808080)
	define("one", 1)
	define("half", 0x7fff)
	define("high", 0xffff0000)
	define("places", 0, 1, 2, 3, 4, 5, 6, 7)
	define("eights", 8)
	for u := range uint32(2) {
		for lane := range uint32(2) {
			b := 4*lane + 2*u
			define(fmt.Sprintf("blocks%d%d", u, lane), b, b, b, b, b+1, b+1, b+1, b+1)
		}
	}
	constants["compress"] = GLOBL("compress", RODATA|NOPTR)
	for m := range 256 {
		places, n := uint64(0), 0
		for bit := range 8 {
			if m>>bit&1 == 1 {
				places |= uint64(bit) << (8 * n)
				n++
			}
		}
		DATA(8*m, U64(places))
	}
}

func main() {
	defineConstants()
	defineLanes()
	for _, typ := range quant.Types() {
		if !typ.Traits().Columns {
			continue
		}
		for _, group := range []bool{false, true} {
			(&adder{typ: typ, group: group}).emit()
		}
		(&quads{typ: typ}).emit()
	}
	for _, typ := range []string{"F32", "F16", "BF16"} {
		floats(typ)
	}
	turn("Q80")
	turn("BF16")
	choose("chooseAbove", "not at most", 0x16)
	choose("chooseAtLeast", "at least", 0x1d)
	Generate()
}
