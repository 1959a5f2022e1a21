package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/powerinfer-go/powerinfer/internal/compute/cpu/layout"
)

// Products of floats by AMX, in tiles of BF16. They multiply a group's pairs of 16 tokens with those of 16 rows of
// weights. They take two tiles of rows at a time, and two tiles of tokens if there are that many. Weights and
// activations may be sums of several BF16 numbers, their terms; see layout.PairTile. The scalar twin is dotTermsGeneric
// in terms.go.

// termForm is which terms of weights are multiplied with which of activations, in this order.
type termForm struct {
	name     string
	acts     int      // terms of activations
	products [][2]int // term of weights, term of activations
}

var termForms = []termForm{
	{"Two", 2, [][2]int{{1, 0}, {0, 0}, {0, 1}}},
	{"Three", 3, [][2]int{{0, 0}, {0, 1}, {0, 2}, {1, 0}, {1, 1}}},
}

func amxFloats() {
	for i := range termForms {
		for tokens := 1; tokens <= 2; tokens++ {
			termForms[i].product(tokens)
		}
		splitFloats("split"+termForms[i].name, termForms[i].acts)
		weighTerms("weigh"+termForms[i].name+"AMX", termForms[i].acts)
	}
	fillPairs()
	zipPairs()
}

// Tiles 0 to 3 hold sums, of the tokens' tile and the rows' tile i at 2·tokens+i; 4 and 5 activations, 6 and 7 weights.
const (
	tileActs    = 4
	tileWeights = 6
)

// product emits the kernel of a form for this many tiles of tokens.
func (f *termForm) product(tokens int) {
	name := fmt.Sprintf("pairs%s%dAMX", f.name, tokens)
	TEXT(name, NOSPLIT, "func(config *byte, out *float32, outStride uintptr, w *byte, n uintptr, x *byte, xStride uintptr, term uintptr, part uintptr)")
	Doc(fmt.Sprintf("%s computes n groups of %d rows, for as many tokens as config has rows of activations. Scalar twin: dotTermsGeneric in terms.go.", name, 2*layout.MatrixRows))
	stride, outStride, tile, left, line := reg.RAX, reg.RBX, reg.R9, reg.R11, reg.R13
	out := []reg.GPPhysical{reg.R12, reg.R14}
	acts := [][]reg.GPPhysical{{reg.R8, reg.RSI, reg.RDI}, {reg.R10, reg.R15, reg.RCX}} // by tile of tokens, by term
	Load(Param("config"), reg.RCX)
	tileBytes("LDTILECFG (CX)", 0xc4, 0xe2, 0x78, 0x49, 0x01)
	for _, p := range []struct {
		name string
		to   reg.GPPhysical
	}{{"out", out[0]}, {"outStride", outStride}, {"w", tile}, {"n", left}, {"x", acts[0][0]}, {"xStride", stride}} {
		Load(Param(p.name), p.to)
	}
	next := func(from, stride, to reg.GPPhysical) { // 16 rows on
		MOVQ(stride, to)
		SHLQ(U8(4), to)
		ADDQ(from, to)
	}
	if tokens > 1 {
		next(out[0], outStride, out[1])
		next(acts[0][0], stride, acts[1][0])
	}
	Load(Param("term"), reg.RDX)
	for t := range tokens {
		for i := 1; i < f.acts; i++ {
			LEAQ(Mem{Base: acts[t][0], Index: reg.RDX, Scale: uint8(i)}, acts[t][i])
		}
	}
	MOVQ(U32(lineBytes), line)

	Load(Param("part"), reg.RDX)
	TESTQ(U32(layout.FirstPart), reg.RDX)
	JZ(LabelRef("goOn"))
	sums := func(do func(sum, t, r int)) {
		for t := range tokens {
			for r := range 2 {
				do(2*t+r, t, r)
			}
		}
	}
	sums(func(sum, _, _ int) {
		tileBytes(fmt.Sprintf("TILEZERO TMM%d", sum), 0xc4, 0xe2, 0x7b, 0x49, byte(0xc0|sum<<3))
	})
	JMP(LabelRef("group"))
	Label("goOn")
	sums(func(sum, t, r int) { tileMemory("TILELOADD", sum, r*lineBytes, out[t], outStride) })

	Label("group")
	loaded := [2]int{-1, -1} // terms of weights and of activations
	for _, p := range f.products {
		if p[0] != loaded[0] {
			for r := range 2 {
				tileMemory("TILELOADD", tileWeights+r, layout.PairTile*(2*p[0]+r), tile, line)
			}
		}
		if p[1] != loaded[1] {
			for t := range tokens {
				tileMemory("TILELOADD", tileActs+t, 0, acts[t][p[1]], stride)
			}
		}
		loaded = p
		sums(func(sum, t, r int) {
			tileBytes(fmt.Sprintf("TDPBF16PS TMM%d, TMM%d, TMM%d", tileWeights+r, tileActs+t, sum), 0xc4, 0xe2, byte(^(tileWeights+r)&15)<<3|2, 0x5c, byte(0xc0|sum<<3|tileActs+t))
		})
	}
	ADDQ(U32(uint32(2*layout.PairTile*layout.WeightTerms)), tile)
	for t := range tokens {
		for _, p := range acts[t][:f.acts] {
			ADDQ(U32(lineBytes), p)
		}
	}
	DECQ(left)
	JNZ(LabelRef("group"))
	sums(func(sum, t, r int) { tileMemory("TILESTORED", sum, r*lineBytes, out[t], outStride) })
	tileBytes("TILERELEASE", 0xc4, 0xe2, 0x78, 0x49, 0xc0)
	RET()
}

