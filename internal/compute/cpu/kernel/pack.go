package kernel

import (
	"encoding/binary"
	"fmt"

	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// A packed row of a quantised type is a sequence of superblocks of 256 elements, eight blocks of 32; SIMD lane j
// belongs to block j. A superblock lies in one piece, so that a row is one stream: the hardware's prefetchers follow it.
//
//	Q4_0  8 f16 scales; 4×32 bytes: vector v's dword j holds elements 4v… of block j in its low nibbles and
//	      elements 4(v+4)… in its high ones
//	Q8_0  8 f16 scales; 8×32 bytes, as activations
//	Q4_K  d, dmin, 8×6 bits of scales, 8×6 bits of minima; quants as Q4_0
//	Q6_K  8 scales of first halves, 8 of second; low nibbles as Q4_0; 2×32 bytes of high bits (vector h, field
//	      v: group 4h+v); f16 d
//
// The last superblock is filled up with zero scales. Float types stay rows as in the file.

// Offsets into a superblock.
const (
	offQuants = 16
	offHigh   = 144
	offSuper  = 208
)

// superBytes is the size of a packed superblock.
func superBytes(t quant.Type) int {
	switch t {
	case quant.Q8_0:
		return offQuants + 256
	case quant.Q6_K:
		return offSuper + 2
	}
	return offQuants + 128
}

// rowAlign keeps packed rows on cache lines.
const rowAlign = 64

// Quantised reports whether t is computed on int8 activations.
func Quantised(t quant.Type) bool {
	return t == quant.Q4_0 || t == quant.Q8_0 || t == quant.Q4_K || t == quant.Q6_K
}

// RowBytes is the packed size of a row of cols elements.
func RowBytes(t quant.Type, cols int) int {
	if !Quantised(t) {
		return t.RowBytes(cols)
	}
	return (Super(cols)*superBytes(t) + rowAlign - 1) / rowAlign * rowAlign
}

// PackRow writes a row of cols elements in file layout to dst [RowBytes].
func PackRow(t quant.Type, dst, src []byte, cols int) {
	if len(dst) != RowBytes(t, cols) || len(src) != t.RowBytes(cols) {
		panic(fmt.Sprintf("kernel: packing %d bytes of %s into %d", len(src), t, len(dst)))
	}
	if !Quantised(t) {
		copy(dst, src)
		return
	}
	n, in := superBytes(t), quant.QKK/t.BlockElems()*t.BlockBytes()
	for s := range Super(cols) {
		out := dst[s*n:][:n]
		file := src[s*in : min(len(src), (s+1)*in)]
		if len(file) < in {
			clear(out)
		}
		switch t {
		case quant.Q4_0:
			packBlocks(out, file, 18)
		case quant.Q8_0:
			packBlocks(out, file, 34)
		case quant.Q4_K:
			packQ4_K(out[:offQuants], out[offQuants:], file)
		case quant.Q6_K:
			packQ6_K(out[:offQuants], out[offQuants:offHigh], out[offHigh:offSuper], file)
			copy(out[offSuper:], file[208:])
		}
	}
}

// packBlocks packs up to eight blocks of a scale and quants. In Q4_0, byte i of a block holds elements i and i+16:
// groups i/4 and i/4+4, as ours does.
func packBlocks(out, file []byte, size int) {
	for j := range len(file) / size {
		in := file[j*size:][:size]
		out[2*j], out[2*j+1] = in[0], in[1]
		for v := range (size - 2) / 4 {
			*(*[4]byte)(out[offQuants+32*v+4*j:]) = [4]byte(in[2+4*v:])
		}
	}
}

func packQ4_K(header, quants, src []byte) {
	copy(header, src[:4])
	scale, min := quant.Q4KScales(src[4:16])
	var s, m uint64
	for j := range 8 {
		s |= uint64(scale[j]) << (6 * j)
		m |= uint64(min[j]) << (6 * j)
	}
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], s)
	copy(header[4:10], b[:6])
	binary.LittleEndian.PutUint64(b[:], m)
	copy(header[10:16], b[:6])
	for j := range 8 {
		in, shift := src[16+j/2*32:][:32], j%2*4
		for i := range 16 {
			quants[i/4*32+j*4+i%4] = in[i]>>shift&15 | in[i+16]>>shift&15<<4
		}
	}
}

func packQ6_K(header, low, high, src []byte) {
	var q [quant.QKK]uint8
	quant.Q6KQuants(&q, src)
	clear(high)
	for j := range 8 {
		header[j], header[8+j] = src[192+2*j], src[192+2*j+1]
		b := q[32*j:][:32]
		for i := range 16 {
			low[i/4*32+j*4+i%4] = b[i]&15 | b[i+16]&15<<4
		}
		for i, v := range b {
			high[i/16*32+j*4+i%4] |= v >> 4 << (2 * (i / 4 % 4))
		}
	}
}

// UnpackRow decodes a packed row of len(dst) elements.
func UnpackRow(t quant.Type, dst []float32, src []byte) {
	if !Quantised(t) {
		quant.Decode(t, dst, src)
		return
	}
	var block [quant.QKK]float32
	for s := range Super(len(dst)) {
		unpackSuper(t, &block, src[s*superBytes(t):])
		copy(dst[s*quant.QKK:], block[:])
	}
}

// superQuants unpacks a superblock: quants with their offset removed, and each half-block's scale and minimum.
func superQuants(t quant.Type, q *[quant.QKK]int32, scale, min *[16]float32, super []byte) {
	header := super[:offQuants]
	f16 := func(b []byte) float32 { return quant.F32FromF16(binary.LittleEndian.Uint16(b)) }
	for j := range 8 {
		var lo, hi, m float32
		switch t {
		case quant.Q4_0, quant.Q8_0:
			lo = f16(header[2*j:])
			hi = lo
		case quant.Q4_K:
			field := func(at int) float32 {
				var b [8]byte
				copy(b[:6], header[at:])
				return float32(binary.LittleEndian.Uint64(b[:]) >> (6 * j) & 63)
			}
			lo, m = f16(header)*field(4), f16(header[2:])*field(10)
			hi = lo
		case quant.Q6_K:
			d := f16(super[offSuper:])
			lo, hi = d*float32(int8(header[j])), d*float32(int8(header[8+j]))
		}
		scale[2*j], scale[2*j+1] = lo, hi
		min[2*j], min[2*j+1] = m, m
		for i := range 32 {
			at, v := j*4+i%4, i/4
			if t == quant.Q8_0 {
				q[32*j+i] = int32(int8(super[offQuants+32*v+at]))
				continue
			}
			x := int32(super[offQuants+32*(v%4)+at] >> (v / 4 * 4) & 15)
			switch t {
			case quant.Q4_0:
				x -= 8
			case quant.Q6_K:
				x |= int32(super[offHigh+32*(v/4)+at]>>(2*(v%4))&3) << 4
				x -= 32
			}
			q[32*j+i] = x
		}
	}
}

func unpackSuper(t quant.Type, dst *[quant.QKK]float32, super []byte) {
	var q [quant.QKK]int32
	var scale, min [16]float32
	superQuants(t, &q, &scale, &min, super)
	for i := range dst {
		dst[i] = scale[i/16]*float32(q[i]) - min[i/16]
	}
}
