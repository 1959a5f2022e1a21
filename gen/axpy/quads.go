package main

import (
	"fmt"
	"strings"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// quads emits the sums of neurons of a group with AVX-512 VNNI, four neurons at a time: their bytes are interleaved, so
// that a dword of VPDPBUSD adds up the four. All of a superblock's outputs stay in registers while the neurons pass.
// Integer sums are exact, and scales are applied as adder does, so the bytes are the same.
type quads struct {
	typ quant.Type

	sum, n                  reg.Register
	off                     reg.Register // into rows
	count                   reg.Register // quads
	scales, soon            reg.Register // see adder
	scale, start, mask      reg.VecPhysical
	lowLanes, highLanes     reg.VecPhysical // see flush
	row                     [4]reg.VecPhysical
	low, high, coefs, spare reg.VecPhysical
}

var (
	zmm = []reg.VecPhysical{
		reg.Z0, reg.Z1, reg.Z2, reg.Z3, reg.Z4, reg.Z5, reg.Z6, reg.Z7, reg.Z8, reg.Z9, reg.Z10, reg.Z11, reg.Z12, reg.Z13, reg.Z14, reg.Z15,
		reg.Z16, reg.Z17, reg.Z18, reg.Z19, reg.Z20, reg.Z21, reg.Z22, reg.Z23, reg.Z24, reg.Z25, reg.Z26, reg.Z27, reg.Z28, reg.Z29, reg.Z30, reg.Z31,
	}
	sums = zmm[16:] // [vector][nibble][quarter] of one superblock, as dwords
)

// quarters is the number of parts that interleaving four vectors of bytes gives: the first, second, third and last four
// bytes of each 128-bit lane.
const quarters = 4

func (k *quads) bytes() int { return (&adder{typ: k.typ, group: true}).quantBytes() }

// nibbles returns the number of quants in a byte.
func (k *quads) nibbles() int { return 8 / k.typ.Traits().Bits }

func (k *quads) emit() {
	short := strings.ReplaceAll(k.typ.String(), "_", "")
	TEXT("addGroup"+short+"VNNI", NOSPLIT, "func(sum *float32, rows *[16]*byte, coef *[16]int8, pairs uintptr, n uintptr, next *[16]*byte, scales *byte, scale float32, soon *byte)")
	Doc(
		fmt.Sprintf("addGroup%sVNNI adds so many pairs of weighted %s rows of one group to sum. It takes four rows at a time, so that", short, k.typ),
		"rows, next and coef must be filled up to four, with coefficients of 0. Scalar twin: addGroupGeneric in axpy.go.",
	)
	k.row = [4]reg.VecPhysical(zmm[:4])
	k.low, k.high, k.coefs, k.spare = zmm[4], zmm[5], zmm[6], zmm[7]
	k.scale, k.start, k.mask, k.lowLanes, k.highLanes = zmm[8], zmm[9], zmm[10], zmm[11], zmm[12]
	k.sum, k.count, k.n = Load(Param("sum"), GP64()), Load(Param("pairs"), GP64()), Load(Param("n"), GP64())
	INCQ(k.count)
	SHRQ(U8(1), k.count)
	k.off = GP64()
	XORQ(k.off, k.off)
	k.scales, k.soon = Load(Param("scales"), GP64()), Load(Param("soon"), GP64())
	SUBQ(k.scales, k.soon)
	VBROADCASTSS(NewParamAddr("scale", 56), k.scale)
	if k.nibbles() == 2 {
		VPBROADCASTD(constants["lowNibble"], k.mask)
	} else {
		VPBROADCASTD(constants["sign"], k.mask)
	}
	VMOVDQU32(constants["lowLanes"], k.lowLanes)
	VMOVDQU32(constants["highLanes"], k.highLanes)
	k.starts()
	Label("super")
	for b := 0; b < scaleBytes; b += 64 {
		PREFETCHT1(Mem{Base: k.scales, Index: k.soon, Scale: 1, Disp: b})
	}
	k.products()
	k.flush()
	ADDQ(U32(uint32(k.bytes())), k.off)
	ADDQ(U32(sumBytes), k.sum)
	ADDQ(U32(scaleBytes), k.scales)
	DECQ(k.n)
	JNZ(LabelRef("super"))
	VZEROUPPER()
	RET()
}

// starts leaves where sums start: quants are multiplied with what makes them positive added, so it is minus that times
// the coefficients' sum.
func (k *quads) starts() {
	left, p, total, b := GP64(), Load(Param("coef"), GP64()), GP64(), GP64()
	MOVQ(k.count, left)
	SHLQ(U8(2), left)
	XORQ(total, total)
	Label("coefficient")
	MOVBQSX(Mem{Base: p}, b)
	ADDQ(b, total)
	INCQ(p)
	DECQ(left)
	JNZ(LabelRef("coefficient"))
	shift := uint8(3)
	if k.nibbles() == 1 {
		shift = 7
	}
	SHLQ(U8(shift), total)
	NEGQ(total)
	VPBROADCASTD(total.(reg.GP).As32(), k.start)
}

// products adds up all neurons' products with a superblock of outputs, and prefetches the same superblock of the
// neurons that come next.
func (k *quads) products() {
	vectors := k.bytes() / 64
	for _, s := range sums[:vectors*k.nibbles()*quarters] {
		VMOVDQA32(k.start, s)
	}
	left, at := GP64(), GP64()
	p, next, coef := Load(Param("rows"), GP64()), Load(Param("next"), GP64()), Load(Param("coef"), GP64())
	MOVQ(k.count, left)
	Label("quad")
	for r := range 4 {
		MOVQ(Mem{Base: next, Disp: 8 * r}, at)
		for b := 0; b < k.bytes(); b += 64 {
			PREFETCHT1(Mem{Base: at, Index: k.off, Scale: 1, Disp: b})
		}
	}
	VPBROADCASTD(Mem{Base: coef}, k.coefs)
	var from [4]reg.Register
	for r := range from {
		from[r] = GP64()
		MOVQ(Mem{Base: p, Disp: 8 * r}, from[r])
	}
	for v := range vectors {
		for r := range from {
			m := Mem{Base: from[r], Index: k.off, Scale: 1, Disp: 64 * v}
			if k.nibbles() == 1 {
				VPXORD(m, k.mask, k.row[r])
			} else {
				VMOVDQU32(m, k.row[r])
			}
		}
		k.interleave()
		for q, w := range k.row {
			to := sums[v*k.nibbles()*quarters+q:]
			if k.nibbles() == 1 {
				VPDPBUSD(k.coefs, w, to[0])
				continue
			}
			VPANDD(k.mask, w, k.low)
			VPDPBUSD(k.coefs, k.low, to[0])
			VPSRLW(U8(4), w, k.high)
			VPANDD(k.mask, k.high, k.high)
			VPDPBUSD(k.coefs, k.high, to[quarters])
		}
	}
	ADDQ(U8(32), p)
	ADDQ(U8(32), next)
	ADDQ(U8(4), coef)
	DECQ(left)
	JNZ(LabelRef("quad"))
}

// interleave turns vectors of four neurons' bytes into quarters. Each dword of a quarter has a byte of each neuron.
func (k *quads) interleave() {
	a, b, c, d := k.row[0], k.row[1], k.row[2], k.row[3]
	VPUNPCKLBW(b, a, k.low)
	VPUNPCKHBW(b, a, k.high)
	VPUNPCKLBW(d, c, k.spare)
	VPUNPCKHBW(d, c, d)
	VPUNPCKLWD(k.spare, k.low, a)
	VPUNPCKHWD(k.spare, k.low, b)
	VPUNPCKLWD(d, k.high, c)
	VPUNPCKHWD(d, k.high, d)
}

// flush adds a superblock's scaled integers to the sum. A vector of 64 bytes is two of the layout's vectors. Two
// quarters hold eight outputs of either of its lanes, at places of sixteen.
func (k *quads) flush() {
	nibbles, tmp, v := k.nibbles(), k.row[0], k.row[1]
	for i := range k.bytes() / 64 {
		for nibble := range nibbles {
			for u := range 2 {
				s := sums[(i*nibbles+nibble)*quarters+2*u:]
				VMOVDQA32(s[0], v)
				VPERMT2Q(s[1], k.lowLanes, v)
				VPERMT2Q(s[1], k.highLanes, s[0])
				for half, x := range []reg.VecPhysical{v, s[0]} {
					place := 2*(2*i+half+4*nibble) + u
					at := Mem{Base: k.sum, Disp: 64 * place}
					VCVTDQ2PS(x, x)
					VCVTPH2PS(Mem{Base: k.scales, Disp: 32 * place}, tmp)
					VMULPS(tmp, k.scale, tmp)
					VFMADD213PS(at, tmp, x)
					VMOVUPS(x, at)
				}
			}
		}
	}
}

// defineLanes defines how flush takes lanes from two vectors: the lower two of the first and of the second alternately,
// and then the upper ones.
func defineLanes() {
	for i, name := range []string{"lowLanes", "highLanes"} {
		constants[name] = GLOBL(name, RODATA|NOPTR)
		for lane := range 4 {
			for half := range 2 {
				DATA(8*(2*lane+half), U64(uint64(4*i+2*(lane/2)+8*(lane%2)+half)))
			}
		}
	}
}
