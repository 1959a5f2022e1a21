package kernel

import (
	"encoding/binary"
	"fmt"

	"github.com/powerinfer-go/powerinfer/internal/compute/cpu/layout"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// A packed row of a quantised type is a sequence of superblocks of 256 elements, which package layout describes. A
// superblock is contiguous, so that a row is one stream that the hardware's prefetchers follow. The last superblock is
// padded with zero scales. Rows of float types stay as in the file.

// packing converts a type's superblocks from the file's layout into the kernels' and back, in plain Go.
type packing struct {
	// pack takes a superblock, or the blocks that there are of a row's last one; of types with parts any number of
	// whole superblocks.
	pack    func(out, file []byte)
	restore func(file, packed []byte)
}

// packings holds the packings of types that have no parts. It may also hold faster versions of packParts and
// restoreParts for types with parts; those two functions define the layout.
var packings = [...]packing{
	quant.Q4_0: {packQ4_0, restoreQ4_0},
	quant.Q4_1: {packQ4_1, restoreQ4_1},
	quant.Q8_0: {packQ8_0, restoreQ8_0},
	quant.Q4_K: {packQ4_K, restoreQ4_K},
	quant.Q5_K: {packQ5_K, restoreQ5_K},
	quant.Q6_K: {packQ6_K, restoreQ6_K},

	quant.IQ2_XXS: {pack: packIQ2_XXS},
	quant.IQ2_XS:  {pack: packIQ2_XS},
	quant.IQ2_S:   {pack: packIQ2_S},
	quant.IQ3_XXS: {pack: packIQ3_XXS},
	quant.IQ3_S:   {pack: packIQ3_S},
	quant.IQ1_S:   {pack: packIQ1_S},
	quant.IQ1_M:   {pack: packIQ1_M},
	quant.TQ1_0:   {pack: packTQ1_0},
	quant.Q1_0:    {pack: packQ1_0},
	quant.Q2_0:    {pack: packQ2_0},

	quant.IQ4_NL: {restore: restoreQ4_0},
	quant.MXFP4:  {restore: restoreMXFP4},

	quant.NVFP4:       {pack: packNVFP4},
	quant.NVFP4Scaled: {pack: packNVFP4Scaled},
}

// rowAlign keeps packed rows on cache lines.
const rowAlign = 64

// RowBytes returns the packed size of a row of cols elements.
func RowBytes(t quant.Type, cols int) int {
	if !t.Quantised() {
		return t.RowBytes(cols)
	}
	return (Super(cols)*layout.Of(t).Bytes + rowAlign - 1) / rowAlign * rowAlign
}

// SuperAt returns where superblock s of a packed row begins, in bytes.
func SuperAt(t quant.Type, s int) int {
	if !t.Quantised() {
		return t.RowBytes(s * quant.QKK)
	}
	return s * layout.Of(t).Bytes
}

// PackRow writes a row of cols elements in file layout to dst [RowBytes].
func PackRow(t quant.Type, dst, src []byte, cols int) {
	if len(dst) != RowBytes(t, cols) || len(src) != t.RowBytes(cols) {
		panic(fmt.Sprintf("kernel: packing %d bytes of %s into %d", len(src), t, len(dst)))
	}
	if !t.Quantised() {
		copy(dst, src)
		return
	}
	if t.Parted() && quicker(t) {
		packings[t].pack(dst, src)
		return
	}
	n, in := layout.Of(t).Bytes, quant.QKK/t.BlockElems()*t.BlockBytes()
	for s := range Super(cols) {
		packSuper(t, dst[s*n:][:n], src[s*in:min(len(src), (s+1)*in)])
	}
}

// packSuper packs a superblock of a row. It pads a row's last superblock with zeros.
func packSuper(t quant.Type, out, file []byte) {
	if len(file) < quant.QKK/t.BlockElems()*t.BlockBytes() {
		clear(out)
	}
	if t.Parted() && !quicker(t) {
		packParts(t, out, file)
		return
	}
	packings[t].pack(out, file)
}

// quicker reports whether a type with parts is packed by more than packParts.
func quicker(t quant.Type) bool { return int(t) < len(packings) && packings[t].pack != nil }

// header is the smallest size of a type's scales.
const header = 16

func get(b []byte) uint32    { return binary.LittleEndian.Uint32(b) }
func put(b []byte, v uint32) { binary.LittleEndian.PutUint32(b, v) }

// Blocks are packed one by one, by moves at constant places of arrays. Of a superblock's eight blocks a row's last one
// may have fewer.

// packQ4_0 packs blocks of a scale and 16 bytes. Byte i of a block holds elements i and i+16: groups i/4 and i/4+4, as
// ours does.
func packQ4_0(out, file []byte) {
	const size, lane = 18, 3*32 + 4 // bytes of a block; of a lane, from its first dword to its last
	for j := range len(file) / size {
		in := (*[size]byte)(file[j*size:])
		copy(out[2*j:2*j+2], in[:2])
		to := (*[lane]byte)(out[header+4*j:])
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
		to := (*[lane]byte)(out[header+4*j:])
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

func packQ4_K(out, file []byte) {
	in := (*[144]byte)(file)
	packSixBits(out, in[:16])
	packPairs(out[header:], in[16:])
}

// packSixBits packs d, dmin and the six-bit scales and minima of eight blocks.
func packSixBits(out, file []byte) {
	copy(out, file[:4])
	scale, min := quant.SixBitScales(file[4:16])
	var s, m uint64
	for j := range 8 {
		s |= uint64(scale[j]) << (6 * j)
		m |= uint64(min[j]) << (6 * j)
	}
	binary.LittleEndian.PutUint64(out[4:], s|m<<48)
	binary.LittleEndian.PutUint32(out[12:], uint32(m>>16))
}

// packPairs packs nibbles. In the file, sub-blocks 2k and 2k+1 are the low and the high nibbles of 32 bytes.
func packPairs(quants, file []byte) {
	for k := range 4 {
		pair := (*[32]byte)(file[32*k:])
		out := quants[8*k:][:104]
		for v := range 4 {
			a, b := get(pair[4*v:]), get(pair[16+4*v:])
			put(out[32*v:], a&low4|b&low4<<4)
			put(out[32*v+4:], a>>4&low4|b&^low4)
		}
	}
}

func packQ6_K(packed, file []byte) {
	in := (*[210]byte)(file)
	copy(packed, in[192:208])
	copy(packed[layout.Of(quant.Q6_K).Unit:], in[208:])
	quants := packed[header:]
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
