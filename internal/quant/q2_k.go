package quant

// Q2_K: 16 bytes, byte g with the scale of elements 16g… in its low nibble and their minimum in its high one; 64 bytes
// of bit pairs, d, dmin: d·scale·q − dmin·min. Source: ggml's block_q2_K.

func scalesQ2_K(p *Parts, b []byte) {
	for g, v := range b[:16] {
		p.Scale[g], p.Min[g] = int8(v&15), v>>4
	}
	p.Unit, p.MinUnit = get16(b[80:]), get16(b[82:])
}

func joinQ2_K(b []byte, p *Parts) {
	for g := range b[:16] {
		b[g] = uint8(p.Scale[g])&15 | p.Min[g]<<4
	}
	joinPairs(b[16:], &p.Q)
	put16(b[80:], p.Unit)
	put16(b[82:], p.MinUnit)
}
