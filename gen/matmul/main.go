// Command matmul writes the tiles of matrix products: internal/compute/cpu/kernel/matmul_amd64.s and its stubs.
//
// A tile computes out[t][r] for R weight rows and T activation rows over all superblocks. Layouts are those of
// package kernel (pack.go, acts.go); the scalar twin of every tile is dotGeneric in matmul_generic.go.
package main

import (
	"fmt"
	"slices"
	"strings"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Offsets into an activation superblock; kernel/acts.go holds the same.
const (
	actBytes = 448
	offScale = 256 // 8 × f32
	offDSum  = 288 // 8 × f32 scale·Σ
	offNeg8  = 320 // 8 × i32 -8·Σ
	offLo32  = 352 // 8 × i32 -32·Σ of the first halves
	offHi32  = 384 // 8 × i32 -32·Σ of the second halves
	offN128  = 416 // 8 × i32 -128·Σ
)

// Offsets into a weight superblock; kernel/pack.go holds the same.
const (
	offQuants = 16  // behind the header
	offHigh   = 144 // Q6_K's high bits
	offSuper  = 208 // Q6_K's d
)

type tile struct {
	isa  string // "AVX2" or "VNNI"
	typ  string
	r, t int
	next int // vector registers handed out

	out, outStride            reg.Register
	hp                        reg.Register // superblock of row 0
	rb, rb3                   reg.Register // row stride and 3×
	xp, xs, xs3               reg.Register // activations of token 0, stride and 3×
	n                         reg.Register
	facc                      []Op // [r*T+t], registers or stack
	inMemory                  bool
	ones, mask0f, mask30, x80 reg.VecPhysical
}

var ymm = []reg.VecPhysical{
	reg.Y0, reg.Y1, reg.Y2, reg.Y3, reg.Y4, reg.Y5, reg.Y6, reg.Y7, reg.Y8, reg.Y9, reg.Y10, reg.Y11, reg.Y12, reg.Y13, reg.Y14, reg.Y15,
	reg.Y16, reg.Y17, reg.Y18, reg.Y19, reg.Y20, reg.Y21, reg.Y22, reg.Y23, reg.Y24, reg.Y25, reg.Y26, reg.Y27, reg.Y28, reg.Y29, reg.Y30, reg.Y31,
}

var zmm = []reg.VecPhysical{
	reg.Z0, reg.Z1, reg.Z2, reg.Z3, reg.Z4, reg.Z5, reg.Z6, reg.Z7, reg.Z8, reg.Z9, reg.Z10, reg.Z11, reg.Z12, reg.Z13, reg.Z14, reg.Z15,
	reg.Z16, reg.Z17, reg.Z18, reg.Z19, reg.Z20, reg.Z21, reg.Z22, reg.Z23, reg.Z24, reg.Z25, reg.Z26, reg.Z27, reg.Z28, reg.Z29, reg.Z30, reg.Z31,
}

func (k *tile) vnni() bool { return k.isa == "VNNI" }

func (k *tile) vec() reg.VecPhysical {
	limit := 16
	if k.vnni() {
		limit = 32
	}
	if k.next == limit {
		panic(fmt.Sprintf("%s %s %dx%d needs more than %d vector registers", k.isa, k.typ, k.r, k.t, limit))
	}
	k.next++
	return ymm[k.next-1]
}

// EVEX forms have their own mnemonics for what is untyped in VEX.
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

// row addresses byte disp behind pointer p of weight row r.
func (k *tile) row(p reg.Register, r, disp int) Mem { return strided(p, k.rb, k.rb3, r, disp) }

// act addresses byte disp of the current superblock of token t.
func (k *tile) act(t, disp int) Mem { return strided(k.xp, k.xs, k.xs3, t, disp) }

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

func (k *tile) prologue(float bool) {
	name := fmt.Sprintf("tile%s%s%dx%d", strings.ReplaceAll(k.typ, "_", ""), k.isa, k.r, k.t)
	TEXT(name, NOSPLIT, "func(out *float32, outStride uintptr, w *byte, rowBytes uintptr, x *byte, xStride uintptr, n uintptr)")
	Doc(fmt.Sprintf("%s computes out[t][r] of %d %s rows and %d tokens. Scalar twin: tileGeneric in matmul_generic.go.", name, k.r, k.typ, k.t))
	if k.r*k.t > 8 && !float {
		k.inMemory = true
	}
	var frame Mem
	if k.inMemory {
		frame = AllocLocal(k.r * k.t * 32)
	}
	k.out, k.outStride = Load(Param("out"), GP64()), Load(Param("outStride"), GP64())
	k.hp, k.rb = Load(Param("w"), GP64()), Load(Param("rowBytes"), GP64())
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
	k.facc = make([]Op, k.r*k.t)
	for i := range k.facc {
		if k.inMemory {
			k.facc[i] = frame.Offset(i * 32)
		} else {
			k.facc[i] = k.vec()
			k.zero(k.facc[i])
		}
	}
	if k.inMemory {
		z := ymm[k.next]
		k.zero(z)
		for _, m := range k.facc {
			VMOVUPS(z, m)
		}
	}
}

var constants = map[string]Mem{}

func constant(name string) Mem {
	if m, ok := constants[name]; ok {
		return m
	}
	panic("constant " + name)
}

func define(name string, b []byte) {
	constants[name] = GLOBL(name, RODATA|NOPTR)
	for i, v := range b {
		DATA(i, U8(v))
	}
}

func repeat(b ...byte) []byte {
	out := make([]byte, 0, 32)
	for len(out) < 32 {
		out = append(out, b...)
	}
	return out
}

// accumulate adds isum·dw·dx to the float accumulator of (r, t). It overwrites isum and s.
func (k *tile) accumulate(r, t int, isum, dw, s reg.VecPhysical) {
	VMULPS(k.act(t, offScale), dw, s)
	VCVTDQ2PS(isum, isum)
	acc := k.facc[r*k.t+t]
	if !k.inMemory {
		VFMADD231PS(isum, s, acc)
		return
	}
	VFMADD213PS(acc, isum, s) // s = s·isum + acc
	VMOVUPS(s, acc)
}

func (k *tile) subtract(r, t int, min, s reg.VecPhysical) {
	acc := k.facc[r*k.t+t]
	if !k.inMemory {
		VFNMADD231PS(k.act(t, offDSum), min, acc)
		return
	}
	VMOVUPS(acc, s)
	VFNMADD231PS(k.act(t, offDSum), min, s)
	VMOVUPS(s, acc)
}

// prefetch asks for the same place of the rows that the next tile reads. Only float tiles do so: they stream several rows
// side by side, which the hardware's prefetchers do not follow; where one row is read at a time, hints only disturb them.
// A prefetch past the weights' end is ignored by the processor.
func (k *tile) prefetch(p reg.Register, bytes int) {
	if k.t != 1 || k.r != 4 {
		return
	}
	ahead := GP64()
	LEAQ(Mem{Base: p, Index: k.rb, Scale: 4}, ahead)
	for r := 0; r < k.r; r++ {
		for b := 0; b < bytes; b += 64 {
			PREFETCHT1(k.row(ahead, r, b))
		}
	}
}

// nibbles loads quant vector v of row r and splits it: lo holds group v, hi group v+4.
func (k *tile) nibbles(r, v int, lo, hi reg.VecPhysical) {
	k.load(k.row(k.hp, r, offQuants+32*v), lo)
	VPSRLW(U8(4), lo, hi)
	k.and(k.mask0f, lo, lo)
	k.and(k.mask0f, hi, hi)
}

// fourBit emits Q4_0 and Q4_K, which differ in their scales.
func (k *tile) fourBit() {
	k.prologue(false)
	k.mask0f = k.vec()
	k.load(constant("mask0f"), k.mask0f)
	if !k.vnni() {
		k.ones = k.vec()
		VMOVDQU(constant("ones16"), k.ones)
	}
	isum := make([]reg.VecPhysical, k.r*k.t)
	for i := range isum {
		isum[i] = k.vec()
	}
	Label("loop")
	if k.vnni() {
		k.fourBitVNNI(isum)
	} else {
		k.fourBitAVX2(isum)
	}
	dw, s, m := k.vec(), k.vec(), reg.VecPhysical(nil)
	if k.typ == "Q4_K" {
		m = k.vec()
	}
	for r := 0; r < k.r; r++ {
		if k.typ == "Q4_0" {
			VCVTPH2PS(k.row(k.hp, r, 0), dw)
		} else {
			k.q4kScales(r, dw, m, s)
		}
		for t := 0; t < k.t; t++ {
			k.accumulate(r, t, isum[r*k.t+t], dw, s)
			if k.typ == "Q4_K" {
				k.subtract(r, t, m, s)
			}
		}
	}
	k.step()
}

// step goes on to the next superblock.
func (k *tile) step() {
	ADDQ(U32(map[string]uint32{"Q4_0": 144, "Q4_K": 144, "Q8_0": 272, "Q6_K": 210}[k.typ]), k.hp)
	ADDQ(U32(actBytes), k.xp)
	DECQ(k.n)
	JNZ(LabelRef("loop"))
	k.epilogue()
}

func (k *tile) fourBitVNNI(isum []reg.VecPhysical) {
	mark := k.next
	for t := 0; t < k.t; t++ {
		for r := 0; r < k.r; r++ {
			if k.typ == "Q4_0" {
				k.load(k.act(t, offNeg8), isum[r*k.t+t])
			} else {
				k.zero(isum[r*k.t+t])
			}
		}
	}
	lo, hi := make([]reg.VecPhysical, k.r), make([]reg.VecPhysical, k.r)
	for r := range lo {
		lo[r], hi[r] = k.vec(), k.vec()
	}
	x0, x1 := k.vec(), k.vec()
	for v := 0; v < 4; v++ {
		for r := range lo {
			k.nibbles(r, v, lo[r], hi[r])
		}
		for t := 0; t < k.t; t++ {
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
	k.next = mark
}

func (k *tile) fourBitAVX2(isum []reg.VecPhysical) {
	mark := k.next
	lo, hi, p := k.vec(), k.vec(), k.vec()
	for v := 0; v < 4; v++ {
		for r := 0; r < k.r; r++ {
			k.nibbles(r, v, lo, hi)
			for t := 0; t < k.t; t++ {
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
	for r := 0; r < k.r; r++ {
		for t := 0; t < k.t; t++ {
			acc := isum[r*k.t+t]
			VPMADDWD(k.ones, acc, acc)
			if k.typ == "Q4_0" {
				VPADDD(k.act(t, offNeg8), acc, acc)
			}
		}
	}
	k.next = mark
}

// q4kScales leaves d·scale in dw and dmin·min in m, lane j for sub-block j.
func (k *tile) q4kScales(r int, dw, m, tmp reg.VecPhysical) {
	field := func(shuffle, shift string, super int, dst reg.VecPhysical) {
		if k.vnni() {
			VBROADCASTI32X4(k.row(k.hp, r, 0), dst)
		} else {
			VBROADCASTI128(k.row(k.hp, r, 0), dst)
		}
		VPSHUFB(constant(shuffle), dst, dst)
		VPSRLVD(constant(shift), dst, dst)
		k.and(constant("mask63"), dst, dst)
		VCVTDQ2PS(dst, dst)
		VPBROADCASTW(k.row(k.hp, r, super), tmp.AsX())
		VCVTPH2PS(tmp.AsX(), tmp)
		VMULPS(tmp, dst, dst)
	}
	field("shufScale", "shiftScale", 0, dw)
	field("shufMin", "shiftScale", 2, m)
}

func (k *tile) eightBit() {
	k.prologue(false)
	isum := make([]reg.VecPhysical, k.r*k.t)
	for i := range isum {
		isum[i] = k.vec()
	}
	if k.vnni() {
		k.x80 = k.vec()
		k.load(constant("x80"), k.x80)
	} else {
		k.ones = k.vec()
		VMOVDQU(constant("ones16"), k.ones)
	}
	Label("loop")
	mark := k.next
	if k.vnni() {
		for t := 0; t < k.t; t++ {
			for r := 0; r < k.r; r++ {
				k.load(k.act(t, offN128), isum[r*k.t+t])
			}
		}
		w := make([]reg.VecPhysical, k.r)
		for r := range w {
			w[r] = k.vec()
		}
		x := k.vec()
		for v := 0; v < 8; v++ {
			for r := range w {
				VPXORD(k.row(k.hp, r, offQuants+32*v), k.x80, w[r])
			}
			for t := 0; t < k.t; t++ {
				k.load(k.act(t, 32*v), x)
				for r := range w {
					VPDPBUSD(x, w[r], isum[r*k.t+t])
				}
			}
		}
	} else {
		w, a, p := k.vec(), k.vec(), k.vec()
		for v := 0; v < 8; v++ {
			for r := 0; r < k.r; r++ {
				VMOVDQU(k.row(k.hp, r, offQuants+32*v), w)
				VPABSB(w, a)
				for t := 0; t < k.t; t++ {
					acc := isum[r*k.t+t]
					VMOVDQU(k.act(t, 32*v), p)
					VPSIGNB(w, p, p)
					VPMADDUBSW(p, a, p)
					if v == 0 {
						VPMADDWD(k.ones, p, acc)
						continue
					}
					VPMADDWD(k.ones, p, p)
					VPADDD(p, acc, acc)
				}
			}
		}
	}
	k.next = mark
	dw, s := k.vec(), k.vec()
	for r := 0; r < k.r; r++ {
		VCVTPH2PS(k.row(k.hp, r, 0), dw)
		for t := 0; t < k.t; t++ {
			k.accumulate(r, t, isum[r*k.t+t], dw, s)
		}
	}
	k.step()
}

// sixBit emits Q6_K: each half-block of 16 has its own scale, so the two halves are summed one after the other.
func (k *tile) sixBit() {
	k.prologue(false)
	k.mask0f, k.mask30 = k.vec(), k.vec()
	k.load(constant("mask0f"), k.mask0f)
	k.load(constant("mask30"), k.mask30)
	if !k.vnni() {
		k.ones = k.vec()
		VMOVDQU(constant("ones16"), k.ones)
	}
	isum := make([]reg.VecPhysical, k.r*k.t)
	for i := range isum {
		isum[i] = k.vec()
	}
	Label("loop")
	mark := k.next
	for half := 0; half < 2; half++ {
		if k.vnni() {
			k.sixBitHalfVNNI(half, isum)
		} else {
			k.sixBitHalfAVX2(half, isum)
		}
		dw, s := k.vec(), k.vec()
		for r := 0; r < k.r; r++ {
			VPBROADCASTW(k.row(k.hp, r, offSuper), s.AsX())
			VCVTPH2PS(s.AsX(), s)
			VPMOVSXBD(k.row(k.hp, r, 8*half), dw)
			VCVTDQ2PS(dw, dw)
			VMULPS(s, dw, dw)
			for t := 0; t < k.t; t++ {
				k.accumulate(r, t, isum[r*k.t+t], dw, s)
			}
		}
		k.next = mark
	}
	k.step()
}

// sixBits leaves the six-bit quants of group v of a half in w.
func (k *tile) sixBits(r, half, v int, w, h reg.VecPhysical) {
	k.load(k.row(k.hp, r, offQuants+32*v), w)
	if half == 1 {
		VPSRLW(U8(4), w, w)
	}
	k.and(k.mask0f, w, w)
	k.load(k.row(k.hp, r, offHigh+32*half), h)
	switch v {
	case 0:
		VPSLLW(U8(4), h, h)
	case 1:
		VPSLLW(U8(2), h, h)
	case 3:
		VPSRLW(U8(2), h, h)
	}
	k.and(k.mask30, h, h)
	if k.vnni() {
		VPORD(h, w, w)
	} else {
		VPOR(h, w, w)
	}
}

func (k *tile) sixBitHalfVNNI(half int, isum []reg.VecPhysical) {
	mark := k.next
	for t := 0; t < k.t; t++ {
		for r := 0; r < k.r; r++ {
			k.load(k.act(t, offLo32+32*half), isum[r*k.t+t])
		}
	}
	w := make([]reg.VecPhysical, k.r)
	for r := range w {
		w[r] = k.vec()
	}
	h := k.vec()
	for v := 0; v < 4; v++ {
		for r := range w {
			k.sixBits(r, half, v, w[r], h)
		}
		for t := 0; t < k.t; t++ {
			k.load(k.act(t, 32*(4*half+v)), h)
			for r := range w {
				VPDPBUSD(h, w[r], isum[r*k.t+t])
			}
		}
	}
	k.next = mark
}

func (k *tile) sixBitHalfAVX2(half int, isum []reg.VecPhysical) {
	mark := k.next
	w, p := k.vec(), k.vec()
	for v := 0; v < 4; v++ {
		for r := 0; r < k.r; r++ {
			k.sixBits(r, half, v, w, p)
			for t := 0; t < k.t; t++ {
				acc := isum[r*k.t+t]
				VPMADDUBSW(k.act(t, 32*(4*half+v)), w, p)
				if v == 0 {
					VPMADDWD(k.ones, p, acc)
					continue
				}
				VPMADDWD(k.ones, p, p)
				VPADDD(p, acc, acc)
			}
		}
	}
	for r := 0; r < k.r; r++ {
		for t := 0; t < k.t; t++ {
			VPADDD(k.act(t, offLo32+32*half), isum[r*k.t+t], isum[r*k.t+t])
		}
	}
	k.next = mark
}

// float emits F32, F16 and BF16 over n groups of 8 elements; hp walks the weights.
func (k *tile) float() {
	w := make([]reg.VecPhysical, k.r)
	for r := range w {
		w[r] = k.vec()
	}
	x := k.vec()
	k.prologue(true)
	size := 2
	if k.typ == "F32" {
		size = 4
	}
	Label("loop")
	k.prefetch(k.hp, 8*size)
	for r := range w {
		switch k.typ {
		case "F32":
			VMOVUPS(k.row(k.hp, r, 0), w[r])
		case "F16":
			VCVTPH2PS(k.row(k.hp, r, 0), w[r])
		case "BF16":
			VPMOVZXWD(k.row(k.hp, r, 0), w[r])
			VPSLLD(U8(16), w[r], w[r])
		}
	}
	for t := 0; t < k.t; t++ {
		VMOVUPS(k.act(t, 0), x)
		for r := range w {
			VFMADD231PS(x, w[r], k.facc[r*k.t+t])
		}
	}
	ADDQ(U8(byte(8*size)), k.hp)
	ADDQ(U8(32), k.xp)
	DECQ(k.n)
	JNZ(LabelRef("loop"))
	k.epilogue()
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
	for t := 0; t < k.t; t++ {
		a := free[:k.r]
		for r := range a {
			VMOVUPS(k.facc[r*k.t+t], a[r])
		}
		switch k.r {
		case 4:
			VHADDPS(a[1], a[0], a[0])
			VHADDPS(a[3], a[2], a[2])
			VHADDPS(a[2], a[0], a[0])
		case 2:
			VHADDPS(a[1], a[0], a[0])
			VHADDPS(a[0], a[0], a[0])
		default:
			VHADDPS(a[0], a[0], a[0])
			VHADDPS(a[0], a[0], a[0])
		}
		sum := free[k.r].AsX()
		VEXTRACTF128(U8(1), a[0], sum)
		VADDPS(sum, a[0].AsX(), sum)
		switch k.r {
		case 4:
			VMOVUPS(sum, Mem{Base: k.out})
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

// wide emits the one-row, one-token tile of a quantised type in 512-bit vectors: two quant vectors at a time, whose
// integer sums are added at the end of a superblock. Integer sums are exact, so the bits are those of the other tiles.
func (k *tile) wide() {
	k.prologue(false)
	if k.typ == "Q6_K" {
	}
	z := func() reg.VecPhysical { return zmm[slices.Index(ymm, k.vec())] }
	w, w2, mask := z(), z(), z()
	sums := []reg.VecPhysical{z(), z()}
	aux, aux2 := z(), z()
	dw, s, m := k.vec(), k.vec(), k.vec()
	switch k.typ {
	case "Q8_0":
		VPBROADCASTQ(constant("x80"), mask)
	default:
		VPBROADCASTQ(constant("mask0f"), mask)
	}
	var mask30, turn [2]reg.VecPhysical
	if k.typ == "Q6_K" {
		mask30[0] = z()
		VPBROADCASTQ(constant("mask30"), mask30[0])
		for i := range turn {
			turn[i] = z()
			VMOVDQU32(constant(fmt.Sprintf("turn%d", i)), turn[i])
		}
	}
	Label("loop")
	isum, isum2 := sums[0], sums[1]
	switch k.typ {
	case "Q4_0", "Q4_K":
		VPXORD(isum, isum, isum)
		VPXORD(isum2, isum2, isum2)
		for v := 0; v < 2; v++ {
			VMOVDQU32(Mem{Base: k.hp, Disp: offQuants + 64*v}, w)
			VPSRLW(U8(4), w, w2)
			VPANDD(mask, w, w)
			VPANDD(mask, w2, w2)
			VPDPBUSD(Mem{Base: k.xp, Disp: 64 * v}, w, isum)
			VPDPBUSD(Mem{Base: k.xp, Disp: 64*v + 128}, w2, isum2)
		}
		VPADDD(isum2, isum, isum)
		k.fold(isum, w2)
		if k.typ == "Q4_0" {
			VPADDD(k.act(0, offNeg8), isum.AsY(), isum.AsY())
			VCVTPH2PS(k.row(k.hp, 0, 0), dw)
		} else {
			k.q4kScales(0, dw, m, s)
		}
		k.accumulate(0, 0, ymm[slices.Index(zmm, isum)], dw, s)
		if k.typ == "Q4_K" {
			k.subtract(0, 0, m, s)
		}
	case "Q8_0":
		VPXORD(isum, isum, isum)
		VPXORD(isum2, isum2, isum2)
		for v := 0; v < 4; v++ {
			VPXORD(Mem{Base: k.hp, Disp: offQuants + 64*v}, mask, w)
			VPDPBUSD(Mem{Base: k.xp, Disp: 64 * v}, w, sums[v%2])
		}
		VPADDD(isum2, isum, isum)
		k.fold(isum, w2)
		VPADDD(k.act(0, offN128), isum.AsY(), isum.AsY())
		VCVTPH2PS(k.row(k.hp, 0, 0), dw)
		k.accumulate(0, 0, ymm[slices.Index(zmm, isum)], dw, s)
	case "Q6_K":
		for half := 0; half < 2; half++ {
			sum := sums[half]
			VPXORD(sum, sum, sum)
			VBROADCASTI64X4(Mem{Base: k.hp, Disp: offHigh + 32*half}, aux)
			for v := 0; v < 2; v++ {
				VMOVDQU32(Mem{Base: k.hp, Disp: offQuants + 64*v}, w)
				if half == 1 {
					VPSRLW(U8(4), w, w)
				}
				VPANDD(mask, w, w)
				VPROLVD(turn[v], aux, aux2)
				VPANDD(mask30[0], aux2, aux2)
				VPORD(aux2, w, w)
				VPDPBUSD(Mem{Base: k.xp, Disp: 128*half + 64*v}, w, sum)
			}
			k.fold(sum, w2)
			VPADDD(k.act(0, offLo32+32*half), sum.AsY(), sum.AsY())
			VPBROADCASTW(k.row(k.hp, 0, offSuper), s.AsX())
			VCVTPH2PS(s.AsX(), s)
			VPMOVSXBD(k.row(k.hp, 0, 8*half), dw)
			VCVTDQ2PS(dw, dw)
			VMULPS(s, dw, dw)
			k.accumulate(0, 0, ymm[slices.Index(zmm, sum)], dw, s)
		}
	}
	k.step()
}

// fold adds the upper half of z to its lower half.
func (k *tile) fold(z, tmp reg.VecPhysical) {
	VEXTRACTI64X4(U8(1), z, tmp.AsY())
	VPADDD(tmp.AsY(), z.AsY(), z.AsY())
}

// quantize emits the quantiser of n superblocks. Scalar twin: quantizeSuper in acts.go.
func quantize() {
	TEXT("quantizeAVX2", NOSPLIT, "func(dst *byte, x *float32, n uintptr)")
	Doc("quantizeAVX2 quantises n superblocks of activations. Scalar twin: quantizeSuper in acts.go.")
	dst, x, n := Load(Param("dst"), GP64()), Load(Param("x"), GP64()), Load(Param("n"), GP64())
	limit, abs := XMM(), YMM()
	VMOVSS(constant("f127"), limit)
	VPCMPEQD(abs, abs, abs)
	VPSRLD(U8(1), abs, abs)
	blocks, lane := GP64(), GP64()
	Label("super")
	MOVQ(U32(8), blocks)
	MOVQ(dst, lane)
	Label("block")
	v := []reg.VecVirtual{YMM(), YMM(), YMM(), YMM()}
	top, t := YMM(), YMM()
	for i := range v {
		VMOVUPS(Mem{Base: x, Disp: 32 * i}, v[i])
	}
	VPAND(abs, v[0], top)
	for _, y := range v[1:] {
		VPAND(abs, y, t)
		VMAXPS(t, top, top)
	}
	VEXTRACTF128(U8(1), top, t.AsX())
	VMAXPS(t.AsX(), top.AsX(), top.AsX())
	VMOVHLPS(top.AsX(), top.AsX(), t.AsX())
	VMAXPS(t.AsX(), top.AsX(), top.AsX())
	VMOVSHDUP(top.AsX(), t.AsX())
	VMAXSS(t.AsX(), top.AsX(), top.AsX())
	d, inv, zero := XMM(), XMM(), XMM()
	VDIVSS(limit, top.AsX(), d)
	VDIVSS(top.AsX(), limit, inv)
	VXORPS(zero, zero, zero)
	VCMPSS(U8(4), zero, top.AsX(), zero) // all ones where top is not zero
	VANDPS(zero, inv, inv)
	invs := YMM()
	VBROADCASTSS(inv, invs)
	for i := range v {
		VMULPS(invs, v[i], v[i])
		VCVTPS2DQ(v[i], v[i])
	}
	first, second := YMM(), YMM()
	VPADDD(v[0], v[1], first)
	VPADDD(v[2], v[3], second)
	VPHADDD(second, first, first)
	VPHADDD(first, first, first)
	VEXTRACTI128(U8(1), first, second.AsX())
	VPADDD(second.AsX(), first.AsX(), first.AsX())
	lo, hi, all := GP32(), GP32(), GP32()
	VMOVD(first.AsX(), lo)
	VPEXTRD(U8(1), first.AsX(), hi)
	LEAL(Mem{Base: lo.As64(), Index: hi.As64(), Scale: 1}, all)
	VMOVSS(d, Mem{Base: lane, Disp: offScale})
	sum := XMM()
	VXORPS(sum, sum, sum)
	VCVTSI2SSL(all, sum, sum)
	VMULSS(d, sum, sum)
	VMOVSS(sum, Mem{Base: lane, Disp: offDSum})
	for _, c := range []struct {
		from  reg.GPVirtual
		shift uint8
		off   int
	}{{lo, 5, offLo32}, {hi, 5, offHi32}} {
		NEGL(c.from)
		SHLL(U8(c.shift), c.from)
		MOVL(c.from, Mem{Base: lane, Disp: c.off})
	}
	NEGL(all)
	SHLL(U8(3), all)
	MOVL(all, Mem{Base: lane, Disp: offNeg8})
	SHLL(U8(4), all)
	MOVL(all, Mem{Base: lane, Disp: offN128})
	// The packs work within 128-bit halves: dword k of the low half is group 2k, of the high half 2k+1.
	VPACKSSDW(v[1], v[0], v[0])
	VPACKSSDW(v[3], v[2], v[2])
	VPACKSSWB(v[2], v[0], v[0])
	high := XMM()
	VEXTRACTI128(U8(1), v[0], high)
	for k := 0; k < 4; k++ {
		VPEXTRD(U8(byte(k)), v[0].AsX(), Mem{Base: lane, Disp: 64 * k})
		VPEXTRD(U8(byte(k)), high, Mem{Base: lane, Disp: 64*k + 32})
	}
	ADDQ(U32(128), x)
	ADDQ(U8(4), lane)
	DECQ(blocks)
	JNZ(LabelRef("block"))
	ADDQ(U32(actBytes), dst)
	DECQ(n)
	JNZ(LabelRef("super"))
	VZEROUPPER()
	RET()
}

func main() {
	f := GLOBL("f127", RODATA|NOPTR)
	DATA(0, F32(127))
	constants["f127"] = f
	define("mask0f", repeat(0x0f))
	define("mask30", repeat(0x30))
	define("x80", repeat(0x80))
	define("ones16", repeat(1, 0))
	define("mask63", repeat(63, 0, 0, 0))
	shuf := func(base int) []byte {
		out := make([]byte, 32)
		for j := 0; j < 8; j++ {
			b := base + 6*j/8
			next := byte(b + 1)
			if b+1 > 15 {
				next = 0x80
			}
			copy(out[4*j:], []byte{byte(b), next, 0x80, 0x80})
		}
		return out
	}
	define("shufScale", shuf(4))
	define("shufMin", shuf(10))
	shift := make([]byte, 32)
	for j := 0; j < 8; j++ {
		shift[4*j] = byte(6 * j % 8)
	}
	define("shiftScale", shift)

	for i := range 2 { // field v of a high-bits vector turned to bits 4 and 5: groups 2i and 2i+1
		turn := make([]byte, 64)
		for b := 0; b < 64; b += 4 {
			turn[b] = []byte{4, 2, 0, 30}[2*i+b/32]
		}
		define(fmt.Sprintf("turn%d", i), turn)
	}

	for _, typ := range []string{"Q4_0", "Q8_0", "Q4_K", "Q6_K"} {
		(&tile{isa: "VNNI", typ: typ, r: 1, t: 1}).wide()
	}
	sizes := map[string][][2]int{"AVX2": {{1, 1}, {2, 2}}, "VNNI": {{4, 4}}}
	for _, isa := range []string{"AVX2", "VNNI"} {
		for _, rt := range sizes[isa] {
			for _, typ := range []string{"Q4_0", "Q4_K"} {
				(&tile{isa: isa, typ: typ, r: rt[0], t: rt[1]}).fourBit()
			}
			(&tile{isa: isa, typ: "Q8_0", r: rt[0], t: rt[1]}).eightBit()
			(&tile{isa: isa, typ: "Q6_K", r: rt[0], t: rt[1]}).sixBit()
		}
	}
	floats := map[string][][2]int{"AVX2": {{1, 1}, {4, 1}, {2, 4}}, "VNNI": {{4, 4}}}
	for _, isa := range []string{"AVX2", "VNNI"} {
		for _, rt := range floats[isa] {
			for _, typ := range []string{"F32", "F16", "BF16"} {
				(&tile{isa: isa, typ: typ, r: rt[0], t: rt[1]}).float()
			}
		}
	}
	quantize()
	Generate()
}
