package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/powerinfer-go/powerinfer/internal/compute/cpu/layout"
)

// Products of prompts' floats by vectors, from the tiles that a matrix unit would take: lane r of a vector is row r,
// which meets a pair of each token's elements in all lanes. So nothing is added across lanes, and a step of 24 products
// loads two vectors of weights and twelve pairs of activations. Two arithmetics: BF16, and integers of 16 bits with a
// scale for each layout.ShortPart columns. The scalar twins are dotLaneGeneric and dotShortsGeneric in pairs.go.

// pairTokens are the tiles' numbers of tokens.
var pairTokens = []int{12, 8, 4, 2, 1}

func pairVectors() {
	for _, t := range pairTokens {
		(&pairTile{tile: tile{isa: "BF16", r: 2, t: t, wide: true}}).emit()
		(&pairTile{tile: tile{isa: "VNNI", r: 2, t: t, wide: true}, shorts: true}).emit()
	}
	for _, from := range []string{"F32", "F16", "BF16"} {
		sizeShorts(from)
		toShorts(from)
	}
	narrowPairs()
}

// pairTile is a tile of 32 rows and t tokens.
type pairTile struct {
	tile
	shorts bool
}

// pairSteps is the number of pairs that are multiplied before the loop ends, a quarter of a group.
const pairSteps = 4

func (k *pairTile) emit() {
	form, twin := "BF16", "dotLaneGeneric"
	if k.shorts {
		form, twin = "Shorts", "dotShortsGeneric"
	}
	name := fmt.Sprintf("pairs%sVectors%d", form, k.t)
	TEXT(name, NOSPLIT, "func(out *float32, outStride uintptr, w *byte, n uintptr, x *byte, xStride uintptr, scales *float32, xScale *float32, part uintptr, ahead *byte, aheadStep uintptr)")
	Doc(fmt.Sprintf("%s computes n groups of %d rows and %d tokens. Scalar twin: %s in pairs.go.", name, k.r*layout.MatrixRows, k.t, twin))
	part := Load(Param("part"), GP64()) // K1: lanes of out that are added to, none in the first part
	NOTQ(part)
	ANDQ(U32(layout.FirstPart), part)
	NEGQ(part)
	KMOVW(part.(reg.GPVirtual).As32(), reg.K1)
	acc, w, x := k.vecs(k.r*k.t), k.vecs(k.r), k.vecs(2)
	if k.shorts {
		for _, a := range acc {
			k.zero(a)
		}
	} else {
		k.outputs(func(i int, m Mem) { VMOVUPS_Z(m, reg.K1, acc[i]) })
	}
	wp, n, xs := Load(Param("w"), GP64()), Load(Param("n"), GP64()), Load(Param("xStride"), GP64())
	xs3, left := GP64(), GP64()
	LEAQ(Mem{Base: xs, Index: xs, Scale: 2}, xs3)
	xp := []reg.Register{Load(Param("x"), GP64())}
	for t := 4; t < k.t; t += 4 {
		next := GP64()
		LEAQ(Mem{Base: xp[t/4-1], Index: xs, Scale: 4}, next)
		xp = append(xp, next)
	}
	ahead, aheadStep := Load(Param("ahead"), GP64()), Load(Param("aheadStep"), GP64())
	Label("group")
	MOVQ(U32(layout.PairTile/64/pairSteps), left)
	Label("pairs")
	k.askAhead(ahead, aheadStep)
	for p := range pairSteps {
		for r, v := range w {
			VMOVDQU32(Mem{Base: wp, Disp: layout.PairTile*r + 64*p}, v)
		}
		for t := range k.t {
			v := x[t%len(x)]
			VPBROADCASTD(strided(xp[t/4], xs, xs3, t%4, 4*p), v)
			for r := range w {
				if k.shorts {
					VPDPWSSD(v, w[r], acc[k.r*t+r])
				} else {
					dotBF16(v, w[r], acc[k.r*t+r])
				}
			}
		}
	}
	ADDQ(U32(64*pairSteps), wp)
	for _, p := range xp {
		ADDQ(U8(4*pairSteps), p)
	}
	DECQ(left)
	JNZ(LabelRef("pairs"))
	ADDQ(U32(layout.PairTile), wp)
	DECQ(n)
	JNZ(LabelRef("group"))
	if k.shorts {
		k.scale(acc, w, x, xs, xs3)
	}
	k.outputs(func(i int, m Mem) { VMOVUPS(acc[i], m) })
	VZEROUPPER()
	RET()
}

// askAhead asks for the line at ahead, which comes after this panel, as often as pairs are multiplied pairSteps at a
// time: so memory is read at the pace of the arithmetic.
func (k *tile) askAhead(ahead, step reg.Register) {
	PREFETCHT1(Mem{Base: ahead})
	ADDQ(step, ahead)
}

// outputs has do done for the place of every accumulator.
func (k *pairTile) outputs(do func(i int, m Mem)) {
	out, stride, stride3 := Load(Param("out"), GP64()), Load(Param("outStride"), GP64()), GP64()
	LEAQ(Mem{Base: stride, Index: stride, Scale: 2}, stride3)
	for t := range k.t {
		if t > 0 && t%4 == 0 {
			LEAQ(Mem{Base: out, Index: stride, Scale: 4}, out)
		}
		for r := range k.r {
			do(k.r*t+r, strided(out, stride, stride3, t%4, 64*r))
		}
	}
}

