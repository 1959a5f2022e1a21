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
//	Q6_K  16 scales as in the file, two for each block; low nibbles as Q4_0; 2×32 bytes of high bits: vector h's
//	      dword j holds in its bit pair f the high bits of elements 4(2f+h)… of block j; f16 d
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
		packSuper(t, dst[s*n:][:n], src[s*in:min(len(src), (s+1)*in)])
	}
}

// packSuper packs a superblock of a row, or what there is of its last one, whose rest is filled up with zeros.
func packSuper(t quant.Type, out, file []byte) {
	if len(file) < quant.QKK/t.BlockElems()*t.BlockBytes() {
		clear(out)
	}
	switch t {
	case quant.Q4_0:
		packQ4_0(out, file)
	case quant.Q8_0:
		packQ8_0(out, file)
	case quant.Q4_K:
		packQ4_K(out[:offQuants], out[offQuants:], file)
	case quant.Q6_K:
		packQ6_K(out[:offQuants], out[offQuants:offSuper], file)
		copy(out[offSuper:], file[208:])
	}
}

func get(b []byte) uint32    { return binary.LittleEndian.Uint32(b) }
func put(b []byte, v uint32) { binary.LittleEndian.PutUint32(b, v) }

// Blocks are packed one by one, by moves at constant places of arrays. Of a superblock's eight blocks a row's last one may have fewer.

// packQ4_0 packs blocks of a scale and 16 bytes. Byte i of a block holds elements i and i+16: groups i/4 and i/4+4, as ours does.
func packQ4_0(out, file []byte) {
	const size, lane = 18, 3*32 + 4 // bytes of a block; of a lane, from its first dword to its last
	for j := range len(file) / size {
		in := (*[size]byte)(file[j*size:])
		copy(out[2*j:2*j+2], in[:2])
		to := (*[lane]byte)(out[offQuants+4*j:])
		a, b := binary.LittleEndian.Uint64(in[2:]), binary.LittleEndian.Uint64(in[10:])
		put(to[:], uint32(a))
		put(to[32:], uint32(a>>32))
		put(to[64:], uint32(b))
		put(to[96:], uint32(b>>32))
	}
}

// packQ8_0 packs blocks of a scale and 32 bytes.
func packQ8_0(out, file []byte) {
	const size, lane = 34, 7*32 + 4
	for j := range len(file) / size {
		in := (*[size]byte)(file[j*size:])
		copy(out[2*j:2*j+2], in[:2])
		to := (*[lane]byte)(out[offQuants+4*j:])
		put(to[:], get(in[2:]))
		put(to[32:], get(in[6:]))
		put(to[64:], get(in[10:]))
		put(to[96:], get(in[14:]))
		put(to[128:], get(in[18:]))
		put(to[160:], get(in[22:]))
		put(to[192:], get(in[26:]))
		put(to[224:], get(in[30:]))
	}
}

// low4 is the low nibble of every byte.
const low4 = 0x0f0f0f0f

func packQ4_K(header, quants, src []byte) {
	in := (*[144]byte)(src)
	copy(header, in[:4])
	scale, min := quant.Q4KScales(in[4:16])
	var s, m uint64
	for j := range 8 {
		s |= uint64(scale[j]) << (6 * j)
		m |= uint64(min[j]) << (6 * j)
	}
	binary.LittleEndian.PutUint64(header[4:], s|m<<48)
	binary.LittleEndian.PutUint32(header[12:], uint32(m>>16))
	// Sub-blocks 2k and 2k+1 are the low and the high nibbles of 32 bytes of the file.
	for k := range 4 {
		pair := (*[32]byte)(in[16+32*k:])
		out := quants[8*k:][:104]
		for v := range 4 {
			a, b := get(pair[4*v:]), get(pair[16+4*v:])
			put(out[32*v:], a&low4|b&low4<<4)
			put(out[32*v+4:], a>>4&low4|b&^low4)
		}
	}
}

func packQ6_K(header, quants, src []byte) {
	in := (*[210]byte)(src)
	copy(header, in[192:208])
	for j := range 8 {
		// Block j is the low or the high nibbles of 32 bytes, and two bits at a place of its own of 32 others.
		half, quarter := j/4, j%4
		low := (*[32]byte)(in[64*half+32*(quarter&1):])
		high := (*[32]byte)(in[128+32*half:])
		shift := quarter >> 1 * 4
		out := quants[4*j:][:164] // low nibbles, then high bits
		for v := range 4 {
			put(out[32*v:], get(low[4*v:])>>shift&low4|get(low[16+4*v:])>>shift&low4<<4)
		}
		for h := range 2 {
			var bits uint32
			for f := range 4 {
				bits |= get(high[4*(2*f+h):]) >> (2 * quarter) & 0x03030303 << (2 * f)
			}
			put(out[128+32*h:], bits)
		}
	}
}
