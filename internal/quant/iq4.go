package quant

// IQ4_NL: d, then 16 bytes of codes as in Q4_0: d·value of the code. IQ4_XS: d, a word and four bytes of eight scales
// of six bits, 32 of which is zero: the low four of scale j are nibble j of the bytes, the upper two bit pair j of the
// word; then 16 bytes of codes for each 32 elements: d·scale·value. Source: ggml's block_iq4_nl and block_iq4_xs, whose
// values are those below.

func iq4Values() []int8 {
	return []int8{-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113}
}

func joinIQ4_NL(b []byte, p *Parts) {
	put16(b, p.Unit)
	joinNibbles(b[2:], p.Q[:])
}

func scalesIQ4_XS(p *Parts, b []byte) {
	p.Unit = get16(b)
	high := get16(b[2:])
	for j := range 8 {
		p.Scale[j] = int8(b[4+j/2]>>(j%2*4)&15|uint8(high>>(2*j)&3)<<4) - 32
	}
}

func codesIQ4_XS(p *Parts, b []byte) {
	for j := range 8 {
		splitNibbles(p.Q[32*j:], b[8+16*j:])
	}
}

func joinIQ4_XS(b []byte, p *Parts) {
	put16(b, p.Unit)
	var high uint16
	for j := range 8 {
		s := uint8(p.Scale[j] + 32)
		high |= uint16(s>>4&3) << (2 * j)
		b[4+j/2] |= s & 15 << (j % 2 * 4)
		joinNibbles(b[8+16*j:], p.Q[32*j:])
	}
	put16(b[2:], high)
}
