package quant

import "math"

// decodeQ5_K: d, dmin, packed scales, 32 bytes of high bits, 128 of low nibbles, which lie as in Q4_K; bit j of high byte i is the fifth bit
// of element i of sub-block j: d·scale·q − dmin·min.
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

// encodeQ5_K fits every sub-block's scale and minimum, rounds those to six bits, and then the elements to what they allow.
func encodeQ5_K(b []byte, x []float32) {
	const most = 31
	var scale, least [8]float32
	var topScale, topLeast float32
	for j := range 8 {
		scale[j], least[j] = fitMinimum(x[j*32:][:32], most)
		topScale, topLeast = max(topScale, scale[j]), max(topLeast, least[j])
	}
	putHalf(b, topScale/63)
	putHalf(b[2:], topLeast/63)
	clear(b[4:])
	var s, m [8]uint8
	for j := range 8 {
		s[j] = min(63, uint8(math.Round(float64(scale[j]*inverse(topScale)*63))))
		m[j] = min(63, uint8(math.Round(float64(least[j]*inverse(topLeast)*63))))
	}
	putSixBitScales(b[4:16], s, m)
	d, dmin := half(b), half(b[2:])
	high, low := b[16:48], b[48:]
	for j := range 8 {
		step, shift := inverse(d*float32(s[j])), dmin*float32(m[j])
		for i, v := range x[j*32:][:32] {
			q := byte(max(0, min(most, math.RoundToEven(float64((v+shift)*step)))))
			low[j/2*32+i] |= q & 15 << (j % 2 * 4)
			high[i] |= q >> 4 << j
		}
	}
}

// putSixBitScales is the inverse of SixBitScales; b is clear.
func putSixBitScales(b []byte, scale, min [8]uint8) {
	for j := range 4 {
		b[j] = scale[j] | scale[j+4]>>4<<6
		b[j+4] = min[j] | min[j+4]>>4<<6
		b[j+8] = scale[j+4]&15 | min[j+4]<<4
	}
}

// fitMinimum returns a scale and a minimum, at least zero, for which scale·q − minimum with quants 0…most lies near the elements of x. Larger
// elements weigh more. Source: the K-quants of llama.cpp: grids of slightly other widths than the elements' range are tried, and each
// is fitted by least squares to the elements that it rounded.
func fitMinimum(x []float32, most int) (scale, minimum float32) {
	const grids, width, narrowest = 16, 0.1, -0.5
	var square float64
	low, top := 0.0, float64(x[0])
	for _, v := range x {
		square += float64(float64(v) * float64(v))
		low, top = min(low, float64(v)), max(top, float64(v))
	}
	if top <= low {
		return 0, float32(-low)
	}
	size := math.Sqrt(square / float64(len(x)))
	best := math.Inf(1)
	for g := range grids + 1 {
		steps := float64(most)
		if g > 0 {
			steps += narrowest + width*float64(g-1)
		}
		s, m := grid(x, low, steps/(top-low), most, size)
		if g == 0 {
			s, m = (top-low)/float64(most), low
		}
		if e := gridError(x, s, m, low, steps/(top-low), most, size); e < best {
			best, scale, minimum = e, float32(s), float32(-m)
		}
	}
	return scale, minimum
}

// rounded is v on a grid that begins at low, in steps of 1/inverse.
func rounded(v float32, low, inverse float64, most int) float64 {
	return max(0, min(float64(most), math.RoundToEven((float64(v)-low)*inverse)))
}

// grid returns the scale and the offset, at most zero, that fit the elements on a grid best. Products are converted before a sum, so that
// no platform fuses them.
func grid(x []float32, low, inverse float64, most int, size float64) (s, m float64) {
	var w, wx, wq, wqq, wqx float64
	for _, v := range x {
		weight, q := size+math.Abs(float64(v)), rounded(v, low, inverse, most)
		w += weight
		wx += float64(weight * float64(v))
		wq += float64(weight * q)
		wqq += float64(weight * q * q)
		wqx += float64(weight * q * float64(v))
	}
	determinant := float64(w*wqq) - float64(wq*wq)
	if determinant <= 0 || wqq == 0 {
		return 0, low
	}
	s = (float64(w*wqx) - float64(wx*wq)) / determinant
	if m = (float64(wqq*wx) - float64(wq*wqx)) / determinant; m > 0 {
		s, m = wqx/wqq, 0
	}
	return max(0, s), m
}

// gridError returns the weighted squared error of s·q + m.
func gridError(x []float32, s, m, low, inverse float64, most int, size float64) (sum float64) {
	for _, v := range x {
		e := float64(s*rounded(v, low, inverse, most)) + m - float64(v)
		sum += float64((size + math.Abs(float64(v))) * e * e)
	}
	return sum
}
