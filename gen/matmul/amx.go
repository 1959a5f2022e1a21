package main

import (
	"encoding/binary"
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/ir"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/powerinfer-go/powerinfer/internal/compute/cpu/layout"
)

// AMX multiplies tiles. Go's assembler knows none of the instructions: they are bytes, so that registers are chosen here.

// lineBytes is the size of a tile's row.
const lineBytes = 64

// defineTiles defines what LDTILECFG reads: palette 1, then each tile's bytes of a row and its rows.
func defineTiles() {
	config := make([]byte, 64)
	config[0] = 1
	for i := range 8 {
		binary.LittleEndian.PutUint16(config[16+2*i:], lineBytes)
		config[48+i] = layout.MatrixRows
	}
	define("tiles", config)
}

func configureTiles() {
	LEAQ(constant("tiles"), reg.RCX)
	tileBytes("LDTILECFG (CX)", 0xc4, 0xe2, 0x78, 0x49, 0x01)
}

func releaseTiles() { tileBytes("TILERELEASE", 0xc4, 0xe2, 0x78, 0x49, 0xc0) }

func zeroTile(i int) {
	tileBytes(fmt.Sprintf("TILEZERO TMM%d", i), 0xc4, 0xe2, 0x7b, 0x49, byte(0xc0|i<<3))
}

// multiplyTiles adds the products of a's rows and b's columns of pairs to sum.
func multiplyTiles(a, b, sum int) {
	tileBytes(fmt.Sprintf("TDPBF16PS TMM%d, TMM%d, TMM%d", b, a, sum), 0xc4, 0xe2, byte(^b&15)<<3|2, 0x5c, byte(0xc0|sum<<3|a))
}

// tileMemory emits a load or a store of a tile with rows stride bytes apart.
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
