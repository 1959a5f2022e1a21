package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/powerinfer-go/powerinfer/internal/compute/cpu/layout"
)

// Prompts' floats in integers of 16 bits, as in pairs.go, for processors without AVX-512: by VPMADDWD and VPADDD, or by
// VPDPWSSD of AVX-VNNI, which does both. A tile has 16 rows, two vectors, and up to six tokens, twelve sums.

// narrowTokens are the tiles' numbers of tokens.
var narrowTokens = []int{6, 4, 2, 1}

func narrowPairs() {
	for _, isa := range []string{"AVX2", "AVXVNNI"} {
		for _, t := range narrowTokens {
			(&narrowTile{tile{isa: isa, r: 2, t: t}}).emit()
		}
	}
	for _, from := range []string{"F32", "F16", "BF16"} {
		(&narrowRow{tile: tile{isa: "AVX2"}, from: from}).size()
		(&narrowRow{tile: tile{isa: "AVX2"}, from: from}).shorts()
	}
	fillNarrow()
}

// narrowTile is a tile of 16 rows and t tokens.
type narrowTile struct{ tile }

func (k *narrowTile) emit() {
	name := fmt.Sprintf("pairsShorts%s%d", k.isa, k.t)
	TEXT(name, NOSPLIT, "func(out *float32, outStride uintptr, w *byte, n uintptr, x *byte, xStride uintptr, scales *float32, xScale *float32, part uintptr, ahead *byte, aheadStep uintptr)")
	Doc(fmt.Sprintf("%s computes n groups of %d rows and %d tokens. Scalar twin: dotShortsGeneric in pairs.go.", name, layout.MatrixRows, k.t))
	sums, w, x, product := k.vecs(k.r*k.t), k.vecs(k.r), k.vec(), k.vec()
	for _, s := range sums {
		k.zero(s)
	}
	wp, n, xs := Load(Param("w"), GP64()), Load(Param("n"), GP64()), Load(Param("xStride"), GP64())
	xs3, left := GP64(), GP64()
	LEAQ(Mem{Base: xs, Index: xs, Scale: 2}, xs3)
	xp := []reg.Register{Load(Param("x"), GP64())}
	if k.t > 4 {
		next := GP64()
		LEAQ(Mem{Base: xp[0], Index: xs, Scale: 4}, next)
		xp = append(xp, next)
	}
	ahead, aheadStep := Load(Param("ahead"), GP64()), Load(Param("aheadStep"), GP64())
	Label("group")
	MOVQ(U32(layout.PairTile/64/pairSteps), left)
	Label("pairs")
	k.askAhead(ahead, aheadStep)
	for p := range pairSteps {
		for r, v := range w {
			VMOVDQU(Mem{Base: wp, Disp: 64*p + 32*r}, v)
		}
		for t := range k.t {
			VPBROADCASTD(strided(xp[t/4], xs, xs3, t%4, 4*p), x)
			for r := range w {
				if k.isa == "AVXVNNI" {
					dotWordsVEX(x, w[r], sums[k.r*t+r])
					continue
				}
				VPMADDWD(x, w[r], product)
				VPADDD(product, sums[k.r*t+r], sums[k.r*t+r])
			}
		}
	}
	ADDQ(U32(64*pairSteps), wp)
	for _, p := range xp {
		ADDQ(U8(4*pairSteps), p)
	}
	DECQ(left)
	JNZ(LabelRef("pairs"))
	ADDQ(U32(layout.PairTile), wp) // the other rows'
	DECQ(n)
	JNZ(LabelRef("group"))
	k.scale(sums, w, x, product, xs, xs3)
	VZEROUPPER()
	RET()
}

// scale turns the integer sums into floats, with the scales of rows and tokens, and adds them to out, or writes them
// there in the first part.
func (k *narrowTile) scale(sums, rows []reg.VecPhysical, token, both reg.VecPhysical, xs, xs3 reg.Register) {
	scales, xScale := Load(Param("scales"), GP64()), Load(Param("xScale"), GP64())
	out, stride, stride3 := Load(Param("out"), GP64()), Load(Param("outStride"), GP64()), GP64()
	LEAQ(Mem{Base: stride, Index: stride, Scale: 2}, stride3)
	for r, v := range rows {
		VMOVUPS(Mem{Base: scales, Disp: 32 * r}, v)
	}
	for t := range k.t {
		if t == 4 {
			LEAQ(Mem{Base: xScale, Index: xs, Scale: 4}, xScale)
		}
		VBROADCASTSS(strided(xScale, xs, xs3, t%4, 0), token)
		for r, v := range rows {
			s := sums[k.r*t+r]
			VMULPS(token, v, both)
			VCVTDQ2PS(s, s)
			VMULPS(both, s, s)
		}
	}
	part, mask, before := Load(Param("part"), GP64()), both, token // mask: none in the first part
	ANDQ(U8(layout.FirstPart), part)
	DECQ(part)
	VMOVQ(part, mask.AsX())
	VPBROADCASTD(mask.AsX(), mask)
	for t := range k.t {
		if t == 4 {
			LEAQ(Mem{Base: out, Index: stride, Scale: 4}, out)
		}
		for r := range rows {
			m, s := strided(out, stride, stride3, t%4, 32*r), sums[k.r*t+r]
			VANDPS(m, mask, before)
			VADDPS(before, s, s)
			VMOVUPS(s, m)
		}
	}
}

