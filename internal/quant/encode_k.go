package quant

import "encoding/binary"

// parts are the scales of a superblock's parts, or their minima, and the whole numbers that stand for them in units.
type parts struct {
	exact [16]float32
	whole [16]uint8
	unit  float32
}

// scaleTo makes the largest of n parts most units; the others are rounded.
func (p *parts) scaleTo(n int, most float32) {
	var top float32
	for _, v := range p.exact[:n] {
		top = max(top, v)
	}
	if top <= 0 {
		p.unit = 0
		clear(p.whole[:])
		return
	}
	for j, v := range p.exact[:n] {
		p.whole[j] = uint8(within(v*(most/top), 0, most))
	}
	p.unit = top / most
}

// fitTo finds the unit with the least error over n parts.
func (p *parts) fitTo(n int, most float32, w []float32) {
	p.unit = fitUnit(p.whole[:n], p.exact[:n], w, most)
}

// minimumForm is the form of a superblock with a scale and a minimum for each part.
type minimumForm struct {
	n         int     // parts
	quants    float32 // the largest quant
	scales    float32 // the largest whole number of a scale or a minimum
	unweighed grids
}

// fit finds the quants of x, and scales and minima in whole numbers of units that binary16 holds. w are the elements'
// weights; importance means that they come from a matrix, so that units are fitted, too.
func (f minimumForm) fit(q *[QKK]uint8, x []float32, w *[QKK]float32, importance bool) (scale, least parts) {
	g, size := f.unweighed, QKK/f.n
	if importance {
		g = weighedGrids()
	}
	fitMinima(scale.exact[:f.n], least.exact[:f.n], x, w[:], f.quants, g)
	if importance {
		var sum [16]float32
		for j := range f.n {
			for _, v := range w[j*size:][:size] {
				sum[j] += v
			}
		}
		scale.fitTo(f.n, f.scales, sum[:f.n])
		least.fitTo(f.n, f.scales, sum[:f.n])
	} else {
		scale.scaleTo(f.n, f.scales)
		least.scaleTo(f.n, f.scales)
	}
	scale.unit, least.unit = asHalf(scale.unit), asHalf(least.unit)
	for j := range f.n {
		d, m := scale.unit*float32(scale.whole[j]), least.unit*float32(least.whole[j])
		roundMinimum(q[j*size:][:size], x[j*size:][:size], d, m, f.quants)
	}
	return scale, least
}

// fitMinima fits parts of equal size, one for each element of d.
func fitMinima(d, m, x, w []float32, most float32, g grids) {
	size := len(x) / len(d)
	for n := fitLanes(); n > 0 && len(d) >= n; d, m, x, w = d[n:], m[n:], x[n*size:], w[n*size:] {
		fitMinimumLanes(d[:n], m[:n], x[:n*size], w[:n*size], most, g)
	}
	for j := range d {
		d[j], m[j] = fitMinimum(x[j*size:][:size], w[j*size:][:size], most, g)
	}
}

// fitScales fits parts of equal size, one for each element of d.
func fitScales(d, x, w []float32, most float32) {
	size := len(x) / len(d)
	for n := fitLanes(); n > 0 && len(d) >= n; d, x, w = d[n:], x[n*size:], w[n*size:] {
		fitScaleLanes(d[:n], x[:n*size], w[:n*size], most)
	}
	for j := range d {
		d[j] = fitScale(x[j*size:][:size], w[j*size:][:size], most)
	}
}

// asHalf rounds to binary16.
func asHalf(v float32) float32 { return F32FromF16(F16FromF32(v)) }

// weighSize gives larger elements more weight, by their magnitude relative to that of their part.
func weighSize(w *[QKK]float32, x []float32, n int) {
	size := QKK / n
	for j := range n {
		part := x[j*size:][:size]
		mean := root(meanSquare(part))
		for i, v := range part {
			w[j*size+i] = mean + abs(v)
		}
	}
}

func formQ2_K() minimumForm {
	return minimumForm{n: 16, quants: 3, scales: 15, unweighed: grids{first: -0.5, step: 0.1, tries: 16, absolute: true}}
}

