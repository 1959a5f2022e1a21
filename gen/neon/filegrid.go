package main

import (
	"strings"

	"github.com/powerinfer-go/powerinfer/gen/filelayout"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// Types on grids, as files have them: indices are taken apart in general registers, and a grid's entries, a byte for
// each code, come from memory. Signs become the codes' highest bits.

// onGrid reports whether k's type is on a grid.
func (k *kernel) onGrid() bool {
	_, ok := filelayout.Grids()[k.typ]
	return ok
}

// fours reports whether an entry has four codes, and not eight.
func (k *kernel) fours() bool { return k.typ == quant.IQ3_XXS || k.typ == quant.IQ3_S }

// signBit is the place of the sign in a code.
func (k *kernel) signBit() int { return k.traits().Bits - 1 }

// gridName is the variable of package kernel that points at a type's grid.
func gridName(typ quant.Type) string { return "grid" + strings.ReplaceAll(typ.String(), "_", "") }

// prepareGrid loads what stays in registers.
func (k *kernel) prepareGrid() {
	k.grid = k.reg()
	k.line("MOVD ·%s(SB), R%d", gridName(k.typ), k.grid)
	k.parts = nil
	for range 5 {
		k.parts = append(k.parts, k.reg())
	}
	for _, b := range []byte{0x0f, 1 << k.signBit()} {
		if _, ok := k.masks[b]; !ok {
			k.masks[b] = k.vec()
			k.movi(k.masks[b], b)
		}
	}
}

// gridCodes leaves codes of half h in g.
func (k *kernel) gridCodes(g []vec, h int) {
	at, w := filelayout.Grids()[k.typ], k.w[0]
	for j := range 4 {
		if from := at.Low + at.LowBytes*(4*h+j); at.LowBytes == 8 {
			k.word64(k.parts[j], w, from)
		} else {
			k.word32(k.parts[j], w, from)
		}
	}
	switch from := at.Upper + at.UpperBlock/2*h; at.UpperBlock {
	case 8:
		k.word32(k.parts[4], w, from)
	case 16:
		k.word64(k.parts[4], w, from)
	}
	mark, general := k.vecs, k.next
	other := k.vecsOf(3)
	index, upper := k.reg(), k.reg()
	entry := func(d vec, j, e int) {
		k.field(index, k.parts[j], at.LowStep*e, at.LowBits)
		if at.UpperBits > 0 {
			k.field(upper, k.parts[4], at.UpperBlock*j+at.UpperStep*e, at.UpperBits)
			k.addShifted(index, index, upper, at.LowBits)
		}
		k.loadEntry(d, k.grid, index)
	}
	entries := 4
	if k.fours() {
		entries = 8
	}
	for e := range entries {
		first := g[8/entries*e]
		for j, d := range []vec{first, other[0], other[1], other[2]} {
			entry(d, j, e)
		}
		k.op("zip1", first, first, other[0])
		k.op("zip1", other[1], other[1], other[2])
		if !k.fours() {
			k.op("zip2.d", g[2*e+1], first, other[1])
		}
		k.op("zip1.d", first, first, other[1])
	}
	k.vecs, k.next = mark, general
	k.gridSigns(g, h)
}

// gridSigns sets the highest bits of codes.
func (k *kernel) gridSigns(g []vec, h int) {
	at, w, mark := filelayout.Grids()[k.typ], k.w[0], k.vecs
	words, other := k.vec(), k.vec()
	mask := k.masks[1<<k.signBit()]
	switch k.typ {
	case quant.IQ1_S: // the highest bit of a word is that of its 32 elements
		k.load('d', words, w, at.Signs+8*h)
		k.op2("sxtl", words, words)
		k.shift("sshr", 32, words, words, 31)
		for _, d := range g {
			k.op("bit", d, words, mask)
		}
	case quant.IQ1_M: // that of a nibble, of its eight
		k.load('d', words, w, at.Signs+8*h)
		k.op2("uxtl", words, words)
		for e := range 4 {
			k.shift("shl", 32, other, words, 28-4*e)
			k.shift("sshr", 32, other, other, 31)
			k.op("bit", g[2*e], other, mask)
			k.op("bit", g[2*e+1], other, mask)
		}
	case quant.IQ2_S, quant.IQ3_S:
		k.load('q', words, w, at.Signs+16*h)
		k.wordBits(g, words, k.signBit())
	case quant.IQ2_XS: // seven bits above an index
		k.load('q', words, w, at.Low+32*h)
		k.load('q', other, w, at.Low+32*h+16)
		k.op("uzp2.b", words, words, other)
		k.shift("ushr", 8, words, words, 1)
		k.evenSigns(words)
		k.wordBits(g, words, k.signBit())
	default: // four times seven bits of a word
		k.signWords(words, h)
		for _, spread := range []struct {
			by   int
			mask []byte
		}{{2, []byte{0, 0, 0xff, 0xff}}, {1, []byte{0, 0xff}}} {
			m := k.vec()
			k.shift("shl", 32, other, words, spread.by)
			k.constant(m, k.table, spread.mask...)
			k.op("bit", words, other, m)
			k.vecs--
		}
		k.movi(other, 0x7f)
		k.op("and", words, words, other)
		k.evenSigns(words)
		k.wordBits(g, words, k.signBit())
	}
	k.vecs = mark
}

// evenSigns adds an eighth sign to seven in every byte, which makes the number of minus signs even.
func (k *kernel) evenSigns(d vec) {
	mark := k.vecs
	ones := k.vec()
	k.op2("cnt", ones, d)
	k.shift("sli", 8, d, ones, 7)
	k.vecs = mark
}

// signWords loads words of signs with scales above them.
func (k *kernel) signWords(d vec, h int) {
	at, mark := filelayout.Grids()[k.typ], k.vecs
	if k.typ == quant.IQ3_XXS {
		k.load('q', d, k.w[0], at.Signs+16*h)
		return
	}
	other := k.vec()
	k.load('q', d, k.w[0], at.Low+32*h)
	k.load('q', other, k.w[0], at.Low+32*h+16)
	k.op("uzp2", d, d, other)
	k.vecs = mark
}

// gridScales leaves scales of half h in the bytes of d: 2s+1 of what the file has.
func (k *kernel) gridScales(d vec, h int) {
	at, w, mark := filelayout.Grids()[k.typ], k.w[0], k.vecs
	other := k.vec()
	mask := func(b byte) {
		k.movi(other, b)
		k.op("and", d, d, other)
	}
	switch k.typ {
	case quant.IQ2_XXS, quant.IQ3_XXS: // the highest nibbles of words
		k.signWords(d, h)
		k.constant(other, k.table, 3, 7, 11, 15)
		k.tbl(d, d, other)
		k.shift("ushr", 8, d, d, 3)
	case quant.IQ1_S: // bits 12 to 14 of a word
		k.load('d', d, w, at.Scales+8*h)
		k.op("uzp2.b", d, d, d)
		k.shift("ushr", 8, d, d, 3)
		mask(0x0e)
	case quant.IQ1_M: // four times three bits of a word
		k.load('s', d, w, at.Scales+4*h)
		k.constant(other, k.table, 0, 1, 0, 1, 0, 1, 0, 1, 2, 3, 2, 3, 2, 3, 2, 3)
		k.tbl(d, d, other)
		k.constant(other, k.table, 1, 0, 0xfe, 0xff, 0xfb, 0xff, 0xf8, 0xff) // shifts by 1, -2, -5 and -8
		k.op("ushl.h", d, d, other)
		k.op2("xtn.b", d, d)
		mask(0x0e)
	default: // nibbles, of 32 elements or of 16
		if k.typ == quant.IQ3_S {
			k.load('h', d, w, at.Scales+2*h)
		} else {
			k.load('s', d, w, at.Scales+4*h)
		}
		k.shift("ushr", 8, other, d, 4)
		k.op("and", d, d, k.masks[0x0f])
		k.op("zip1.b", d, d, other)
		k.shift("shl", 8, d, d, 1)
	}
	k.movi(other, 1)
	k.op("orr", d, d, other)
	k.vecs = mark
}

// scatteredUnit loads IQ1_M's unit, which the highest nibbles of the four words of scales are, the lowest first.
func (k *kernel) scatteredUnit(d vec) {
	word, part := k.parts[0], k.parts[1] // free between halves
	k.word64(word, k.w[0], filelayout.Grids()[k.typ].Scales)
	k.line("LSR $12, R%d, R%d", word, word)
	k.line("AND $0x000f000f000f000f, R%d, R%d", word, word)
	k.line("ORR R%d>>12, R%d, R%d", word, word, word)
	k.line("ORR R%d>>24, R%d, R%d", word, word, part)
	for range 4 {
		k.count("orr.x")
	}
	k.dupW(d, part)
}