// dotWordsVEX adds products of signed words by VPDPWSSD in VEX form, which Go's assembler does not know.
func dotWordsVEX(x, w, sum reg.VecPhysical) {
	Comment(fmt.Sprintf("VEX.VPDPWSSD %s, %s, %s", x.Asm(), w.Asm(), sum.Asm()))
	vex(map0F38, bits256|prefix66, 0x52, int(sum.PhysicalIndex()), int(w.PhysicalIndex()), int(x.PhysicalIndex()))
}

// narrowRow emits what writes numbers of a type as integers of 16 bits.
type narrowRow struct {
	tile
	from string
}

// numbers loads eight numbers as float32 from number 8·i after p on.
func (k *narrowRow) numbers(p reg.Register, i int, v reg.VecPhysical) {
	switch k.from {
	case "F16":
		VCVTPH2PS(Mem{Base: p, Disp: 16 * i}, v)
	case "BF16":
		VPMOVZXWD(Mem{Base: p, Disp: 16 * i}, v)
		VPSLLD(U8(16), v, v)
	default:
		VMOVUPS(Mem{Base: p, Disp: 32 * i}, v)
	}
}

// size emits sizeShorts for vectors of 256 bits.
func (k *narrowRow) size() {
	name := "size" + k.from + "ShortsAVX2"
	TEXT(name, NOSPLIT, "func(x *byte, n uintptr) (most float32, squares float64)")
	Pragma("noescape")
	Doc(name + " returns the largest magnitude of n groups of 32 numbers, and the sum of their squares. Scalar twin: sizeGeneric in pairs.go.")
	x, n := Load(Param("x"), GP64()), Load(Param("n"), GP64())
	top, v, half, mask := k.vec(), k.vec(), k.vec(), k.vec()
	sums := k.vecs(8) // float64 of numbers 4i…; of F16 the first four are float32 of numbers 8i…
	for _, s := range append(sums, top) {
		k.zero(s)
	}
	VPCMPEQD(mask, mask, mask)
	VPSRLD(U8(1), mask, mask)
	Label("group")
	for i := range 4 {
		k.numbers(x, i, v)
		VPAND(v, mask, half)
		VMAXPS(half, top, top)
		if k.from == "F16" { // float32 holds the sums of its squares
			VFMADD231PS(v, v, sums[i])
			continue
		}
		VCVTPS2PD(v.AsX(), half)
		VFMADD231PD(half, half, sums[2*i])
		VEXTRACTF128(U8(1), v, half.AsX())
		VCVTPS2PD(half.AsX(), half)
		VFMADD231PD(half, half, sums[2*i+1])
	}
	ADDQ(U32(groupBytes(k.from)), x)
	DECQ(n)
	JNZ(LabelRef("group"))
	add := func(a, b int) { VADDPD(sums[b], sums[a], sums[a]) }
	if k.from == "F16" {
		for i := range 2 {
			VADDPS(sums[i+2], sums[i], sums[i])
		}
		for i := range 2 {
			VEXTRACTF128(U8(1), sums[i], half.AsX())
			VCVTPS2PD(half.AsX(), sums[4+2*i+1])
			VCVTPS2PD(sums[i].AsX(), sums[4+2*i])
		}
		add(4, 6)
		add(5, 7)
		add(4, 5)
		VMOVAPD(sums[4], sums[0])
	} else {
		for _, i := range []int{0, 1, 4, 5} {
			add(i, i+2)
		}
		add(0, 4)
		add(1, 5)
		add(0, 1)
	}
	VEXTRACTF128(U8(1), sums[0], v.AsX())
	VADDPD(v.AsX(), sums[0].AsX(), sums[0].AsX())
	VPERMILPD(U8(1), sums[0].AsX(), v.AsX())
	VADDSD(v.AsX(), sums[0].AsX(), sums[0].AsX())
	VEXTRACTF128(U8(1), top, v.AsX())
	VMAXPS(v.AsX(), top.AsX(), top.AsX())
	VPERMILPS(U8(0x4e), top.AsX(), v.AsX())
	VMAXPS(v.AsX(), top.AsX(), top.AsX())
	VPERMILPS(U8(0xb1), top.AsX(), v.AsX())
	VMAXPS(v.AsX(), top.AsX(), top.AsX())
	VMOVSS(top.AsX(), result("most"))
	VMOVSD(sums[0].AsX(), result("squares"))
	VZEROUPPER()
	RET()
}