func encodeQ2_K(b []byte, x []float32) {
	var w [QKK]float32
	for i, v := range x {
		w[i] = abs(v)
	}
	putQ2_K(b, x, &w, false)
}

func weighedQ2_K(b []byte, x, importance []float32, _ float32) {
	var w [QKK]float32
	weigh(w[:], x, importance, meanSquare(x))
	putQ2_K(b, x, &w, true)
}

// putQ2_K: 16 bytes of scales, low nibbles, and minima, 64 bytes of quants, then d and dmin.
func putQ2_K(b []byte, x []float32, w *[QKK]float32, importance bool) {
	var q [QKK]uint8
	scale, least := formQ2_K().fit(&q, x, w, importance)
	for j := range 16 {
		b[j] = scale.whole[j] | least.whole[j]<<4
	}
	putTwoBits(b[16:80], &q)
	putHalf(b[80:], scale.unit)
	putHalf(b[82:], least.unit)
}

// putTwoBits packs the low two bits of quants: in each half of the superblock four runs of 32 share 32 bytes.
func putTwoBits(b []byte, q *[QKK]uint8) {
	const low2 = 0x0303030303030303
	le := binary.LittleEndian
	for h := range 2 {
		for i := 0; i < 32; i += 8 {
			at := q[h*128+i:]
			le.PutUint64(b[h*32+i:], le.Uint64(at)&low2|le.Uint64(at[32:])&low2<<2|le.Uint64(at[64:])&low2<<4|le.Uint64(at[96:])&low2<<6)
		}
	}
}

// Quants of Q3_K are from −4 to 3, its scales from −32 to 31.
const (
	mostQ3_K  = 4
	scaleQ3_K = 32
)

func encodeQ3_K(b []byte, x []float32) {
	var scale [16]float32
	for j := range scale {
		part := x[j*16:][:16]
		top := absMax(part)
		if abs(top) < negligible {
			continue
		}
		var w, q [16]float32
		weighSquares(w[:], part)
		inverse := -mostQ3_K / top
		for i, v := range part {
			q[i] = within(v*inverse, -mostQ3_K, mostQ3_K-1)
		}
		scale[j] = descend(q[:], part, w[:], -mostQ3_K, mostQ3_K-1)
	}
	unit := absMax(scale[:]) / -scaleQ3_K
	putQ3_K(b, x, &scale, unit)
}

func weighedQ3_K(b []byte, x, importance []float32, _ float32) {
	var w [QKK]float32
	weigh(w[:], x, importance, 2*meanSquare(x))
	var scale, sum [16]float32
	fitScales(scale[:], x, w[:], mostQ3_K)
	for i, v := range w {
		sum[i/16] += v
	}
	unit := fitScale(scale[:], sum[:], scaleQ3_K)
	putQ3_K(b, x, &scale, unit)
}

// putQ3_K: 32 bytes of third bits, 64 of low bits, 12 of scales, then d.
func putQ3_K(b []byte, x []float32, scale *[16]float32, unit float32) {
	var whole [16]uint8
	roundScale(whole[:], scale[:], unit, scaleQ3_K)
	d := asHalf(unit)
	var q [QKK]uint8
	for j, s := range whole {
		roundScale(q[j*16:][:16], x[j*16:][:16], d*(float32(s)-scaleQ3_K), mostQ3_K)
	}
	const bit0 = 0x0101010101010101
	for i := 0; i < 32; i += 8 {
		var third uint64
		for j := range 8 {
			third |= binary.LittleEndian.Uint64(q[32*j+i:]) >> 2 & bit0 << j
		}
		binary.LittleEndian.PutUint64(b[i:], third)
	}
	putTwoBits(b[32:96], &q)
	scales := b[96:108]
	clear(scales)
	for j, s := range whole {
		scales[j%8] |= s & 15 << (j / 8 * 4)
		scales[8+j%4] |= s >> 4 << (j / 4 * 2)
	}
	putHalf(b[108:], d)
}

