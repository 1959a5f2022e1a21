package quant

import "encoding/binary"

// Types of one bit and of two, with one scale d for each block.
//
// Q1_0: d, then 16 bytes of bits for 128 elements, element e's in bit e%8 of byte e/8: d if it is set, else −d.
//
// Q2_0: d, then 16 bytes of bit pairs for 64 elements, element e's in pair e%4 of byte e/4: d·(q−1).
//
// A bit of Q1_0 becomes a code of Q2_0, so that devices compute both in the same way. Source: ggml's block_q1_0 and
// block_q2_0.

// The elements of a block.
const (
	q1Block = 128
	q2Block = 64
)

func codesQ1_0(p *Parts, b []byte) {
	for e := range q1Block {
		p.Q[e] = b[2+e/8] >> (e % 8) & 1 << 1
	}
}

func joinQ1_0(b []byte, p *Parts) {
	put16(b, p.Unit)
	for e, q := range p.Q[:q1Block] {
		b[2+e/8] |= q >> 1 & 1 << (e % 8)
	}
}

func codesQ2_0(p *Parts, b []byte) {
	for e := range q2Block {
		p.Q[e] = b[2+e/4] >> (e % 4 * 2) & 3
	}
}

func joinQ2_0(b []byte, p *Parts) {
	put16(b, p.Unit)
	for e, q := range p.Q[:q2Block] {
		b[2+e/4] |= q & 3 << (e % 4 * 2)
	}
}

// encodeQ1_0: the scale is the mean magnitude, which minimises the error when only signs are kept.
func encodeQ1_0(b []byte, x []float32) {
	var p Parts
	var sum float32
	for i, v := range x {
		sum += abs(v)
		if v >= 0 {
			p.Q[i] = 2
		}
	}
	p.Unit = F16FromF32(sum / q1Block)
	clear(b)
	joinQ1_0(b, &p)
}

func encodeQ2_0(b []byte, x []float32) {
	var p Parts
	ternary(&p, x)
	clear(b)
	joinQ2_0(b, &p)
}

// Devices have codes of two bits as two words for 32 elements: byte i of word h has in its bit pair f the code of
// element 4(2f+h)+i.

// LanesOfBits returns both words of 32 elements, the second above the first, from four bytes of Q1_0's bits.
func LanesOfBits(b []byte) uint64 {
	const nibbles = 0x0f0f0f0f
	w := uint64(binary.LittleEndian.Uint32(b))
	w = w&nibbles | w>>4&nibbles<<32
	w = (w | w<<2) & 0x3333333333333333
	w = (w | w<<1) & 0x5555555555555555
	return turnPairs(w) << 1
}

// LanesOfPairs is LanesOfBits of eight bytes of Q2_0's bit pairs.
func LanesOfPairs(b []byte) uint64 {
	w := binary.LittleEndian.Uint64(b)
	w = swap(w, 8, 0x0000ff000000ff00) // bytes of even number come below those of odd number
	w = swap(w, 16, 0x00000000ffff0000)
	return turnPairs(w)
}

// turnPairs transposes both words of w, which are four bytes of four bit pairs.
func turnPairs(w uint64) uint64 {
	w = swap(w, 6, 0x00cc00cc00cc00cc)
	return swap(w, 12, 0x0000f0f00000f0f0)
}

// swap exchanges the bits of mask with the bits this far above them.
func swap(w uint64, above int, mask uint64) uint64 {
	t := (w>>above ^ w) & mask
	return w ^ t ^ t<<above
}
