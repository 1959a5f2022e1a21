package kernel

import (
	"fmt"

	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// Restorable reports whether rows of t can be had back as the file has them.
func Restorable(t quant.Type) bool {
	return !Quantised(t) || t == quant.Q4_0 || t == quant.Q8_0
}

// RestoreRow is the inverse of PackRow: it writes a packed row of cols elements [RowBytes] to dst in file layout.
func RestoreRow(t quant.Type, dst, src []byte, cols int) {
	if len(src) != RowBytes(t, cols) || len(dst) != t.RowBytes(cols) || !Restorable(t) {
		panic(fmt.Sprintf("kernel: restoring %d bytes of %s from %d", len(dst), t, len(src)))
	}
	if !Quantised(t) {
		copy(dst, src)
		return
	}
	n, size := superBytes(t), t.BlockBytes()
	in := quant.QKK / quant.QK * size
	for s := range Super(cols) {
		restoreBlocks(dst[s*in:min(len(dst), (s+1)*in)], src[s*n:][:n], size)
	}
}

// restoreBlocks is the inverse of packBlocks.
func restoreBlocks(file, packed []byte, size int) {
	for j := range len(file) / size {
		out := file[j*size:][:size]
		out[0], out[1] = packed[2*j], packed[2*j+1]
		from := packed[offQuants+4*j:]
		for v := range (size - 2) / 4 {
			put(out[2+4*v:], get(from[32*v:]))
		}
	}
}

// RestoreGroup is the inverse of PackGroup: it writes a group [GroupBytes] as block column to of a matrix in file layout, dst with
// rowBytes per row. Only superblock s of the outputs is read.
func RestoreGroup(t quant.Type, dst, group []byte, rows, rowBytes, to, s int) {
	block, plane, quants := t.BlockBytes(), planeBytes(t, rows), superBytes(t)-offQuants
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
