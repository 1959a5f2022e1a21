package main

import (
	"encoding/binary"
	"fmt"
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/powerinfer-go/powerinfer/internal/compute/cpu/layout"
)

// Prompts' products by AMX: tiles of 16 rows of weights, stored row by row, times tiles of 16 tokens, stored by pairs
// of elements. Two tiles of rows and two of tokens give four tiles of sums, so each tile is used twice. The scalar twin
// is dotTilesGeneric in prompts.go.

// promptForm is which terms of weights are multiplied with which of activations, in this order.
type promptForm struct {
	name     string
	terms    int
	products [][2]int // term of weights, term of activations
}

var promptForms = []promptForm{
	{"BF16", 1, [][2]int{{0, 0}}},
	{"Terms", 2, [][2]int{{0, 0}, {0, 1}, {1, 0}}},
}

func amxPrompts() {
	defineTiles()
	for i := range promptForms {
		for tokens := 1; tokens <= 2; tokens++ {
			promptForms[i].product(tokens)
		}
	}
	turnSums()
	defineSpread()
	panelTiles()
	rowTiles()
	floatTiles("copyTilesBF16", 1)
	floatTiles("splitTilesF16", layout.TileTerms)
	roundSupers()
}

// product emits the kernel of a form for this many tiles of tokens. Tiles 0 to 3 hold sums, 4 and 5 weights, 6 and 7
// activations.
func (f *promptForm) product(tokens int) {
	name := fmt.Sprintf("prompt%s%dAMX", f.name, tokens)
	TEXT(name, NOSPLIT, "func(sums *float32, w *byte, n uintptr, x *byte, blocks uintptr, part uintptr, ahead *byte, aheadStep uintptr)")
	Doc(fmt.Sprintf("%s adds n groups' products of blocks times %d rows and %d tokens to sums, and prefetches two lines at ahead for each group of a block. Scalar twin: dotTilesGeneric in prompts.go.",
		name, 2*layout.MatrixRows, tokens*layout.MatrixTokens))
	sums, w, x, left, line, blocks, ahead, step := reg.R12, reg.R9, reg.R8, reg.R11, reg.R13, reg.R14, reg.RBX, reg.RDX
	configureTiles()
	for _, p := range []struct {
		name string
		to   reg.GPPhysical
	}{{"sums", sums}, {"w", w}, {"blocks", blocks}, {"ahead", ahead}, {"aheadStep", step}} {
		Load(Param(p.name), p.to)
	}
	MOVQ(U32(lineBytes), line)
	each := func(do func(sum, r, t int)) {
		for r := range 2 {
			for t := range tokens {
				do(tokens*r+t, r, t)
			}
		}
	}
	Label("block")
	Load(Param("x"), x)
	Load(Param("n"), left)
	Load(Param("part"), reg.RCX)
	TESTQ(U32(layout.FirstPart), reg.RCX)
	JZ(LabelRef("goOn"))
	each(func(sum, _, _ int) { zeroTile(sum) })
	JMP(LabelRef("group"))
	Label("goOn")
	each(func(sum, _, _ int) { tileMemory("TILELOADD", sum, layout.PairTile*sum, sums, line) })
	Label("group")
	loaded := [2]int{-1, -1} // terms of weights and of activations
	for _, p := range f.products {
		for r := range 2 {
			if p[0] != loaded[0] {
				tileMemory("TILELOADD", 4+r, layout.PairTile*(2*p[0]+r), w, line)
			}
			for t := range tokens {
				if r == 0 && p[1] != loaded[1] {
					tileMemory("TILELOADD", 6+t, layout.PairTile*(tokens*p[1]+t), x, line)
				}
				multiplyTiles(4+r, 6+t, tokens*r+t)
			}
		}
		loaded = p
	}
	PREFETCHT1(Mem{Base: ahead})
	PREFETCHT1(Mem{Base: ahead, Disp: lineBytes})
	ADDQ(step, ahead)
	ADDQ(U32(uint32(2*layout.PairTile*f.terms)), w)
	ADDQ(U32(uint32(tokens*layout.PairTile*f.terms)), x)
	DECQ(left)
	JNZ(LabelRef("group"))
	each(func(sum, _, _ int) { tileMemory("TILESTORED", sum, layout.PairTile*sum, sums, line) })
	ADDQ(U32(uint32(2*tokens*layout.PairTile)), sums)
	DECQ(blocks)
	JNZ(LabelRef("block"))
	releaseTiles()
	RET()
}

