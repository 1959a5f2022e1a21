package quant

import "encoding/binary"

// The IQ1 types choose −1, 0 or 1 for eight elements at once from a grid, and add an eighth, or subtract it where a bit
// is set, which bit 2 of a code is: d·(2·scale+1)·(g±⅛), which is d/8·(2·scale+1)·(8g±1). Source: ggml's block_iq1_s
// and block_iq1_m.
//
// IQ1_S: d, 32 bytes of indices, then for each 32 elements a word: four times three upper bits of index, three bits of
// scale, the bit of ⅛.
//
// IQ1_M: 32 bytes of indices; 16 bytes of a nibble for each 8 elements, three upper bits of index and the bit of ⅛;
// four words of four times three bits of scale, for 16 elements each, whose top nibbles are those of d, the lowest
// first.

func iq1Values() []int8 { return []int8{-7, 1, 9, 0, -9, -1, 7, 0} }

func scalesIQ1_S(p *Parts, b []byte) {
	p.Unit = get16(b)
	for j := range 8 {
		p.Scale[j] = int8(2*(get16(b[34+2*j:])>>12&7) + 1)
	}
}

func codesIQ1_S(p *Parts, b []byte) {
	grid := gridIQ1()
	for j := range 8 {
		word := get16(b[34+2*j:])
		for g := range 4 {
			eighth(grid, p.Q[32*j+8*g:], int(b[2+4*j+g])|int(word>>(3*g)&7)<<8, uint8(word>>15))
		}
	}
}

// eighth writes the codes of eight elements.
func eighth(grid *codeGrid, q []uint8, at int, minus uint8) {
	binary.LittleEndian.PutUint64(q, grid.wide[at]|uint64(minus)<<2*0x0101010101010101)
}

func joinIQ1_S(b []byte, p *Parts) {
	put16(b, p.Unit)
	grid := gridIQ1()
	for j := range 8 {
		word := uint16(p.Scale[j])>>1<<12 | uint16(p.Q[32*j]>>2)<<15
		for g := range 4 {
			at := grid.place(p.Q[32*j+8*g:][:8])
			b[2+4*j+g] = uint8(at)
			word |= uint16(at>>8) << (3 * g)
		}
		put16(b[34+2*j:], word)
	}
}

func scalesIQ1_M(p *Parts, b []byte) {
	p.Unit = 0
	for k := range 4 {
		word := get16(b[48+2*k:])
		p.Unit |= word >> 12 << (4 * k)
		for g := range 4 {
			p.Scale[4*k+g] = int8(2*(word>>(3*g)&7) + 1)
		}
	}
}

func codesIQ1_M(p *Parts, b []byte) {
	grid := gridIQ1()
	for g, at := range b[:32] {
		nibble := b[32+g/2] >> (g % 2 * 4)
		eighth(grid, p.Q[8*g:], int(at)|int(nibble&7)<<8, nibble>>3&1)
	}
}

func joinIQ1_M(b []byte, p *Parts) {
	for k := range 4 {
		word := p.Unit >> (4 * k) << 12
		for g := range 4 {
			word |= uint16(p.Scale[4*k+g]) >> 1 << (3 * g)
		}
		put16(b[48+2*k:], word)
	}
	grid := gridIQ1()
	for g := range 32 {
		at := grid.place(p.Q[8*g:][:8])
		b[g] = uint8(at)
		b[32+g/2] |= (uint8(at>>8) | p.Q[8*g]>>2<<3) << (g % 2 * 4)
	}
}
