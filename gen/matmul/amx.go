package main

import (
	"encoding/binary"
	"fmt"
	"slices"

	. "github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/ir"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/powerinfer-go/powerinfer/internal/compute/cpu/layout"
)

// AMX multiplies tiles: 16 tokens' bytes of a block by those of 16 rows of weights, whose integer sums are exact. They
// go through memory, and are scaled in AVX-512 by the same operations as those of other kernels. One kernel serves all
// types whose scales have one form.
//
// Go's assembler knows none of the instructions: they are bytes, so that registers are chosen here.

// matrixForm is a form of weights in tiles; see layout.Matrix.
type matrixForm struct {
	name   string
	halves bool // of blocks have scales of their own
	minima bool
}

var matrixForms = []matrixForm{{name: "Scales"}, {name: "Minima", minima: true}, {name: "Halves", halves: true}}

func (f *matrixForm) bytes() int {
	switch {
	case f.halves:
		return layout.MatrixHalves
	case f.minima:
		return layout.MatrixMinima
	}
	return layout.MatrixScales
}

// Registers of a product. Tiles 0 and 1 hold activations, 2 and 3 weights, 4 and 5 sums.
var (
	tileX, xScales = reg.R8, reg.RAX
	tileW, scales  = reg.R9, reg.R10
	left, lane     = reg.R11, reg.R14
	sums, kept     = reg.R12, reg.R15
	line, xLine    = reg.R13, reg.RBX // hold lineBytes and actLine
	row, stride    = reg.RCX, reg.RDX // of the output
)

const (
	lineBytes = 4 * layout.MatrixRows
	sumBytes  = layout.MatrixTokens * lineBytes // of one tile
	actLine   = 32                              // bytes of a token's block
	actTile   = layout.MatrixTokens * actLine
)

func amx() {
	for i := range matrixForms {
		matrixForms[i].product()
	}
	defineTurns()
	fillMatrix()
	gatherMatrix()
}

// tileConfig is what LDTILECFG reads: palette 1, then each tile's bytes of a row and its rows.
func (f *matrixForm) tileConfig() []byte {
	k := 32 // elements of a product
	if f.halves {
		k = 16
	}
	config := make([]byte, 64)
	config[0] = 1
	for i, size := range [6][2]int{{layout.MatrixTokens, k}, {layout.MatrixTokens, k}, {k / 4, 64}, {k / 4, 64}, {layout.MatrixTokens, 64}, {layout.MatrixTokens, 64}} {
		binary.LittleEndian.PutUint16(config[16+2*i:], uint16(size[1]))
		config[48+i] = byte(size[0])
	}
	return config
}

// product emits the kernel of a form.
func (f *matrixForm) product() {
	config := "tiles" + f.name
	define(config, f.tileConfig())
	name := "matrix" + f.name + "AMX"
	TEXT(name, NOSPLIT, "func(out *float32, outStride uintptr, w *byte, n uintptr, acts *byte, groups uintptr, scratch *byte)")
	Doc(fmt.Sprintf("%s computes out[t][r] of %d tokens, whose superblocks are at acts, and of groups times %d rows. Scalar twin: tileGeneric in matmul_generic.go.", name, layout.MatrixTokens, layout.MatrixRows))
	local := AllocLocal(3 * 8)
	w, out, groups := local, local.Offset(8), local.Offset(16)
	LEAQ(constant(config), reg.RCX)
	tileBytes("LDTILECFG (CX)", 0xc4, 0xe2, 0x78, 0x49, 0x01)
	for _, p := range []struct {
		name string
		at   Mem
	}{{"w", w}, {"out", out}, {"groups", groups}} {
		Load(Param(p.name), reg.RCX)
		MOVQ(reg.RCX, p.at)
	}
	Load(Param("scratch"), sums)
	MOVQ(U32(lineBytes), line)
	MOVQ(U32(actLine), xLine)

	Label("group")
	Load(Param("acts"), tileX)
	LEAQ(Mem{Base: tileX, Disp: layout.MatrixActScale}, xScales)
	MOVQ(w, tileW)
	LEAQ(Mem{Base: tileW, Disp: layout.MatrixQuants}, scales)
	LEAQ(Mem{Base: sums, Disp: layout.MatrixKept}, kept)
	MOVQ(U32(8), lane)

	Label("lane")
	for t := range layout.MatrixTokens {
		VPXORD(matrixSum(t), matrixSum(t), matrixSum(t))
	}
	Load(Param("n"), left)
	Label("super")
	if f.halves {
		f.half(0)
		f.half(1)
		f.addHalves()
	} else {
		f.block(0)
		f.add(0)
		DECQ(left)
		JZ(LabelRef("summed"))
		f.block(1)
		f.add(1)
	}
	DECQ(left)
	JNZ(LabelRef("super"))
	Label("summed")
	for t := range layout.MatrixTokens {
		VMOVUPS(matrixSum(t), Mem{Base: kept, Disp: lineBytes * t})
	}
	ADDQ(U32(sumBytes), kept)
	f.nextLane()
	DECQ(lane)
	JNZ(LabelRef("lane"))

	f.sumLanes(out)
	ADDQ(U32(lineBytes), out)
	Load(Param("n"), left)
	IMUL3Q(U32(uint32(f.bytes())), left, left)
	ADDQ(left, w)
	DECQ(groups)
	JNZ(LabelRef("group"))
	tileBytes("TILERELEASE", 0xc4, 0xe2, 0x78, 0x49, 0xc0)
	VZEROUPPER()
	RET()
}