// fillPairs emits what makes tiles of rows of BF16: a transposition of 16 rows of 16 pairs.
func fillPairs() {
	name := "fillPairsAMX"
	TEXT(name, NOSPLIT, "func(dst *byte, dstStep uintptr, w *byte, rowBytes uintptr, n uintptr)")
	Doc(fmt.Sprintf("%s makes tiles of n groups of %d rows of BF16. Scalar twin: fillPairsGeneric in terms.go.", name, layout.MatrixRows))
	k := &tile{isa: "BF16", wide: true}
	v := k.vecs(16)
	free := k.vecs(16)
	dst, step := Load(Param("dst"), GP64()), Load(Param("dstStep"), GP64())
	w, rowBytes, n := Load(Param("w"), GP64()), Load(Param("rowBytes"), GP64()), Load(Param("n"), GP64())
	rows3, from := GP64(), GP64()
	LEAQ(Mem{Base: rowBytes, Index: rowBytes, Scale: 2}, rows3)
	Label("group")
	MOVQ(w, from)
	for r := range v {
		VMOVDQU32(strided(from, rowBytes, rows3, r%4, 0), v[r])
		if r%4 == 3 && r < 15 {
			LEAQ(Mem{Base: from, Index: rowBytes, Scale: 4}, from)
		}
	}
	for i := 0; i < 16; i += 2 { // pairs of dwords, of rows i and i+1
		VPUNPCKLDQ(v[i+1], v[i], free[i])
		VPUNPCKHDQ(v[i+1], v[i], free[i+1])
	}
	for i := 0; i < 16; i += 4 { // dword j of each 128 bits, of rows i to i+3, is in v[i+j]
		VPUNPCKLQDQ(free[i+2], free[i], v[i])
		VPUNPCKHQDQ(free[i+2], free[i], v[i+1])
		VPUNPCKLQDQ(free[i+3], free[i+1], v[i+2])
		VPUNPCKHQDQ(free[i+3], free[i+1], v[i+3])
	}
	for j := range 4 { // for rows 0 to 7, and 8 to 15: 128 bits 0 and 2, then 1 and 3
		for h := range 2 {
			VSHUFI32X4(U8(0x88), v[8*h+4+j], v[8*h+j], free[4*j+2*h])
			VSHUFI32X4(U8(0xdd), v[8*h+4+j], v[8*h+j], free[4*j+2*h+1])
		}
	}
	for j := range 4 {
		a, b := free[4*j:][:2], free[4*j+2:][:2]
		for q := range 4 { // 128 bits q of all rows
			imm := []uint8{0x88, 0xdd}[q/2]
			VSHUFI32X4(U8(imm), b[q%2], a[q%2], v[0])
			VMOVDQU32(v[0], Mem{Base: dst, Disp: lineBytes * (4*q + j)})
		}
	}
	ADDQ(U8(64), w)
	ADDQ(step, dst)
	DECQ(n)
	JNZ(LabelRef("group"))
	VZEROUPPER()
	RET()
}

