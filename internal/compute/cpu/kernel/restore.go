package kernel

import (
	"encoding/binary"
	"fmt"

	"github.com/powerinfer-go/powerinfer/internal/compute/cpu/layout"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// RestoreRow is the inverse of PackRow: of a packed row it writes cols elements from element from on, which begins a
// block, to dst in file layout.
func RestoreRow(t quant.Type, dst, src []byte, from, cols int) {
	if len(dst) != t.RowBytes(cols) || len(src) < RowBytes(t, from+cols) || from%t.BlockElems() != 0 {
		panic(fmt.Sprintf("kernel: restoring %d bytes of %s from %d", len(dst), t, len(src)))
	}
	if !t.Quantised() {
		copy(dst, src[t.RowBytes(from):])
		return
	}
	n, in := layout.Of(t).Bytes, t.RowBytes(quant.QKK)
	src = src[from/quant.QKK*n:]
	if skip := t.RowBytes(from % quant.QKK); skip > 0 { // dst begins inside a superblock
		var first [maxFileSuper]byte
		whole := first[:min(in, skip+len(dst))]
		restoreSuper(t, whole, src[:n])
		dst, src = dst[copy(dst, whole[skip:]):], src[n:]
	}
	for ; len(dst) > 0; src = src[n:] {
		file := dst[:min(in, len(dst))]
		restoreSuper(t, file, src[:n])
		dst = dst[len(file):]
	}
}

// maxFileSuper is at least what 256 elements of any quantised type take in a file.
const maxFileSuper = quant.QKK + quant.QKK/4

// restoreSuper restores a superblock, or the first blocks of one.
func restoreSuper(t quant.Type, file, packed []byte) {
	if t.Parted() && (int(t) >= len(packings) || packings[t].restore == nil) {
		restoreParts(t, file, packed)
	} else {
		packings[t].restore(file, packed)
	}
}

func restoreQ4_0(file, packed []byte)  { restoreBlocks(file, packed, 2, 16, header) }
func restoreQ8_0(file, packed []byte)  { restoreBlocks(file, packed, 2, 32, header) }
func restoreMXFP4(file, packed []byte) { restoreBlocks(file, packed, 1, 16, header/2) }

// restoreBlocks restores blocks of a scale and quants; both numbers are sizes in bytes. The quants' words are in the
// file's order. The quants of all blocks begin at byte from.
func restoreBlocks(file, packed []byte, scale, quants, from int) {
	for j := range len(file) / (scale + quants) {
		out := file[j*(scale+quants):][:scale+quants]
		copy(out, packed[scale*j:][:scale])
		in := packed[from+4*j:][:8*quants-28]
		for q := out[scale:]; len(q) >= 8; q = q[8:] {
			binary.LittleEndian.PutUint64(q, uint64(get(in))|uint64(get(in[32:]))<<32)
			in = in[min(64, len(in)):]
		}
	}
}

// restoreQ4_K is the inverse of packQ4_K.
func restoreQ4_K(file, packed []byte) {
	restoreSixBits(file, packed)
	restorePairs(file[16:144], packed[header:])
}

// restoreSixBits is the inverse of packSixBits.
func restoreSixBits(file, packed []byte) {
	copy(file[:4], packed)
	high := binary.LittleEndian.Uint32(packed[12:])
	low := binary.LittleEndian.Uint64(packed[4:])
	scale := func(j int) byte { return byte(low >> (6 * j) & 63) }
	least := func(j int) byte { return byte((low>>48 | uint64(high)<<16) >> (6 * j) & 63) }
	for j := range 4 { // quant.SixBitScales says where their bits are
		file[4+j] = scale(j) | scale(j+4)>>4<<6
		file[8+j] = least(j) | least(j+4)>>4<<6
		file[12+j] = scale(j+4)&15 | least(j+4)<<4
	}
}

// restorePairs is the inverse of packPairs.
func restorePairs(file, quants []byte) {
	for k := range 4 {
		pair, from := file[32*k:][:32], quants[8*k:]
		for v := range 4 {
			even, odd := get(from[32*v:]), get(from[32*v+4:])
			put(pair[4*v:], even&low4|odd&low4<<4)
			put(pair[16+4*v:], even>>4&low4|odd&^low4)
		}
	}
}

// restoreQ6_K is the inverse of packQ6_K.
func restoreQ6_K(file, packed []byte) {
	out := (*[210]byte)(file)
	clear(out[:192])
	copy(out[192:208], packed)
	copy(out[208:], packed[layout.Of(quant.Q6_K).Unit:])
	add := func(at int, bits uint32) { put(out[at:], get(out[at:])|bits) }
	for j := range 8 {
		half, quarter := j/4, j%4
		low, high, shift := 64*half+32*(quarter&1), 128+32*half, quarter>>1*4
		for v := range 4 {
			x := get(packed[header+4*j+32*v:])
			add(low+4*v, x&low4<<shift)
			add(low+16+4*v, x>>4&low4<<shift)
		}
		for h := range 2 {
			bits := get(packed[layout.Of(quant.Q6_K).High+4*j+32*h:])
			for f := range 4 {
				add(high+4*(2*f+h), bits>>(2*f)&0x03030303<<(2*quarter))
			}
		}
	}
}

// RestoreGroup is the inverse of PackGroup: it writes a group [GroupBytes] as block column to of a matrix in file
// layout, dst with rowBytes per row. Only superblock s of the outputs is read.
func RestoreGroup(t quant.Type, dst, group []byte, rows, rowBytes, to, s int) {
	block, plane, quants := t.BlockBytes(), planeBytes(t, rows), quantBytes(t)
	planes := group[Super(rows)*quant.QKK*2:]
	for e := range min(quant.QKK, rows-s*quant.QKK) {
		out := dst[(s*quant.QKK+e)*rowBytes+to*block:][:block]
		b, i := e/32, e%32
		copy(out, group[2*(s*quant.QKK+sumPlace(b, i)):][:2])
		at, shift := s*quants+32*(i/4)+4*b+i%4, uint(0)
		if t == quant.Q4_0 {
			at, shift = s*quants+32*(i/4%4)+4*b+i%4, uint(i/16*4)
		}
		if t == quant.Q8_0 {
			for n := range GroupNeurons {
				out[2+n] = planes[n*plane+at]
			}
			continue
		}
		for n := range GroupNeurons / 2 {
			out[2+n] = planes[n*plane+at]>>shift&15 | planes[(n+16)*plane+at]>>shift&15<<4
		}
	}
}
