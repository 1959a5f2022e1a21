package quant

import "encoding/binary"

// The IQ3 types choose the magnitudes of four elements at once from a grid; bit 3 of a code is the sign. Source: ggml's
// block_iq3_xxs and block_iq3_s.
//
// IQ3_XXS: d, 64 bytes of indices, then for each 32 elements a word: four times seven signs, of eight elements each,
// whose eighth makes the number of minus signs even, and above them four bits of scale: d·(scale+½)/2·value, which is
// d/4·(2·scale+1)·value.
//
// IQ3_S: d, 64 bytes of indices, 8 bytes of their ninth bits, 32 of signs, 4 of scales, a nibble for each 32 elements:
// d·(2·scale+1)·value.

func iq3xxsValues() []int8 { return signed(4, 12, 20, 28, 36, 44, 52, 62) }
func iq3sValues() []int8   { return signed(1, 3, 5, 7, 9, 11, 13, 15) }

// signed returns values followed by their negatives.
func signed(values ...int8) []int8 {
	for _, v := range values {
		values = append(values, -v)
	}
	return values
}

// EvenSigns returns eight signs with an even number of minus: the first seven are given.
func EvenSigns(seven uint32) uint8 {
	s := seven & 127
	parity := s ^ s>>4
	parity ^= parity >> 2
	parity ^= parity >> 1
	return uint8(s | parity&1<<7)
}

// addSigns sets the given bit of the codes of elements with a minus sign.
func addSigns(q []uint8, signs uint8, bit int) {
	each := uint64(signs) * 0x0101010101010101 & 0x8040201008040201 // bit i of byte i
	each = (each + 0x7f7f7f7f7f7f7f7f) >> 7 & 0x0101010101010101
	binary.LittleEndian.PutUint64(q, binary.LittleEndian.Uint64(q)|each<<bit)
}

// signsOf is the inverse of addSigns.
func signsOf(q []uint8, bit int) (signs uint8) {
	for i, v := range q[:8] {
		signs |= v >> bit & 1 << i
	}
	return signs
}

// scalesOfWords splits a unit at the beginning of block b, and scales from words of scale and signs, at this distance
// from byte at on.
func scalesOfWords(p *Parts, b []byte, at, every int) {
	p.Unit = get16(b)
	for j := range 8 {
		p.Scale[j] = int8(2*(b[at+every*j+3]>>4) + 1)
	}
}

// splitWord adds the signs of 32 elements from their word of scale and signs.
func splitWord(q []uint8, b []byte, bit int) {
	word := binary.LittleEndian.Uint32(b)
	for g := range 4 {
		addSigns(q[8*g:], EvenSigns(word>>(7*g)), bit)
	}
}

func joinWord(b []byte, q []uint8, bit int, scale int8) {
	word := uint32(scale) >> 1 << 28
	for g := range 4 {
		word |= uint32(signsOf(q[8*g:], bit)&127) << (7 * g)
	}
	binary.LittleEndian.PutUint32(b, word)
}

func codesIQ3_XXS(p *Parts, b []byte) {
	grid := gridIQ3XXS()
	for g, at := range b[2:66] {
		grid.four(p.Q[4*g:], int(at))
	}
	for j := range 8 {
		splitWord(p.Q[32*j:], b[66+4*j:], 3)
	}
}

func joinIQ3_XXS(b []byte, p *Parts) {
	put16(b, p.Unit)
	grid := gridIQ3XXS()
	for g := range b[2:66] {
		b[2+g] = uint8(grid.place(p.Q[4*g:][:4]))
	}
	for j := range 8 {
		joinWord(b[66+4*j:], p.Q[32*j:], 3, p.Scale[j])
	}
}

func scalesIQ3_S(p *Parts, b []byte) {
	p.Unit = get16(b)
	for j := range 8 {
		p.Scale[j] = int8(2*(b[106+j/2]>>(j%2*4)&15) + 1)
	}
}

func codesIQ3_S(p *Parts, b []byte) {
	grid := gridIQ3S()
	for g, at := range b[2:66] {
		grid.four(p.Q[4*g:], int(at)|int(b[66+g/8]>>(g%8)&1)<<8)
	}
	for g, s := range b[74:106] {
		addSigns(p.Q[8*g:], s, 3)
	}
}

func joinIQ3_S(b []byte, p *Parts) {
	put16(b, p.Unit)
	grid := gridIQ3S()
	for g := range b[2:66] {
		at := grid.place(p.Q[4*g:][:4])
		b[2+g] = uint8(at)
		b[66+g/8] |= uint8(at>>8) << (g % 8)
	}
	for g := range b[74:106] {
		b[74+g] = signsOf(p.Q[8*g:], 3)
	}
	for j := range 8 {
		b[106+j/2] |= uint8(p.Scale[j]) >> 1 << (j % 2 * 4)
	}
}