// zipPairs emits what makes a line of tiles of two rows, of their pairs: the elements at the same place.
func zipPairs() {
	name := "zipPairsAMX"
	TEXT(name, NOSPLIT, "func(dst *byte, step uintptr, even *byte, odd *byte, n uintptr)")
	Doc(fmt.Sprintf("%s writes n groups of 32 pairs of BF16, half of a group to a tile's line and half to the next tile's. Scalar twin: zipPairsGeneric in terms.go.", name))
	k := &tile{isa: "BF16", wide: true}
	low, high := k.vec(), k.vec()
	dst, step := Load(Param("dst"), GP64()), Load(Param("step"), GP64())
	even, odd, n := Load(Param("even"), GP64()), Load(Param("odd"), GP64()), Load(Param("n"), GP64())
	Label("group")
	for half := range 2 {
		VPMOVZXWD(Mem{Base: even, Disp: 32 * half}, low)
		VPMOVZXWD(Mem{Base: odd, Disp: 32 * half}, high)
		VPSLLD(U8(16), high, high)
		VPORD(high, low, low)
		VMOVDQU32(low, Mem{Base: dst, Disp: layout.PairTile * half})
	}
	ADDQ(U8(lineBytes), even)
	ADDQ(U8(lineBytes), odd)
	ADDQ(step, dst)
	DECQ(n)
	JNZ(LabelRef("group"))
	VZEROUPPER()
	RET()
}

// splitFloats emits the function that writes n groups of 32 numbers as this many terms each.
func splitFloats(from string, terms int) {
	name := from + "BF16"
	TEXT(name, NOSPLIT, "func(dst *byte, term uintptr, x *float32, n uintptr)")
	Pragma("noescape") // or a row's padded rest would be allocated
	Doc(fmt.Sprintf("%s writes n groups of 32 numbers as %d terms of BF16, term bytes apart. Scalar twin: splitGeneric in terms.go.", name, terms))
	k := &tile{isa: "BF16", wide: true}
	dst, term := Load(Param("dst"), GP64()), Load(Param("term"), GP64())
	x, n := Load(Param("x"), GP64()), Load(Param("n"), GP64())
	lo, hi, rounded, back := k.vec(), k.vec(), k.vec(), k.vec()
	to := GP64()
	Label("group")
	VMOVUPS(Mem{Base: x}, lo)
	VMOVUPS(Mem{Base: x, Disp: 64}, hi)
	ADDQ(U32(128), x)
	MOVQ(dst, to)
	for t := range terms {
		toBF16(lo, hi, rounded)
		VMOVDQU32(rounded, Mem{Base: to})
		if t == terms-1 {
			break
		}
		ADDQ(term, to)
		VPMOVZXWD(rounded.AsY(), back)
		VPSLLD(U8(16), back, back)
		VSUBPS(back, lo, lo)
		VEXTRACTI64X4(U8(1), rounded, rounded.AsY())
		VPMOVZXWD(rounded.AsY(), back)
		VPSLLD(U8(16), back, back)
		VSUBPS(back, hi, hi)
	}
	ADDQ(U8(64), dst)
	DECQ(n)
	JNZ(LabelRef("group"))
	VZEROUPPER()
	RET()
}