// matrixSum is the accumulator of token t, of which a lane belongs to a row.
func matrixSum(t int) reg.VecPhysical { return ymm[t].AsZ().(reg.VecPhysical) }

// nextLane goes back to the first superblock, and on to the next block of each.
func (f *matrixForm) nextLane() {
	for _, back := range []struct {
		step, on int
		p        reg.GPPhysical
	}{{layout.MatrixActs, actTile, tileX}, {layout.MatrixActs, lineBytes, xScales}, {f.bytes(), 8 * lineBytes, tileW}, {f.bytes(), lineBytes, scales}} {
		Load(Param("n"), left)
		IMUL3Q(U32(uint32(back.step)), left, left)
		SUBQ(U32(uint32(back.on)), left)
		SUBQ(left, back.p)
	}
}

// sumLanes adds the eight accumulators of each token as all kernels do.
func (f *matrixForm) sumLanes(out Mem) {
	MOVQ(out, row)
	Load(Param("outStride"), stride)
	LEAQ(Mem{Base: sums, Disp: layout.MatrixKept}, kept)
	MOVQ(U32(layout.MatrixTokens), left)
	Label("sum")
	at := func(lane int) Mem { return Mem{Base: kept, Disp: sumBytes * lane} }
	for i := range 4 {
		VMOVUPS(at(2*i), matrixSum(i))
		VADDPS(at(2*i+1), matrixSum(i), matrixSum(i))
	}
	VADDPS(matrixSum(1), matrixSum(0), matrixSum(0))
	VADDPS(matrixSum(3), matrixSum(2), matrixSum(2))
	VADDPS(matrixSum(2), matrixSum(0), matrixSum(0))
	VMOVUPS(matrixSum(0), Mem{Base: row})
	ADDQ(stride, row)
	ADDQ(U32(lineBytes), kept)
	DECQ(left)
	JNZ(LabelRef("sum"))
}

// block leaves the sums of a block in half i of the scratch memory.
func (f *matrixForm) block(i int) {
	tileMemory("TILELOADD", i, 0, tileX, xLine)
	tileMemory("TILELOADD", 2+i, 0, tileW, line)
	f.multiply(i)
	ADDQ(U32(layout.MatrixActs), tileX)
	ADDQ(U32(uint32(f.bytes())), tileW)
}

// half does so for half a block.
func (f *matrixForm) half(i int) {
	tileMemory("TILELOADD", i, 16*i, tileX, xLine)
	tileMemory("TILELOADD", 2+i, 4*lineBytes*i, tileW, line)
	f.multiply(i)
}

func (f *matrixForm) multiply(i int) {
	tileBytes(fmt.Sprintf("TILEZERO TMM%d", 4+i), 0xc4, 0xe2, 0x7b, 0x49, byte(0xc0|(4+i)<<3))
	tileBytes(fmt.Sprintf("TDPBSSD TMM%d, TMM%d, TMM%d", 2+i, i, 4+i), 0xc4, 0xe2, byte(^(2+i)&15)<<3|3, 0x5e, byte(0xc0|(4+i)<<3|i))
	tileMemory("TILESTORED", 4+i, sumBytes*i, sums, line)
}

// scaleOf addresses a block's number of token t, of those that begin at disp of a superblock.
func scaleOf(t, disp int) Mem { return Mem{Base: xScales, Disp: disp - layout.MatrixActScale + 4*t} }

