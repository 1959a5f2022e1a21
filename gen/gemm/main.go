// Command gemm writes internal/compute/cpu/gemm/tile_amd64.s and its stubs: the tiles of float32 matrix products, and
// the transposition that packs their operands. The layouts are defined in package gemm (pack.go).
package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// panelRows is the number of rows that a panel of the left operand interleaves; gemm/pack.go holds the same.
const panelRows = 8

func main() {
	tile("AVX2", 4, 3, func() reg.VecVirtual { return YMM() }, 32)
	tile("AVX512", 8, 3, func() reg.VecVirtual { return ZMM() }, 64)
	transpose()
	Generate()
}

// tile emits c = alpha·a·b (+ c) for rows rows and vectors vectors of columns. The accumulators stay in registers
// over all of k; a step takes one element of each row and the vectors of one row of b.
func tile(isa string, rows, vectors int, vec func() reg.VecVirtual, width int) {
	name := fmt.Sprintf("tile%dx%d%s", rows, vectors*width/4, isa)
	TEXT(name, NOSPLIT, "func(c *float32, stride uintptr, a, b *float32, k uintptr, alpha float32, add uintptr)")
	Pragma("noescape")
	Doc(fmt.Sprintf("%s computes c [%d, %d] = alpha·a·b, plus c where add is not 0. stride is c's, in bytes; a lies in rows of %d, b in rows of %d. k > 0. Scalar twin: tileGeneric in tile.go.",
		name, rows, vectors*width/4, panelRows, vectors*width/4))
	c, stride := Load(Param("c"), GP64()), Load(Param("stride"), GP64())
	a, b, k := Load(Param("a"), GP64()), Load(Param("b"), GP64()), Load(Param("k"), GP64())
	row := GP64()
	MOVQ(c, row)
	acc := make([][]reg.VecVirtual, rows)
	for r := range acc {
		for range vectors {
			v := vec()
			clear0(v)
			acc[r] = append(acc[r], v)
		}
		for at := 0; at < vectors*width; at += 64 {
			PREFETCHT0(Mem{Base: row, Disp: at})
		}
		PREFETCHT0(Mem{Base: row, Disp: vectors*width - 4})
		ADDQ(stride, row)
	}
	w := make([]reg.VecVirtual, vectors)
	for v := range w {
		w[v] = vec()
	}
	x := vec()
	step := func(u int) {
		for v := range w {
			VMOVUPS(Mem{Base: b, Disp: (u*vectors + v) * width}, w[v])
		}
		for r := range acc {
			VBROADCASTSS(Mem{Base: a, Disp: 4 * (u*panelRows + r)}, x)
			for v := range w {
				VFMADD231PS(w[v], x, acc[r][v])
			}
		}
	}
	steps := func(n int) {
		for u := range n {
			step(u)
		}
		ADDQ(U32(uint32(4*panelRows*n)), a)
		ADDQ(U32(uint32(width*vectors*n)), b)
	}
	const unrolled = 4
	Label("by4")
	CMPQ(k, U8(unrolled))
	JLT(LabelRef("by1"))
	steps(unrolled)
	SUBQ(U8(unrolled), k)
	JMP(LabelRef("by4"))
	Label("by1")
	TESTQ(k, k)
	JEQ(LabelRef("store"))
	steps(1)
	DECQ(k)
	JMP(LabelRef("by1"))
	Label("store")
	alpha, err := Param("alpha").Resolve()
	if err != nil {
		panic(err)
	}
	VBROADCASTSS(alpha.Addr, x)
	add := Load(Param("add"), GP64())
	TESTQ(add, add)
	JEQ(LabelRef("write"))
	each := func(f func(v reg.VecVirtual, at Mem)) {
		for r := range acc {
			for v := range acc[r] {
				f(acc[r][v], Mem{Base: c, Disp: v * width})
			}
			ADDQ(stride, c)
		}
		VZEROUPPER()
		RET()
	}
	each(func(v reg.VecVirtual, at Mem) {
		VFMADD213PS(at, x, v)
		VMOVUPS(v, at)
	})
	Label("write")
	each(func(v reg.VecVirtual, at Mem) {
		VMULPS(x, v, v)
		VMOVUPS(v, at)
	})
}

func clear0(v reg.VecVirtual) {
	if v.Size() == 64 {
		VPXORD(v, v, v)
		return
	}
	VXORPS(v, v, v)
}

// transpose emits the transposition of 8 rows, eight columns at a time.
func transpose() {
	TEXT("transposeAVX2", NOSPLIT, "func(dst *float32, dstStride uintptr, src *float32, srcStride uintptr, n uintptr)")
	Pragma("noescape")
	Doc("transposeAVX2 writes columns of 8 rows as rows: dst[j][i] = src[i][j] for i < 8, j < 8·n. Strides are in bytes. n > 0. Scalar twin: transposeGeneric in pack.go.")
	dst, dstStride := Load(Param("dst"), GP64()), Load(Param("dstStride"), GP64())
	src, srcStride := Load(Param("src"), GP64()), Load(Param("srcStride"), GP64())
	n, p := Load(Param("n"), GP64()), GP64()
	Label("loop")
	r, t := make([]reg.VecVirtual, 8), make([]reg.VecVirtual, 8)
	MOVQ(src, p)
	for i := range r {
		r[i], t[i] = YMM(), YMM()
		VMOVUPS(Mem{Base: p}, r[i])
		if i < 7 {
			ADDQ(srcStride, p)
		}
	}
	for i := 0; i < 8; i += 2 { // pairs of rows
		VUNPCKLPS(r[i+1], r[i], t[i])
		VUNPCKHPS(r[i+1], r[i], t[i+1])
	}
	for i := 0; i < 8; i += 4 { // fours of rows
		VSHUFPS(U8(0x44), t[i+2], t[i], r[i])
		VSHUFPS(U8(0xee), t[i+2], t[i], r[i+1])
		VSHUFPS(U8(0x44), t[i+3], t[i+1], r[i+2])
		VSHUFPS(U8(0xee), t[i+3], t[i+1], r[i+3])
	}
	for half := range 2 {
		for i := range 4 {
			VPERM2F128(U8(0x20|uint8(0x11*half)), r[i+4], r[i], t[0])
			VMOVUPS(t[0], Mem{Base: dst})
			ADDQ(dstStride, dst)
		}
	}
	ADDQ(U8(32), src)
	DECQ(n)
	JNZ(LabelRef("loop"))
	VZEROUPPER()
	RET()
}
