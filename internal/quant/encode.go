package quant

import (
	"encoding/binary"
	"fmt"
	"math"
)

// Encode stores src as t in dst, which holds exactly t.RowBytes(len(src)) bytes; len(src) is a multiple of t's block.
//
// Q4_0, Q4_1 and Q8_0 round as ggml's reference quantisers do. Q4_K and Q6_K are valid but simple: smallest and largest
// value span a sub-block; they serve synthetic models and tests, and are not llama.cpp's bit for bit. Q5_K is fitted. Block types take finite
// numbers whose scale fits binary16. Products are converted before a sum, so that no platform fuses them and all make the same bytes.
func Encode(t Type, dst []byte, src []float32) {
	if !t.Known() || len(src)%t.BlockElems() != 0 || len(dst) != t.RowBytes(len(src)) {
		panic(fmt.Sprintf("quant: %d elements do not fill %d bytes of %s", len(src), len(dst), t))
	}
	e := t.entry()
	if e.blockElems == 1 {
		e.encode(dst, src)
		return
	}
	for len(src) > 0 {
		e.encode(dst[:e.blockBytes], src[:e.blockElems])
		dst, src = dst[e.blockBytes:], src[e.blockElems:]
	}
}

func encodeF32(dst []byte, src []float32) {
	for i, v := range src {
		binary.LittleEndian.PutUint32(dst[4*i:], math.Float32bits(v))
	}
}

func encodeF16(dst []byte, src []float32) {
	for i, v := range src {
		binary.LittleEndian.PutUint16(dst[2*i:], F16FromF32(v))
	}
}

func encodeBF16(dst []byte, src []float32) {
	for i, v := range src {
		binary.LittleEndian.PutUint16(dst[2*i:], BF16FromF32(v))
	}
}

func encodeI32(dst []byte, src []float32) {
	for i, v := range src {
		binary.LittleEndian.PutUint32(dst[4*i:], uint32(int32(v)))
	}
}

func putHalf(b []byte, v float32) { binary.LittleEndian.PutUint16(b, F16FromF32(v)) }

func inverse(d float32) float32 {
	if d == 0 {
		return 0
	}
	return 1 / d
}

func absMax(x []float32) (signed float32) {
	var top float32
	for _, v := range x {
		if a := float32(math.Abs(float64(v))); a > top {
			top, signed = a, v
		}
	}
	return signed
}

// encodeQ4_0: the value of largest magnitude becomes -8.
func encodeQ4_0(b []byte, x []float32) {
	d := absMax(x) / -8
	id := inverse(d)
	putHalf(b, d)
	quant := func(v float32) byte { return byte(max(0, min(15, int(float32(v*id)+8.5)))) }
	for i := range QK / 2 {
		b[2+i] = quant(x[i]) | quant(x[i+QK/2])<<4
	}
}

// encodeQ8_0: the largest magnitude becomes ±127; halves round away from zero.
func encodeQ8_0(b []byte, x []float32) {
	d := float32(math.Abs(float64(absMax(x)))) / 127
	id := inverse(d)
	putHalf(b, d)
	for i, v := range x {
		b[2+i] = byte(int8(math.Round(float64(v * id))))
	}
}

func encodeQ4_K(b []byte, x []float32) {
	var span, low [8]float32
	for j := range 8 {
		lo, hi := float32(0), x[j*32]
		for _, v := range x[j*32:][:32] {
			lo, hi = min(lo, v), max(hi, v)
		}
		span[j], low[j] = (hi-lo)/15, -lo
	}
	var topSpan, topLow float32
	for j := range 8 {
		topSpan, topLow = max(topSpan, span[j]), max(topLow, low[j])
	}
	putHalf(b, topSpan/63)
	putHalf(b[2:], topLow/63)
	d, dmin := half(b), half(b[2:])
	clear(b[4:])
	for j := range 8 {
		s := min(63, uint8(math.Round(float64(span[j]*inverse(d)))))
		m := min(63, uint8(math.Round(float64(low[j]*inverse(dmin)))))
		if j < 4 {
			b[4+j] |= s
			b[8+j] |= m
		} else {
			b[8+j] = s&15 | m&15<<4
			b[j] |= s >> 4 << 6
			b[4+j] |= m >> 4 << 6
		}
		step, shift := inverse(d*float32(s)), dmin*float32(m)
		for i, v := range x[j*32:][:32] {
			q := max(0, min(15, math.Round(float64((v+shift)*step))))
			b[16+j/2*32+i] |= byte(q) << (j % 2 * 4)
		}
	}
}

func encodeQ6_K(b []byte, x []float32) {
	var step [16]float32
	for j := range step {
		step[j] = absMax(x[j*16:][:16]) / -32
	}
	putHalf(b[208:], absMax(step[:])/-128)
	d := half(b[208:])
	clear(b[:192])
	for j := range step {
		scale := max(-128, min(127, math.Round(float64(step[j]*inverse(d)))))
		b[192+j] = byte(int8(scale))
		inv := inverse(d * float32(scale))
		for i, v := range x[j*16:][:16] {
			q := byte(max(0, min(63, math.Round(float64(v*inv))+32)))
			e := j*16 + i
			h, r := e/128, e%128
			b[h*64+r%64] |= q & 15 << (r / 64 * 4)
			b[128+h*32+r%32] |= q >> 4 << (r / 32 * 2)
		}
	}
}