// add adds the sums in half i of the scratch memory, scaled, to the accumulators.
func (f *matrixForm) add(i int) {
	dw, m := matrixSum(16), matrixSum(17)
	VMOVUPS(Mem{Base: scales}, dw)
	if f.minima {
		VMOVUPS(Mem{Base: scales, Disp: 8 * lineBytes}, m)
	}
	for t := range layout.MatrixTokens {
		sum, s := matrixSum(18+2*(t%7)), matrixSum(19+2*(t%7))
		VCVTDQ2PS(Mem{Base: sums, Disp: sumBytes*i + lineBytes*t}, sum)
		VMULPS_BCST(scaleOf(t, layout.MatrixActScale), dw, s)
		VFMADD231PS(sum, s, matrixSum(t))
		if f.minima {
			VFNMADD231PS_BCST(scaleOf(t, layout.MatrixActDSum), m, matrixSum(t))
		}
	}
	f.nextSuper()
}

// addHalves does so with the sums of both halves, each times its scale: products of integers that float32 holds
// exactly, so that what rounds is the addition alone, as where a sum of integers is turned into a float.
func (f *matrixForm) addHalves() {
	ADDQ(U32(layout.MatrixActs), tileX)
	ADDQ(U32(uint32(f.bytes())), tileW)
	dw, s0, s1 := matrixSum(16), matrixSum(17), matrixSum(18)
	VMOVUPS(Mem{Base: scales}, dw)
	VMOVUPS(Mem{Base: scales, Disp: 8 * lineBytes}, s0)
	VMOVUPS(Mem{Base: scales, Disp: 16 * lineBytes}, s1)
	for t := range layout.MatrixTokens {
		at := 19 + 3*(t%4)
		a, b, s := matrixSum(at), matrixSum(at+1), matrixSum(at+2)
		VCVTDQ2PS(Mem{Base: sums, Disp: lineBytes * t}, a)
		VCVTDQ2PS(Mem{Base: sums, Disp: sumBytes + lineBytes*t}, b)
		VMULPS(s0, a, a)
		VFMADD231PS(s1, b, a)
		VMULPS_BCST(scaleOf(t, layout.MatrixActScale), dw, s)
		VFMADD231PS(a, s, matrixSum(t))
	}
	f.nextSuper()
}

func (f *matrixForm) nextSuper() {
	ADDQ(U32(layout.MatrixActs), xScales)
	ADDQ(U32(uint32(f.bytes())), scales)
}

// tileMemory emits a load or a store of a tile, whose rows lie stride bytes apart.
func tileMemory(mnemonic string, tile, disp int, base, stride reg.GPPhysical) {
	prefix, text := byte(0x7b), fmt.Sprintf("(%s)(%s*1)", base.Asm(), stride.Asm())
	if disp != 0 {
		text = fmt.Sprintf("%#x%s", disp, text)
	}
	if mnemonic == "TILESTORED" {
		prefix, text = 0x7a, fmt.Sprintf("%s TMM%d, %s", mnemonic, tile, text)
	} else {
		text = fmt.Sprintf("%s %s, TMM%d", mnemonic, text, tile)
	}
	b, s := number(base), number(stride)
	code := []byte{0xc4, 1<<7 | (^s>>3&1)<<6 | (^b>>3&1)<<5 | 2, prefix, 0x4b, byte(tile)<<3 | 4, (s&7)<<3 | b&7}
	switch {
	case disp > 127:
		code[4] |= 2 << 6
		code = binary.LittleEndian.AppendUint32(code, uint32(disp))
	case disp > 0:
		code[4] |= 1 << 6
		code = append(code, byte(disp))
	}
	tileBytes(text, code...)
}

// number is a general register's number in encodings.
func number(r reg.GPPhysical) byte { return byte(r.PhysicalIndex()) }

// tileBytes emits an instruction, which text names.
func tileBytes(text string, code ...byte) {
	Comment("VEX." + text)
	for len(code) >= 4 {
		Instruction(&ir.Instruction{Opcode: "LONG", Operands: []Op{U32(binary.LittleEndian.Uint32(code))}})
		code = code[4:]
	}
	for _, b := range code {
		Instruction(&ir.Instruction{Opcode: "BYTE", Operands: []Op{U8(b)}})
	}
}

