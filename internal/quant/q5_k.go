package quant

// decodeQ5_K: d, dmin, packed scales, 32 bytes of high bits, 128 of low nibbles in the order of Q4_K; bit j of high
// byte i is the fifth bit of element i of sub-block j: d·scale·q − dmin·min.
func decodeQ5_K(dst []float32, b []byte) {
	d, dmin := half(b), half(b[2:])
	scale, min := SixBitScales(b[4:16])
	high, low := b[16:48], b[48:]
	for j := range 8 {
		s, m := d*float32(scale[j]), dmin*float32(min[j])
		for i, h := range high {
			q := low[j/2*32+i]>>(j%2*4)&15 | h>>j&1<<4
			dst[j*32+i] = float32(s*float32(q)) - m // converted: no platform may fuse, or values would differ
		}
	}
}
