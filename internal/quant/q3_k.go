package quant

// Q3_K: 32 bytes of third bits, bit j of byte i for element i of the j-th 32; 64 bytes of bit pairs; 12 bytes of 16
// scales of six bits (32 stands for zero): the low four of scale g are a nibble of byte g%8, the upper two bit pair g/4
// of byte 8+g%4; d: d·scale·(q−4). Source: ggml's block_q3_K.

func codesQ3_K(p *Parts, b []byte) {
	splitPairs(&p.Q, b[32:])
	for e := range p.Q {
		p.Q[e] |= b[e%32] >> (e / 32) & 1 << 2
	}
}

func scalesQ3_K(p *Parts, b []byte) {
	for g := range p.Scale {
		p.Scale[g] = int8(b[96+g%8]>>(g/8*4)&15|b[104+g%4]>>(g/4*2)&3<<4) - 32
	}
	p.Unit = get16(b[108:])
}

func joinQ3_K(b []byte, p *Parts) {
	joinPairs(b[32:], &p.Q)
	for e, q := range p.Q {
		b[e%32] |= q >> 2 & 1 << (e / 32)
	}
	for g, v := range p.Scale {
		s := uint8(v + 32)
		b[96+g%8] |= s & 15 << (g / 8 * 4)
		b[104+g%4] |= s >> 4 & 3 << (g / 4 * 2)
	}
	put16(b[108:], p.Unit)
}