// turnSums emits what brings sums to their place: a transposition of 16 rows of 16 tokens. Parts of 128 bits are put
// together as they are loaded.
func turnSums() {
	name := "turnSumsAMX"
	TEXT(name, NOSPLIT, "func(out *float32, outStride uintptr, sums *float32, sumStep uintptr, n uintptr, tokens uintptr)")
	Doc(fmt.Sprintf("%s writes n tiles of sums of %d rows each for the first tokens of %d. Scalar twin: turnSumsGeneric in prompts.go.", name, layout.MatrixRows, layout.MatrixTokens))
	k := &tile{isa: "BF16", wide: true}
	v, u := k.vecs(16), k.vecs(16)
	out, stride := Load(Param("out"), GP64()), Load(Param("outStride"), GP64())
	sums, step := Load(Param("sums"), GP64()), Load(Param("sumStep"), GP64())
	n, tokens, to := Load(Param("n"), GP64()), Load(Param("tokens"), GP64()), GP64()
	Label("tile")
	for q := range 4 { // tokens 4q… of rows i, 4+i, 8+i, 12+i
		for i := range 4 {
			at := func(r int) Mem { return Mem{Base: sums, Disp: lineBytes*r + 16*q} }
			to := v[4*q+i]
			VMOVUPS(at(i), to.AsX())
			VINSERTF32X4(U8(1), at(4+i), to, to)
			VINSERTF32X4(U8(2), at(8+i), to, to)
			VINSERTF32X4(U8(3), at(12+i), to, to)
		}
	}
	for q := range 4 {
		a, b := v[4*q:], u[4*q:]
		VUNPCKLPS(a[1], a[0], b[0])
		VUNPCKHPS(a[1], a[0], b[1])
		VUNPCKLPS(a[3], a[2], b[2])
		VUNPCKHPS(a[3], a[2], b[3])
		VUNPCKLPD(b[2], b[0], a[0])
		VUNPCKHPD(b[2], b[0], a[1])
		VUNPCKLPD(b[3], b[1], a[2])
		VUNPCKHPD(b[3], b[1], a[3])
	}
	MOVQ(out, to)
	for t := range layout.MatrixTokens {
		VMOVUPS(v[t], Mem{Base: to})
		if t < layout.MatrixTokens-1 {
			CMPQ(tokens, U8(byte(t+1)))
			JEQ(LabelRef("done"))
			ADDQ(stride, to)
		}
	}
	Label("done")
	ADDQ(step, sums)
	ADDQ(U8(lineBytes), out)
	DECQ(n)
	JNZ(LabelRef("tile"))
	VZEROUPPER()
	RET()
}

// defineSpread defines the places from which lanes take the scales of four blocks, four lanes each.
func defineSpread() {
	for h := range 2 {
		var b []byte
		for i := range 16 {
			b = append(b, byte(4*h+i/4), 0, 0, 0)
		}
		define(fmt.Sprintf("spread%d", h), b)
	}
	for _, bits := range []byte{0x0f, 0x10, 0x30} {
		define(fmt.Sprintf("dword%02x", bits), repeat(bits, 0, 0, 0))
	}
	for _, n := range []int{8, 32} {
		define(fmt.Sprintf("float%d", n), repeat(binary.LittleEndian.AppendUint32(nil, math.Float32bits(float32(n)))...))
	}
}

