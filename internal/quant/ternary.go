package quant

// Elements of the ternary types are −1, 0 or 1: d·(q−1). Source: ggml's block_tq1_0 and block_tq2_0.
//
// TQ2_0: 64 bytes of bit pairs, d.
//
// TQ1_0: 48 bytes of five base-3 digits, 4 bytes of four, d. Digit n of byte i is that of element 32n+i for the first
// 32 bytes, 160+16n+i for the next 16, 240+4n+i for the last 4. A byte is the number of its five digits, the first one
// highest, times 256/243 rounded up, so that the digits appear one after the other above the byte when it is multiplied
// by three.

func joinTQ2_0(b []byte, p *Parts) {
	joinPairs(b, &p.Q)
	put16(b[64:], p.Unit)
}

// ternaryBytes is a range of TQ1_0's bytes: their number, their digits, and the first one's first element.
type ternaryBytes struct{ at, n, digits, first int }

func ternaryLayout() [3]ternaryBytes {
	return [3]ternaryBytes{{0, 32, 5, 0}, {32, 16, 5, 160}, {48, 4, 4, 240}}
}

func codesTQ1_0(p *Parts, b []byte) {
	for _, l := range ternaryLayout() {
		for i, v := range b[l.at:][:l.n] {
			for digit := range l.digits {
				three := 3 * uint16(v)
				p.Q[l.first+l.n*digit+i] = uint8(three >> 8)
				v = uint8(three)
			}
		}
	}
}

func joinTQ1_0(b []byte, p *Parts) {
	for _, l := range ternaryLayout() {
		for i := range l.n {
			v := 0
			for digit := range 5 {
				v *= 3
				if digit < l.digits {
					v += int(p.Q[l.first+l.n*digit+i])
				}
			}
			b[l.at+i] = uint8((v*256 + 242) / 243)
		}
	}
	put16(b[52:], p.Unit)
}