// defineTurns defines the places from which the three steps of a transposition take dwords out of two vectors: 16 rows
// of 8 dwords, two rows to a vector, become 8 vectors of 16 rows. After step s a vector holds, of each of its numbers,
// 4<<s rows.
func defineTurns() {
	for i := range 2 {
		var turn [3][]byte
		for e := range 16 {
			r, j := e%4, e/4
			turn[0] = append(turn[0], byte(r>>1*16+r&1*8+4*i+j), 0, 0, 0)
			r, j = e%8, e/8
			turn[1] = append(turn[1], byte(r>>2*16+(2*i+j)*4+r&3), 0, 0, 0)
			turn[2] = append(turn[2], byte(e>>3*16+i*8+e&7), 0, 0, 0)
		}
		for s := range turn {
			define(fmt.Sprintf("turn%dto%d", s, i), turn[s])
		}
	}
}

// turner transposes.
type turner struct {
	turns [3][2]reg.VecPhysical
	free  reg.VecPhysical
}

// newTurner loads the places of so many steps.
func newTurner(k *tile, steps int) *turner {
	t := &turner{free: k.vec()}
	for s := range steps {
		for i := range 2 {
			t.turns[s][i] = k.vec()
			VMOVDQU32(constant(fmt.Sprintf("turn%dto%d", s, i)), t.turns[s][i])
		}
	}
	return t
}

// step turns neighbours of v, which lie distance apart, in place.
func (t *turner) step(s int, v []reg.VecPhysical) []reg.VecPhysical {
	first, second := make([]reg.VecPhysical, 0, len(v)/2), make([]reg.VecPhysical, 0, len(v)/2)
	for i := 0; i < len(v); i += 2 {
		a, b, c := v[i], v[i+1], t.free
		VMOVDQA32(a, c)
		VPERMT2D(b, t.turns[s][0], a)
		VPERMT2D(b, t.turns[s][1], c)
		t.free = b
		first, second = append(first, a), append(second, c)
	}
	return append(first, second...)
}

// turned returns the vectors of numbers 0 to 7 of v's eight pairs of rows.
func (t *turner) turned(v []reg.VecPhysical) []reg.VecPhysical {
	v = t.step(0, v) // lower numbers of rows 0…, then upper ones
	lower, upper := t.step(1, v[:4]), t.step(1, v[4:])
	var out []reg.VecPhysical
	for _, pair := range [][]reg.VecPhysical{lower[:2], lower[2:], upper[:2], upper[2:]} {
		out = append(out, t.step(2, pair)...)
	}
	return out
}

// fillMatrix emits what makes tiles of a panel's rows.
func fillMatrix() {
	name := "fillMatrixAMX"
	TEXT(name, NOSPLIT, "func(dst *byte, dstStep uintptr, w *byte, pairBytes uintptr, step uintptr, n uintptr, offset uintptr, form uintptr)")
	Doc(fmt.Sprintf("%s makes tiles of n superblocks of %d rows of a panel. Scalar twin: fillMatrixGeneric in amx_amd64.go.", name, layout.MatrixRows))
	k := &tile{isa: "VNNI", wide: true}
	t := newTurner(k, 3)
	v := k.vecs(8)
	offset := k.vec()
	o := GP64()
	Load(Param("offset"), o)
	VPBROADCASTB(o.As32(), offset)
	dst, dstStep := Load(Param("dst"), GP64()), Load(Param("dstStep"), GP64())
	w, pairBytes := Load(Param("w"), GP64()), Load(Param("pairBytes"), GP64())
	step, n, form := Load(Param("step"), GP64()), Load(Param("n"), GP64()), Load(Param("form"), GP64())
	pairs3, upper, group, to := GP64(), GP64(), GP64(), GP64()
	LEAQ(Mem{Base: pairBytes, Index: pairBytes, Scale: 2}, pairs3)
	Label("super")
	LEAQ(Mem{Base: w, Index: pairBytes, Scale: 4}, upper)
	load := func(disp int) {
		for p := range 4 {
			VMOVDQU32(strided(w, pairBytes, pairs3, p, disp), v[p])
			VMOVDQU32(strided(upper, pairBytes, pairs3, p, disp), v[4+p])
		}
	}
	store := func(v []reg.VecPhysical, p reg.Register, disp, apart int) {
		for j := range v {
			VMOVDQU32(v[j], Mem{Base: p, Disp: disp + apart*j})
		}
	}
	load(2 * layout.PanelScale)
	v = t.turned(v)
	store(v, dst, layout.MatrixQuants, lineBytes)
	CMPQ(form, U8(layout.FormMinima))
	JLT(LabelRef("quants"))
	load(2 * layout.PanelMin)
	v = t.turned(v)
	JNE(LabelRef("halves"))
	store(v, dst, layout.MatrixQuants+8*lineBytes, lineBytes)
	JMP(LabelRef("quants"))
	Label("halves")
	for _, r := range v {
		VPSLLD(U8(16), r, t.free)
		VPSRAD(U8(16), t.free, t.free)
		VCVTDQ2PS(t.free, t.free)
		VMOVUPS(t.free, Mem{Base: dst, Disp: layout.MatrixQuants + 8*lineBytes + lineBytes*slices.Index(v, r)})
		VPSRAD(U8(16), r, r)
		VCVTDQ2PS(r, r)
	}
	store(v, dst, layout.MatrixQuants+16*lineBytes, lineBytes)
	Label("quants")
	MOVQ(dst, to)
	MOVQ(U32(8), group)
	Label("group")
	load(2 * layout.PanelQuants)
	for _, r := range v {
		VPSUBB(offset, r, r)
	}
	v = t.turned(v)
	store(v, to, 0, 8*lineBytes)
	ADDQ(U32(64), w)
	ADDQ(U32(64), upper)
	ADDQ(U32(lineBytes), to)
	DECQ(group)
	JNZ(LabelRef("group"))
	SUBQ(U32(8*64), w)
	ADDQ(step, w)
	ADDQ(dstStep, dst)
	DECQ(n)
	JNZ(LabelRef("super"))
	VZEROUPPER()
	RET()
}