// panelTiles emits what makes tiles of a panel's rows: values, rounded to BF16, of blocks of 32 elements four from each.
func panelTiles() {
	name := "panelTilesAMX"
	TEXT(name, NOSPLIT, "func(dst *byte, step uintptr, panel *byte, pairBytes uintptr, superBytes uintptr, n uintptr, offset float32, form uintptr)")
	Doc(fmt.Sprintf("%s makes tiles of n superblocks of %d rows of a panel, whose quants lie offset above their values. Scalar twin: superblock in unpack.go.", name, layout.MatrixRows))
	k := &tile{isa: "BF16", wide: true}
	offset, all := k.vec(), k.vec()
	index := k.vecs(2)
	var scale, least [2][2]reg.VecPhysical // [half of blocks][blocks 0 to 3, blocks 4 to 7]
	for h := range 2 {
		scale[h], least[h] = [2]reg.VecPhysical(k.vecs(2)), [2]reg.VecPhysical(k.vecs(2))
	}
	words, w := k.vec(), k.vecs(8)
	at, err := Param("offset").Resolve()
	if err != nil {
		panic(err)
	}
	VBROADCASTSS(at.Addr, offset)
	for h := range index {
		VMOVDQU32(constant(fmt.Sprintf("spread%d", h)), index[h])
	}
	dst, step := Load(Param("dst"), GP64()), Load(Param("step"), GP64())
	pair, from, form, left, odd, to, to4, step3 := GP64(), GP64(), Load(Param("form"), GP64()), GP64(), GP64(), GP64(), GP64(), GP64()
	LEAQ(Mem{Base: step, Index: step, Scale: 2}, step3)
	spread := func(v reg.VecPhysical, to [2]reg.VecPhysical) {
		for q := range 2 {
			VPERMPS(v, index[q], to[q])
		}
	}
	part := func(disp int) Mem { return Mem{Base: from, Disp: 2 * disp} }
	// word leaves the numbers in the lower or upper words of eight lanes as floats.
	word := func(disp, h int, v reg.VecPhysical) {
		y := v.AsY()
		if h == 0 {
			VPSLLD(U8(16), part(disp), y)
			VPSRAD(U8(16), y, y)
		} else {
			VPSRAD(U8(16), part(disp), y)
		}
		VCVTDQ2PS(y, y)
	}
	offsets := func(h int) {
		for q := range 2 {
			VMULPS(offset, scale[h][q], least[h][q])
		}
	}
	Label("super")
	Load(Param("panel"), pair)
	MOVQ(U32(layout.MatrixRows), left)
	XORQ(odd, odd)
	Label("row")
	LEAQ(Mem{Base: pair, Index: odd, Scale: 1}, from)
	VMOVUPS(part(layout.PanelScale), all.AsY())
	CMPQ(form, U8(layout.FormMinima))
	JGT(LabelRef("halves"))
	for h := range 2 {
		spread(all, scale[h])
		offsets(h)
	}
	JLT(LabelRef("quants")) // VMULPS leaves the flags
	VMOVUPS(part(layout.PanelMin), all.AsY())
	for h := range 2 {
		spread(all, least[h])
	}
	JMP(LabelRef("quants"))
	Label("halves")
	CMPQ(form, U8(layout.FormHalfMinima))
	JGT(LabelRef("small"))
	JEQ(LabelRef("halfMinima"))
	for h := range 2 {
		word(layout.PanelMin, h, words)
		VMULPS(all.AsY(), words.AsY(), words.AsY())
		spread(words, scale[h])
		offsets(h)
	}
	JMP(LabelRef("quants"))
	Label("halfMinima")
	for h := range 2 {
		spread(all, scale[h])
	}
	VMOVUPS(part(layout.PanelLeast+32), all.AsY())
	for h := range 2 {
		word(layout.PanelLeast, h, words)
		VMULPS(all.AsY(), words.AsY(), words.AsY())
		spread(words, least[h])
	}
	JMP(LabelRef("quants"))
	Label("small")
	spread(all, scale[0])
	VMOVUPS(part(layout.PanelMin), all.AsY())
	spread(all, scale[1])
	for h := range 2 {
		offsets(h)
	}
	Label("quants")
	MOVQ(dst, to)
	LEAQ(Mem{Base: dst, Index: step, Scale: 4}, to4)
	for v := range 8 {
		half, x := v/4, w[2*(v%4):]
		for q := range 2 {
			m := part(layout.PanelQuants + 32*v)
			m.Disp += 16 * q
			VPMOVZXBD(m, x[q])
			VCVTDQ2PS(x[q], x[q])
			VFMSUB213PS(least[half][q], scale[half][q], x[q])
		}
		toBF16(x[0], x[1], x[0])
		VMOVDQU32(x[0], strided([]reg.Register{to, to4}[half], step, step3, v%4, 0))
	}
	ADDQ(U8(lineBytes), dst)
	XORQ(U8(32), odd)
	JNZ(LabelRef("second"))
	ADDQ(Load(Param("pairBytes"), from), pair)
	Label("second")
	DECQ(left)
	JNZ(LabelRef("row"))
	LEAQ(Mem{Base: dst, Index: step, Scale: 8, Disp: -lineBytes * layout.MatrixRows}, dst)
	MOVQ(argument("superBytes"), from)
	ADDQ(from, argument("panel"))
	DECQ(argument("n"))
	JNZ(LabelRef("super"))
	VZEROUPPER()
	RET()
}

