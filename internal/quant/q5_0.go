package quant

import "encoding/binary"

// Q5_0: d, a word of fifth bits, bit i for element i, then 16 bytes of low nibbles as in Q4_0: d·(q−16). Q5_1 has a
// minimum after d: d·q + m. Source: ggml's block_q5_0 and block_q5_1.

func joinQ5_0(b []byte, p *Parts) {
	put16(b, p.Unit)
	joinFives(b[2:], p)
}

func joinQ5_1(b []byte, p *Parts) {
	put16(b, p.Unit)
	put16(b[2:], p.MinUnit)
	joinFives(b[4:], p)
}

func splitFives(p *Parts, b []byte) {
	splitNibbles(p.Q[:QK], b[4:])
	high := binary.LittleEndian.Uint32(b)
	for i := range p.Q[:QK] {
		p.Q[i] |= uint8(high>>i&1) << 4
	}
}

func joinFives(b []byte, p *Parts) {
	joinNibbles(b[4:], p.Q[:QK])
	var high uint32
	for i, q := range p.Q[:QK] {
		high |= uint32(q>>4) << i
	}
	binary.LittleEndian.PutUint32(b, high)
}
