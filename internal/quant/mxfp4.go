package quant

// MXFP4: an exponent byte (E8M0), then 16 bytes of codes as in Q4_0: 2^(exponent−127) times a four-bit float (E2M1).
// Exponent 255 is NaN. Source: the OCP Microscaling Formats specification 1.0, and ggml's block_mxfp4.

// mxfp4Values returns the floats in halves.
func mxfp4Values() []int8 { return []int8{0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12} }

func joinMXFP4(b []byte, p *Parts) {
	b[0] = uint8(p.Unit)
	joinNibbles(b[1:], p.Q[:])
}
