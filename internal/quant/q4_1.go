package quant

// decodeQ4_1: d, m, then 16 bytes; element i is the low nibble of byte i, element i+16 its high one: d·q + m.
func decodeQ4_1(dst []float32, b []byte) {
	d, m := half(b), half(b[2:])
	for i, q := range b[4:] {
		dst[i] = float32(d*float32(q&15)) + m // converted: no platform may fuse, or values would differ
		dst[i+QK/2] = float32(d*float32(q>>4)) + m
	}
}
