package main

import (
	"github.com/powerinfer-go/powerinfer/gen/filelayout"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// fileCodes returns the eight groups of half h: elements' codes as unpack leaves them, without codebooks.
func (k *kernel) fileCodes(h int) []vec {
	g, w := k.vecsOf(8), k.w[0]
	mark := k.vecs
	nibbles := func(lo, hi vec) {
		k.shift("ushr", 8, hi, lo, 4)
		k.op("and", lo, lo, k.masks[0x0f])
	}
	size := k.typ.BlockBytes()
	switch k.typ {
	case quant.Q8_0:
		for v := 0; v < 8; v += 4 {
			for j := range 4 {
				k.load('q', g[v+j], w, 2+size*(4*h+j)+4*v)
			}
			k.transpose(g[v:][:4])
		}
	case quant.Q4_K, quant.Q5_K: // 32 bytes hold two blocks
		for v := 0; v < 8; v += 4 {
			for j := 0; j < 4; j += 2 {
				k.load('q', g[v+j], w, filelayout.Nibbles(k.typ)+64*h+16*j+4*v)
				nibbles(g[v+j], g[v+j+1])
			}
			k.transpose(g[v:][:4])
		}
		if k.typ == quant.Q5_K {
			k.above(g, filelayout.SixBits, func(j int) int { return 4 - (4*h + j) }, 0x10)
		}
	case quant.Q6_K: // in four blocks, 64 bytes hold low nibbles, 32 bytes the bits above
		for v := 0; v < 8; v += 4 {
			for j := range 2 {
				k.load('q', g[v+j], w, 64*h+32*j+4*v)
				nibbles(g[v+j], g[v+j+2])
			}
			k.transpose(g[v:][:4])
		}
		k.above(g, filelayout.Q6KHigh+32*h, func(j int) int { return 4 - 2*j }, 0x30)
	case quant.Q2_K, quant.Q3_K, quant.TQ2_0: // in four blocks, 32 bytes hold pairs of bits
		at := map[quant.Type]int{quant.Q2_K: filelayout.Q2K, quant.Q3_K: filelayout.Q3K}[k.typ]
		k.spread(g, at+32*h, func(j int) int { return -2 * j }, func(d, from vec) { k.op("and", d, from, k.masks[0x03]) })
		if k.typ == quant.Q3_K {
			k.above(g, 0, func(j int) int { return 2 - (4*h + j) }, 0x04)
		}
	default:
		first := size - 16
		if k.typ == quant.IQ4_XS {
			size, first = 16, filelayout.XS
		}
		for j := range 4 {
			k.load('q', g[j], w, first+size*(4*h+j))
		}
		k.transpose(g[:4])
		for j := range 4 {
			nibbles(g[j], g[j+4])
		}
		if k.traits().Bits == 5 {
			k.fifthWords(g, first-4, h)
		}
	}
	k.vecs = mark
	return g
}

// shiftBytes shifts every byte of n by the number in the same place, down if it is negative.
func (k *kernel) shiftBytes(d, n vec, by func(i int) int) {
	mark := k.vecs
	amounts, b := k.vec(), make([]byte, 16)
	for i := range b {
		b[i] = byte(by(i))
	}
	k.constant(amounts, k.table, b...)
	k.op("ushl.b", d, n, amounts)
	k.vecs = mark
}

// transpose makes group v of vectors of a block: lane j of v[g] becomes lane g of what was v[j]. The order of registers
// changes.
func (k *kernel) transpose(v []vec) {
	mark := k.vecs
	a, b := k.vec(), k.vec()
	k.op("zip1", a, v[0], v[1])
	k.op("zip2", b, v[0], v[1])
	k.op("zip1", v[0], v[2], v[3])
	k.op("zip2", v[1], v[2], v[3])
	k.op("zip1.d", v[2], a, v[0])
	k.op("zip2.d", v[3], a, v[0])
	k.op("zip1.d", v[0], b, v[1])
	k.op("zip2.d", v[1], b, v[1])
	v[0], v[1], v[2], v[3] = v[2], v[3], v[0], v[1]
	k.vecs = mark
}

// gather puts width bytes at byte at of each block of half h side by side into d. pairs joins two blocks, all joins
// four.
func (k *kernel) gather(width byte, pairs, all string, d vec, at, h int) {
	mark := k.vecs
	v := []vec{d, k.vec(), k.vec(), k.vec()}
	for j := range v {
		k.load(width, v[j], k.w[0], at+k.typ.BlockBytes()*(4*h+j))
	}
	k.op(pairs, v[0], v[0], v[1])
	k.op(pairs, v[2], v[2], v[3])
	k.op(all, d, v[0], v[2])
	k.vecs = mark
}

// spread calls set for each group with four of the 32 bytes at at for each block, the same four for all blocks, shifted
// left by by(block).
func (k *kernel) spread(g []vec, at int, by func(j int) int, set func(d, from vec)) {
	mark := k.vecs
	four, amounts, d := k.vec(), k.vec(), k.vec()
	var b []byte
	for j := range 4 {
		for range 4 {
			b = append(b, byte(by(j)))
		}
	}
	k.constant(amounts, k.table, b...)
	for v := range g {
		if v%4 == 0 {
			k.load('q', four, k.w[0], at+4*v)
		}
		k.dup(d, four, v%4)
		k.op("ushl.b", d, d, amounts)
		set(g[v], d)
	}
	k.vecs = mark
}

// above sets the bits of mask in groups.
func (k *kernel) above(g []vec, at int, by func(j int) int, mask byte) {
	k.spread(g, at, by, func(d, from vec) { k.op("bit", d, from, k.masks[mask]) })
}

// fifthWords adds fifth bits that each block has in a word at byte at.
func (k *kernel) fifthWords(g []vec, at, h int) {
	mark := k.vecs
	words := k.vec()
	k.gather('s', "zip1", "zip1.d", words, at, h)
	k.wordBits(g, words, 4)
	k.vecs = mark
}

// wordBits sets bit to of codes to the bits of each block's word; bit i belongs to element i.
func (k *kernel) wordBits(g []vec, words vec, to int) {
	mark := k.vecs
	two, d, index := k.vec(), k.vec(), k.vec()
	for v := range g {
		if v%2 == 0 { // a byte of each word has the bits of two groups
			var b []byte
			for j := range 4 {
				for range 4 {
					b = append(b, byte(4*j+v/2))
				}
			}
			k.constant(index, k.table, b...)
			k.tbl(two, words, index)
		}
		k.shiftBytes(d, two, func(i int) int { return to - 4*(v%2) - i%4 })
		k.op("bit", g[v], d, k.masks[1<<to])
	}
	k.vecs = mark
}