// scale turns the integer sums into floats, with the scales of rows and tokens, and adds out.
func (k *pairTile) scale(acc, rows, free []reg.VecPhysical, xs, xs3 reg.Register) {
	scales, xScale := Load(Param("scales"), GP64()), Load(Param("xScale"), GP64())
	for r, v := range rows {
		VMOVUPS(Mem{Base: scales, Disp: 64 * r}, v)
	}
	token, both := free[0], free[1]
	for t := range k.t {
		if t > 0 && t%4 == 0 {
			LEAQ(Mem{Base: xScale, Index: xs, Scale: 4}, xScale)
		}
		VBROADCASTSS(strided(xScale, xs, xs3, t%4, 0), token)
		for r, v := range rows {
			a := acc[k.r*t+r]
			VMULPS(token, v, both)
			VCVTDQ2PS(a, a)
			VMULPS(both, a, a)
		}
	}
	before := free[0]
	k.outputs(func(i int, m Mem) {
		VMOVUPS_Z(m, reg.K1, before)
		VADDPS(before, acc[i], acc[i])
	})
}

// result returns the place of a result of the function.
func result(name string) Mem {
	b, err := Return(name).Resolve()
	if err != nil {
		panic(err)
	}
	return b.Addr
}

// load16 loads 16 numbers as float32 from number 16·i after p on.
func load16(from string, p reg.Register, i int, v reg.VecPhysical) {
	switch from {
	case "F16":
		VCVTPH2PS(Mem{Base: p, Disp: 32 * i}, v)
	case "BF16":
		VPMOVZXWD(Mem{Base: p, Disp: 32 * i}, v)
		VPSLLD(U8(16), v, v)
	default:
		VMOVUPS(Mem{Base: p, Disp: 64 * i}, v)
	}
}

func groupBytes(from string) uint32 {
	if from == "F32" {
		return 128
	}
	return 64
}

// sizeShorts emits what returns the largest magnitude of n groups of 32 numbers, and the sum of their squares.
func sizeShorts(from string) {
	name := "size" + from + "Shorts"
	TEXT(name, NOSPLIT, "func(x *byte, n uintptr) (most float32, squares float64)")
	Pragma("noescape")
	Doc(name + " returns the largest magnitude of n groups of 32 numbers, and the sum of their squares. Scalar twin: sizeGeneric in pairs.go.")
	k := &tile{isa: "VNNI", wide: true}
	x, n := Load(Param("x"), GP64()), Load(Param("n"), GP64())
	top, v, half := k.vec(), k.vec(), k.vec()
	sums := k.vecs(4)
	wide := k.vec()
	k.zero(top)
	for _, s := range sums {
		k.zero(s)
	}
	mask := k.vec()
	VPTERNLOGD(U8(255), mask, mask, mask)
	VPSRLD(U8(1), mask, mask)
	Label("group")
	for i := range 2 {
		load16(from, x, i, v)
		VPANDD(v, mask, half)
		VMAXPS(half, top, top)
		if from == "F16" { // float32 holds the sums of its squares
			VFMADD231PS(v, v, sums[2*i])
			continue
		}
		VCVTPS2PD(v.AsY(), wide)
		VFMADD231PD(wide, wide, sums[2*i])
		VEXTRACTF64X4(U8(1), v, half.AsY())
		VCVTPS2PD(half.AsY(), wide)
		VFMADD231PD(wide, wide, sums[2*i+1])
	}
	ADDQ(U32(groupBytes(from)), x)
	DECQ(n)
	JNZ(LabelRef("group"))
	if from == "F16" {
		VADDPS(sums[2], sums[0], sums[0])
		VCVTPS2PD(sums[0].AsY(), wide)
		VEXTRACTF64X4(U8(1), sums[0], sums[0].AsY())
		VCVTPS2PD(sums[0].AsY(), sums[0])
		VADDPD(sums[0], wide, sums[0])
	} else {
		VADDPD(sums[1], sums[0], sums[0])
		VADDPD(sums[3], sums[2], sums[2])
		VADDPD(sums[2], sums[0], sums[0])
	}
	VEXTRACTF64X4(U8(1), sums[0], v.AsY())
	VADDPD(v.AsY(), sums[0].AsY(), sums[0].AsY())
	VEXTRACTF64X2(U8(1), sums[0].AsY(), v.AsX())
	VADDPD(v.AsX(), sums[0].AsX(), sums[0].AsX())
	VPERMILPD(U8(1), sums[0].AsX(), v.AsX())
	VADDSD(v.AsX(), sums[0].AsX(), sums[0].AsX())
	VEXTRACTF64X4(U8(1), top, v.AsY())
	VMAXPS(v.AsY(), top.AsY(), top.AsY())
	VEXTRACTF32X4(U8(1), top.AsY(), v.AsX())
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

// toShorts emits what writes n groups of 32 numbers as integers of 16 bits.
func toShorts(from string) {
	name := "shorts" + from
	TEXT(name, NOSPLIT, "func(dst *byte, x *byte, factor float32, n uintptr)")
	Pragma("noescape")
	Doc(name + " writes n groups of 32 numbers, times factor, as integers of 16 bits. Scalar twin: shortsGeneric in pairs.go.")
	k := &tile{isa: "VNNI", wide: true}
	dst, x, n := Load(Param("dst"), GP64()), Load(Param("x"), GP64()), Load(Param("n"), GP64())
	factor, v := k.vec(), k.vecs(2)
	f, err := Param("factor").Resolve()
	if err != nil {
		panic(err)
	}
	VBROADCASTSS(f.Addr, factor)
	Label("group")
	for i, v := range v {
		load16(from, x, i, v)
		VMULPS(factor, v, v)
		VCVTPS2DQ(v, v)
		VPMOVDW(v, v.AsY())
		VMOVDQU32(v.AsY(), Mem{Base: dst, Disp: 32 * i})
	}
	ADDQ(U32(groupBytes(from)), x)
	ADDQ(U8(64), dst)
	DECQ(n)
	JNZ(LabelRef("group"))
	VZEROUPPER()
	RET()
}
