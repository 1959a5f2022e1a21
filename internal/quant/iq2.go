package quant

// The IQ2 types choose the magnitudes of eight elements at once from a grid; bit 2 of a code is the sign. Values are
// d·(scale+½)/4·value, which is d/8·(2·scale+1)·value. Source: ggml's block_iq2_xxs, block_iq2_xs and block_iq2_s.
//
// IQ2_XXS: d, then for each 32 elements four bytes of indices and a word of signs and scale as in IQ3_XXS.
//
// IQ2_XS: d, 32 words of nine bits of index and seven of signs, as there; 8 bytes of scales, a nibble for each 16
// elements.
//
// IQ2_S: d, 32 bytes of indices, 32 of signs, 8 of the indices' ninth and tenth bits, 8 of scales as in IQ2_XS.

// iq2Values has no value for codes 3 and 7, which no grid has.
func iq2Values() []int8 { return signed(8, 25, 43, 0) }

func codesIQ2_XXS(p *Parts, b []byte) {
	grid := gridIQ2XXS()
	for j := range 8 {
		group := b[2+8*j:]
		for g, at := range group[:4] {
			grid.eight(p.Q[32*j+8*g:], int(at))
		}
		splitWord(p.Q[32*j:], group[4:], 2)
	}
}

func joinIQ2_XXS(b []byte, p *Parts) {
	put16(b, p.Unit)
	grid := gridIQ2XXS()
	for j := range 8 {
		group := b[2+8*j:]
		for g := range group[:4] {
			group[g] = uint8(grid.place(p.Q[32*j+8*g:][:8]))
		}
		joinWord(group[4:], p.Q[32*j:], 2, p.Scale[j])
	}
}

func codesIQ2_XS(p *Parts, b []byte) {
	grid := gridIQ2XS()
	for g := range 32 {
		word := get16(b[2+2*g:])
		grid.eight(p.Q[8*g:], int(word&511))
		addSigns(p.Q[8*g:], EvenSigns(uint32(word>>9)), 2)
	}
}

func joinIQ2_XS(b []byte, p *Parts) {
	put16(b, p.Unit)
	grid := gridIQ2XS()
	for g := range 32 {
		put16(b[2+2*g:], uint16(grid.place(p.Q[8*g:][:8]))|uint16(signsOf(p.Q[8*g:], 2)&127)<<9)
	}
	joinHalfScales(b[66:], p)
}

func codesIQ2_S(p *Parts, b []byte) {
	grid := gridIQ2S()
	for g, at := range b[2:34] {
		grid.eight(p.Q[8*g:], int(at)|int(b[66+g/4]>>(g%4*2)&3)<<8)
		addSigns(p.Q[8*g:], b[34+g], 2)
	}
}

func joinIQ2_S(b []byte, p *Parts) {
	put16(b, p.Unit)
	grid := gridIQ2S()
	for g := range 32 {
		at := grid.place(p.Q[8*g:][:8])
		b[2+g], b[34+g] = uint8(at), signsOf(p.Q[8*g:], 2)
		b[66+g/4] |= uint8(at>>8) << (g % 4 * 2)
	}
	joinHalfScales(b[74:], p)
}

// scalesOfHalves splits a unit that begins block b, and scales that begin at byte at.
func scalesOfHalves(p *Parts, b []byte, at int) {
	p.Unit = get16(b)
	for g := range p.Scale {
		p.Scale[g] = int8(2*(b[at+g/2]>>(g%2*4)&15) + 1)
	}
}

func joinHalfScales(b []byte, p *Parts) {
	for g, s := range p.Scale {
		b[g/2] |= uint8(s) >> 1 << (g % 2 * 4)
	}
}
