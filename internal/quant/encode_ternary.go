package quant

import "math"

// ternary takes a superblock to −1, 0 and 1 of its largest magnitude; halves round away from zero.
func ternary(p *Parts, x []float32) {
	d := abs(absMax(x))
	id := inverse(d)
	p.Unit = F16FromF32(d)
	for i, v := range x {
		p.Q[i] = uint8(awayFromZero(v*id) + 1)
	}
}

func encodeTQ1_0(b []byte, x []float32) {
	var p Parts
	ternary(&p, x)
	clear(b)
	joinTQ1_0(b, &p)
}

func encodeTQ2_0(b []byte, x []float32) {
	var p Parts
	ternary(&p, x)
	clear(b)
	joinTQ2_0(b, &p)
}

var nearestMXFP4 = newNearestCodes(mxfp4Values()[:8])

// encodeMXFP4: the power of two is the largest magnitude's, two less, because the largest float of four bits has the
// exponent 2.
func encodeMXFP4(b []byte, x []float32) {
	const bias, exponent, last = 127, 2, 254
	var p Parts
	top := abs(absMax(x))
	if top > 0 {
		_, e := math.Frexp(float64(top)) // 2^(e−1) ≤ top
		p.Unit = uint16(max(0, min(last, e-1-exponent+bias)))
	}
	halves := float32(math.Ldexp(2, bias-int(p.Unit))) // per step, the unit of the codes' values
	encodeFloats4(p.Q[:], x, halves)
	clear(b)
	joinMXFP4(b, &p)
}

// encodeFloats4 writes the codes of the four-bit floats nearest to x times id, in halves; of two equally near values
// the smaller magnitude, as in ggml's search.
func encodeFloats4(q []uint8, x []float32, id float32) {
	for i, v := range x {
		a := abs(v) * id
		c := nearestMXFP4.of(a)
		if c > 0 && a-nearestMXFP4.value[c-1] <= nearestMXFP4.value[c]-a {
			c--
		}
		if v < 0 && c > 0 {
			c |= 8
		}
		q[i] = c
	}
}