func formQ4_K() minimumForm {
	return minimumForm{n: 8, quants: 15, scales: 63, unweighed: grids{first: -1, step: 0.1, tries: 21}}
}

func encodeQ4_K(b []byte, x []float32) {
	var w [QKK]float32
	weighSize(&w, x, 8)
	putQ4_K(b, x, &w, false)
}

func weighedQ4_K(b []byte, x, importance []float32, _ float32) {
	var w [QKK]float32
	weigh(w[:], x, importance, 2*meanSquare(x))
	putQ4_K(b, x, &w, true)
}

func putQ4_K(b []byte, x []float32, w *[QKK]float32, importance bool) {
	var q [QKK]uint8
	scale, least := formQ4_K().fit(&q, x, w, importance)
	putSixBits(b, &scale, &least)
	putNibbles(b[16:144], &q)
}

func formQ5_K() minimumForm {
	return minimumForm{n: 8, quants: 31, scales: 63, unweighed: grids{first: -0.5, step: 0.1, tries: 16}}
}

func encodeQ5_K(b []byte, x []float32) {
	var w [QKK]float32
	weighSize(&w, x, 8)
	putQ5_K(b, x, &w, false)
}

func weighedQ5_K(b []byte, x, importance []float32, _ float32) {
	var w [QKK]float32
	weigh(w[:], x, importance, 2*meanSquare(x))
	putQ5_K(b, x, &w, true)
}

func putQ5_K(b []byte, x []float32, w *[QKK]float32, importance bool) {
	var q [QKK]uint8
	scale, least := formQ5_K().fit(&q, x, w, importance)
	putSixBits(b, &scale, &least)
	high := b[16:48]
	clear(high)
	for i, v := range q {
		high[i%32] |= v >> 4 << (i / 32)
	}
	putNibbles(b[48:176], &q)
}

// putSixBits writes d, dmin and the scales and minima of Q4_K and Q5_K; it is the inverse of SixBitScales.
func putSixBits(b []byte, scale, least *parts) {
	putHalf(b, scale.unit)
	putHalf(b[2:], least.unit)
	s, m, packed := &scale.whole, &least.whole, b[4:16]
	for j := range 4 {
		packed[j] = s[j] | s[j+4]>>4<<6
		packed[j+4] = m[j] | m[j+4]>>4<<6
		packed[j+8] = s[j+4]&15 | m[j+4]<<4
	}
}

// putNibbles packs the low four bits of quants: the first 32 of every 64 are the low nibbles of 32 bytes.
func putNibbles(b []byte, q *[QKK]uint8) {
	for j := range 4 {
		for i := range 32 {
			at := q[j*64+i:]
			b[j*32+i] = at[0]&15 | at[32]<<4
		}
	}
}

// Quants of Q6_K are from −32 to 31, its scales from −128 to 127.
const (
	mostQ6_K  = 32
	scaleQ6_K = 128
)

func encodeQ6_K(b []byte, x []float32) {
	var w [QKK]float32
	weighSquares(w[:], x)
	putQ6_K(b, x, w[:])
}

func weighedQ6_K(b []byte, x, importance []float32, _ float32) { putQ6_K(b, x, importance) }

func putQ6_K(b []byte, x, w []float32) {
	var scale [16]float32
	fitScales(scale[:], x, w, mostQ6_K)
	unit := absMax(scale[:]) / -scaleQ6_K
	d, id := asHalf(unit), inverse(unit)
	var q [QKK]uint8
	for j, s := range scale {
		whole := within(s*id, -scaleQ6_K, scaleQ6_K-1)
		b[192+j] = byte(int8(whole))
		roundScale(q[j*16:][:16], x[j*16:][:16], d*whole, mostQ6_K)
	}
	for h := range 2 {
		for i := range 32 {
			at := q[h*128+i:]
			b[h*64+i] = at[0]&15 | at[64]<<4
			b[h*64+32+i] = at[32]&15 | at[96]<<4
			b[128+h*32+i] = at[0]>>4 | at[32]>>4<<2 | at[64]>>4<<4 | at[96]>>4<<6
		}
	}
	putHalf(b[208:], d)
}
