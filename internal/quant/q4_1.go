package quant

// decodeQ4_1: d, m, then 16 bytes; element i is the low nibble of byte i, element i+16 its high one: d·q + m.
func decodeQ4_1(dst []float32, b []byte) {
	d, m := half(b), half(b[2:])
	for i, q := range b[4:] {
		dst[i] = float32(d*float32(q&15)) + m // converted: no platform may fuse, or values would differ
		dst[i+QK/2] = float32(d*float32(q>>4)) + m
	}
}

// encodeQ4_1: the smallest value becomes 0 and the largest 15, as ggml's reference quantiser has it; halves are rounded up.
func encodeQ4_1(b []byte, x []float32) {
	least, most := x[0], x[0]
	for _, v := range x {
		least, most = min(least, v), max(most, v)
	}
	d := (most - least) / 15
	id := inverse(d)
	putHalf(b, d)
	putHalf(b[2:], least)
	quant := func(v float32) byte { return byte(min(15, int(float32((v-least)*id)+0.5))) }
	for i := range QK / 2 {
		b[4+i] = quant(x[i]) | quant(x[i+QK/2])<<4
	}
}
