package kernel

func softmaxTile(s *float32, n int, old float32) (m, sum float32) { return softmaxNEON(s, n, old) }

func (attention) decodeQ8_0(dst *float32, src, ahead *byte, blocks int) {
	decodeQ8_0NEON(dst, src, ahead, blocks)
}

func (attention) decodeQ4_0(dst *float32, src, ahead *byte, blocks int) {
	decodeQ4_0NEON(dst, src, ahead, blocks)
}