// shorts emits toShorts for vectors of 256 bits.
func (k *narrowRow) shorts() {
	name := "shorts" + k.from + "AVX2"
	TEXT(name, NOSPLIT, "func(dst *byte, x *byte, factor float32, n uintptr)")
	Pragma("noescape")
	Doc(name + " writes n groups of 32 numbers, times factor, as integers of 16 bits. Scalar twin: shortsGeneric in pairs.go.")
	dst, x, n := Load(Param("dst"), GP64()), Load(Param("x"), GP64()), Load(Param("n"), GP64())
	factor, v := k.vec(), k.vecs(2)
	f, err := Param("factor").Resolve()
	if err != nil {
		panic(err)
	}
	VBROADCASTSS(f.Addr, factor)
	Label("group")
	for i := range 2 {
		for h, v := range v {
			k.numbers(x, 2*i+h, v)
			VMULPS(factor, v, v)
			VCVTPS2DQ(v, v)
		}
		VPACKSSDW(v[1], v[0], v[0])
		VPERMQ(U8(0xd8), v[0], v[0])
		VMOVDQU(v[0], Mem{Base: dst, Disp: 32 * i})
	}
	ADDQ(U32(groupBytes(k.from)), x)
	ADDQ(U8(64), dst)
	DECQ(n)
	JNZ(LabelRef("group"))
	VZEROUPPER()
	RET()
}

// fillNarrow emits fillPairs for vectors of 256 bits: of eight rows and eight pairs at a time.
func fillNarrow() {
	name := "fillPairsAVX2"
	TEXT(name, NOSPLIT, "func(dst *byte, dstStep uintptr, w *byte, rowBytes uintptr, n uintptr)")
	Doc(fmt.Sprintf("%s makes tiles of n groups of %d rows of pairs. Scalar twin: fillPairsGeneric in terms.go.", name, layout.MatrixRows))
	k := &tile{isa: "AVX2"}
	v, free := k.vecs(8), k.vecs(8)
	dst, step := Load(Param("dst"), GP64()), Load(Param("dstStep"), GP64())
	w, rowBytes, n := Load(Param("w"), GP64()), Load(Param("rowBytes"), GP64()), Load(Param("n"), GP64())
	rows3, from := GP64(), GP64()
	LEAQ(Mem{Base: rowBytes, Index: rowBytes, Scale: 2}, rows3)
	Label("group")
	MOVQ(w, from)
	for rows := range layout.MatrixRows / 8 {
		from4 := GP64()
		LEAQ(Mem{Base: from, Index: rowBytes, Scale: 4}, from4)
		for pairs := range 2 {
			for r := range v {
				VMOVDQU(strided([]reg.Register{from, from4}[r/4], rowBytes, rows3, r%4, 32*pairs), v[r])
			}
			for i := 0; i < 8; i += 2 { // pairs of dwords, of rows i and i+1
				VPUNPCKLDQ(v[i+1], v[i], free[i])
				VPUNPCKHDQ(v[i+1], v[i], free[i+1])
			}
			for i := 0; i < 8; i += 4 { // dword j of each 128 bits, of rows i to i+3, is in v[i+j]
				VPUNPCKLQDQ(free[i+2], free[i], v[i])
				VPUNPCKHQDQ(free[i+2], free[i], v[i+1])
				VPUNPCKLQDQ(free[i+3], free[i+1], v[i+2])
				VPUNPCKHQDQ(free[i+3], free[i+1], v[i+3])
			}
			for j := range 4 {
				for h, imm := range []uint8{0x20, 0x31} {
					VPERM2I128(U8(imm), v[4+j], v[j], free[0])
					VMOVDQU(free[0], Mem{Base: dst, Disp: 64*(8*pairs+4*h+j) + 32*rows})
				}
			}
		}
		if rows == 0 {
			LEAQ(Mem{Base: from4, Index: rowBytes, Scale: 4}, from)
		}
	}
	ADDQ(U8(64), w)
	ADDQ(step, dst)
	DECQ(n)
	JNZ(LabelRef("group"))
	VZEROUPPER()
	RET()
}