// floatTiles emits the function that makes tiles of rows of 16 bits: BF16 unchanged, F16 as this many terms.
func floatTiles(name string, terms int) {
	TEXT(name, NOSPLIT, "func(dst *byte, step uintptr, w *byte, rowBytes uintptr, n uintptr, rows uintptr)")
	Doc(fmt.Sprintf("%s makes tiles of n groups of rows, as %d terms of BF16. Scalar twin: splitGeneric in terms.go.", name, terms))
	k := &tile{isa: "BF16", wide: true}
	lo, hi, rounded, back := k.vec(), k.vec(), k.vec(), k.vec()
	dst, step := Load(Param("dst"), GP64()), Load(Param("step"), GP64())
	w, rowBytes := Load(Param("w"), GP64()), Load(Param("rowBytes"), GP64())
	n, rows := Load(Param("n"), GP64()), Load(Param("rows"), GP64())
	from, to, left := GP64(), GP64(), GP64()
	Label("group")
	MOVQ(w, from)
	MOVQ(dst, to)
	MOVQ(rows, left)
	Label("row")
	if terms == 1 {
		VMOVDQU32(Mem{Base: from}, rounded)
		VMOVDQU32(rounded, Mem{Base: to})
	} else {
		VCVTPH2PS(Mem{Base: from}, lo)
		VCVTPH2PS(Mem{Base: from, Disp: 32}, hi)
		for t := range terms {
			toBF16(lo, hi, rounded)
			VMOVDQU32(rounded, Mem{Base: to, Disp: 2 * layout.PairTile * t})
			if t == terms-1 {
				break
			}
			VPMOVZXWD(rounded.AsY(), back)
			VPSLLD(U8(16), back, back)
			VSUBPS(back, lo, lo)
			VEXTRACTI64X4(U8(1), rounded, rounded.AsY())
			VPMOVZXWD(rounded.AsY(), back)
			VPSLLD(U8(16), back, back)
			VSUBPS(back, hi, hi)
		}
	}
	ADDQ(rowBytes, from)
	ADDQ(U8(lineBytes), to)
	DECQ(left)
	JNZ(LabelRef("row"))
	ADDQ(U8(lineBytes), w)
	ADDQ(step, dst)
	DECQ(n)
	JNZ(LabelRef("group"))
	VZEROUPPER()
	RET()
}

// roundSupers emits the function that rounds superblocks of activations to BF16, in the order of tiles of quantised
// types: group v of 32 has elements 4v… of each block.
func roundSupers() {
	name := "roundSupersBF16"
	TEXT(name, NOSPLIT, "func(dst *byte, x *float32, n uintptr)")
	Pragma("noescape") // or a row's padded rest would be allocated
	Doc(fmt.Sprintf("%s writes n superblocks of activations as BF16, groups of four elements of each block. Scalar twin: place in unpack.go.", name))
	k := &tile{isa: "BF16", wide: true}
	v, u := k.vecs(8), k.vecs(8)
	dst, x, n := Load(Param("dst"), GP64()), Load(Param("x"), GP64()), Load(Param("n"), GP64())
	Label("super")
	for j := range v {
		VMOVUPS(Mem{Base: x, Disp: 128 * j}, u[0])
		VMOVUPS(Mem{Base: x, Disp: 128*j + 64}, u[1])
		toBF16(u[0], u[1], v[j])
	}
	for i := 0; i < 8; i += 2 { // u: quads 0, 2, 4, 6 of blocks i and i+1, then 1, 3, 5, 7
		VPUNPCKLQDQ(v[i+1], v[i], u[i])
		VPUNPCKHQDQ(v[i+1], v[i], u[i+1])
	}
	for odd := range 2 {
		for i := 0; i < 8; i += 4 { // v: of four blocks, quads odd and odd+4 of blocks i, i+1, i+2, i+3, then odd+2 and odd+6
			VSHUFI64X2(U8(0x88), u[i+2+odd], u[i+odd], v[i+2*odd])
			VSHUFI64X2(U8(0xdd), u[i+2+odd], u[i+odd], v[i+2*odd+1])
		}
	}
	for odd := range 2 {
		for two := range 2 { // of all blocks
			a, b := v[2*odd+two], v[4+2*odd+two]
			group := odd + 2*two
			VSHUFI64X2(U8(0x88), b, a, u[0])
			VSHUFI64X2(U8(0xdd), b, a, u[1])
			VMOVDQU32(u[0], Mem{Base: dst, Disp: lineBytes * group})
			VMOVDQU32(u[1], Mem{Base: dst, Disp: lineBytes * (group + 4)})
		}
	}
	ADDQ(U32(1024), x)
	ADDQ(U32(512), dst)
	DECQ(n)
	JNZ(LabelRef("super"))
	VZEROUPPER()
	RET()
}
