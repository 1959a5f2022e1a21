package quant

// Scales tried for the values of IQ4_NL and IQ4_XS: the largest element meets a value up to seven beyond the last one.
const iq4Tries = 7

// nearestCodes finds the code of the value nearest to a number; values ascend and fit a signed byte.
type nearestCodes struct {
	code  [513]uint8 // for halves from −128 on: the middle between two whole numbers is a multiple of a half
	value [16]float32
}

func newNearestCodes(values []int8) *nearestCodes {
	n := &nearestCodes{}
	at := 0
	for half := range n.code {
		for at+1 < len(values) && half-256 >= int(values[at])+int(values[at+1]) {
			at++
		}
		n.code[half] = uint8(at)
	}
	for i, v := range values {
		n.value[i] = float32(v)
	}
	return n
}

// of returns the code for v; of two equally near values the larger.
func (n *nearestCodes) of(v float32) uint8 {
	half := 2*v + 256
	switch {
	case !(half > 0):
		return n.code[0]
	case half >= 512:
		return n.code[512]
	}
	return n.code[int(half)] // whole halves only: towards zero is down
}

var nearestIQ4 = newNearestCodes(iq4Values())

// fitIQ4 returns the scale d that minimises the error of d·value against x.
func fitIQ4(x, w []float32) float32 {
	top := absMax(x)
	if abs(top) < negligible {
		return 0
	}
	last := -nearestIQ4.value[0]
	s := sumsIQ4(x, w, last/top)
	d := s.scale()
	gain := d * s.qx
	if s.qq <= 0 {
		return top / last
	}
	for try := -iq4Tries; try <= iq4Tries; try++ {
		s := sumsIQ4(x, w, (float32(try)-last)/top)
		if s.better(gain) {
			d = s.scale()
			gain = d * s.qx
		}
	}
	return d
}

func sumsIQ4(x, w []float32, inverse float32) (s sums) {
	w = w[:len(x)]
	for i, v := range x {
		s.add(w[i], nearestIQ4.value[nearestIQ4.of(v*inverse)&15], v)
	}
	return s
}

// codesIQ4 sets q to the codes with d·value nearest to x.
func codesIQ4(q []uint8, x []float32, d float32) {
	id := inverse(d)
	for i, v := range x {
		q[i] = nearestIQ4.of(v * id)
	}
}

func encodeIQ4_NL(b []byte, x []float32) {
	var w [QK]float32
	weighSquares(w[:], x)
	putIQ4_NL(b, x, w[:])
}

func weighedIQ4_NL(b []byte, x, importance []float32, _ float32) {
	const size = 2 + QK/2
	for j := range len(x) / QK {
		var w [QK]float32
		part := x[j*QK:][:QK]
		weigh(w[:], part, importance[j*QK:], 2*meanSquare(part))
		putIQ4_NL(b[j*size:][:size], part, w[:])
	}
}

func putIQ4_NL(b []byte, x, w []float32) {
	var p Parts
	d := asHalf(fitIQ4(x, w))
	p.Unit = F16FromF32(d)
	codesIQ4(p.Q[:QK], x, d)
	clear(b)
	joinIQ4_NL(b, &p)
}

// scaleIQ4_XS: scales are from −32 to 31.
const scaleIQ4_XS = 32

func putIQ4_XS(b []byte, x []float32, w *[QKK]float32) {
	var p Parts
	var scale [8]float32
	for j := range scale {
		scale[j] = fitIQ4(x[j*QK:][:QK], w[j*QK:][:QK])
	}
	unit := absMax(scale[:]) / -scaleIQ4_XS
	p.Unit = F16FromF32(unit)
	id := inverse(unit)
	for j, s := range scale {
		whole := within(s*id, -scaleIQ4_XS, scaleIQ4_XS-1)
		p.Scale[j] = int8(whole)
		codesIQ4(p.Q[j*QK:][:QK], x[j*QK:][:QK], asHalf(unit)*whole)
	}
	clear(b)
	joinIQ4_XS(b, &p)
}
