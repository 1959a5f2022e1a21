package quant

import (
	"encoding/binary"
	"fmt"
	"math"
)

// Decode writes the elements of src, stored as t, to dst. len(dst) is a multiple of t's block and
// src holds exactly t.RowBytes(len(dst)) bytes. It is the definition of every type.
//
// Source: the block layouts of the GGUF specification and ggml's published block structures.
func Decode(t Type, dst []float32, src []byte) {
	if !t.Known() || len(dst)%t.BlockElems() != 0 || len(src) != t.RowBytes(len(dst)) {
		panic(fmt.Sprintf("quant: %d bytes of %s do not hold %d elements", len(src), t, len(dst)))
	}
	e := t.entry()
	if e.blockElems == 1 {
		e.decode(dst, src)
		return
	}
	var p Parts
	for len(dst) > 0 {
		if e.parted {
			t.Split(&p, src)
			p.decode(t, dst[:e.blockElems])
			dst, src = dst[e.blockElems:], src[e.blockBytes:]
			continue
		}
		e.decode(dst[:e.blockElems], src[:e.blockBytes])
		dst, src = dst[e.blockElems:], src[e.blockBytes:]
	}
}

func decodeF32(dst []float32, src []byte) {
	for i := range dst {
		dst[i] = math.Float32frombits(binary.LittleEndian.Uint32(src[4*i:]))
	}
}

func decodeF16(dst []float32, src []byte) {
	for i := decodeF16Vectors(dst, src); i < len(dst); i++ {
		dst[i] = F32FromF16(binary.LittleEndian.Uint16(src[2*i:]))
	}
}

func decodeBF16(dst []float32, src []byte) {
	for i := range dst {
		dst[i] = F32FromBF16(binary.LittleEndian.Uint16(src[2*i:]))
	}
}

func decodeI32(dst []float32, src []byte) {
	for i := range dst {
		dst[i] = float32(int32(binary.LittleEndian.Uint32(src[4*i:])))
	}
}

func decodeI64(dst []float32, src []byte) {
	for i := range dst {
		dst[i] = float32(int64(binary.LittleEndian.Uint64(src[8*i:])))
	}
}

func half(b []byte) float32 { return F32FromF16(binary.LittleEndian.Uint16(b)) }

// decodeQ4_0: d, then 16 bytes; element i is the low nibble of byte i, element i+16 its high one: (q-8)·d.
func decodeQ4_0(dst []float32, b []byte) {
	d := half(b)
	for i, q := range b[2:] {
		dst[i] = d * float32(int(q&15)-8)
		dst[i+QK/2] = d * float32(int(q>>4)-8)
	}
}

// decodeQ8_0: d, then 32 signed bytes: q·d.
func decodeQ8_0(dst []float32, b []byte) {
	d := half(b)
	for i, q := range b[2:] {
		dst[i] = d * float32(int8(q))
	}
}

// SixBitScales unpacks 12 bytes of a Q4_K superblock into the six-bit scales and minima of its eight sub-blocks.
func SixBitScales(b []byte) (scale, min [8]uint8) {
	for j := range 4 {
		scale[j], min[j] = b[j]&63, b[j+4]&63
		scale[j+4] = b[j+8]&15 | b[j]>>6<<4
		min[j+4] = b[j+8]>>4 | b[j+4]>>6<<4
	}
	return scale, min
}

// decodeQ4_K: d, dmin, packed scales, then 128 bytes: sub-blocks 2k and 2k+1 are the low and high nibbles
// of bytes 32k…32k+31: d·scale·q − dmin·min.
func decodeQ4_K(dst []float32, b []byte) {
	d, dmin := half(b), half(b[2:])
	scale, min := SixBitScales(b[4:16])
	for j := range 8 {
		s, m := d*float32(scale[j]), dmin*float32(min[j])
		for i, q := range b[16+j/2*32:][:32] {
			dst[j*32+i] = float32(s*float32(q>>(j%2*4)&15)) - m // converted: no platform may fuse, or values would differ
		}
	}
}

// Q6KQuants unpacks the 256 six-bit quants of a Q6_K superblock: 128 bytes of low nibbles, 64 of high bits.
func Q6KQuants(q *[QKK]uint8, b []byte) {
	low, high := b[:128], b[128:192]
	for h := range 2 {
		for i := range 32 {
			l0, l1, hi := low[h*64+i], low[h*64+32+i], high[h*32+i]
			at := q[h*128:]
			at[i] = l0&15 | hi&3<<4
			at[i+32] = l1&15 | hi>>2&3<<4
			at[i+64] = l0>>4 | hi>>4&3<<4
			at[i+96] = l1>>4 | hi>>6<<4
		}
	}
}

// decodeQ6_K: quants, 16 signed scales for 16 elements each, d: d·scale·(q-32).
func decodeQ6_K(dst []float32, b []byte) {
	var q [QKK]uint8
	Q6KQuants(&q, b)
	d := half(b[208:])
	for i := range dst {
		dst[i] = d * float32(int8(b[192+i/16])) * float32(int(q[i])-32)
	}
}