// gatherMatrix emits what arranges the activations of a tile's tokens.
func gatherMatrix() {
	name := "gatherMatrixAMX"
	TEXT(name, NOSPLIT, "func(dst *byte, x *byte, xStride uintptr, n uintptr)")
	Doc(fmt.Sprintf("%s arranges n superblocks of activations of %d tokens in tiles. Scalar twin: gatherMatrixGeneric in amx_amd64.go.", name, layout.MatrixTokens))
	k := &tile{isa: "VNNI", wide: true}
	t := newTurner(k, 3)
	v := k.vecs(8)
	dst, x, n := Load(Param("dst"), GP64()), Load(Param("x"), GP64()), Load(Param("n"), GP64())
	stride := Load(Param("xStride"), GP64())
	stride3 := GP64()
	LEAQ(Mem{Base: stride, Index: stride, Scale: 2}, stride3)
	quads := []reg.Register{x, GP64(), GP64(), GP64()}
	for i := range 3 {
		LEAQ(Mem{Base: quads[i], Index: stride, Scale: 4}, quads[i+1])
	}
	at := func(token, disp int) Mem { return strided(quads[token/4], stride, stride3, token%4, disp) }
	Label("super")
	for _, numbers := range [][2]int{{layout.ActScale, layout.MatrixActScale}, {layout.ActDSum, layout.MatrixActDSum}} {
		for p := range 8 {
			VMOVDQU32(at(2*p, numbers[0]), v[p].AsY())
			VINSERTI64X4(U8(1), at(2*p+1, numbers[0]), v[p], v[p])
		}
		v = t.turned(v)
		for i, r := range v {
			VMOVDQU32(r, Mem{Base: dst, Disp: numbers[1] + lineBytes*i})
		}
	}
	off, to, left := GP64(), GP64(), GP64()
	XORQ(off, off)
	MOVQ(dst, to)
	MOVQ(U32(4), left)
	Label("token")
	for quad, p := range quads {
		blocks := v[:4]
		for i, r := range blocks {
			VMOVDQU32(Mem{Base: p, Index: off, Scale: 1, Disp: 64 * i}, r)
		}
		blocks = t.step(0, blocks)
		blocks = append(t.step(1, blocks[:2]), t.step(1, blocks[2:])...)
		for i, r := range blocks { // two blocks each
			VMOVDQU32(r.AsY(), Mem{Base: to, Disp: 2*i*actTile + actLine*4*quad})
			VEXTRACTI64X4(U8(1), r, Mem{Base: to, Disp: (2*i+1)*actTile + actLine*4*quad})
		}
		v = append(blocks, v[4:]...)
	}
	ADDQ(stride, off)
	ADDQ(U32(actLine), to)
	DECQ(left)
	JNZ(LabelRef("token"))
	for _, p := range quads {
		ADDQ(U32(layout.ActBytes), p)
	}
	ADDQ(U32(layout.MatrixActs), dst)
	DECQ(n)
	JNZ(LabelRef("super"))
	VZEROUPPER()
	RET()
}
