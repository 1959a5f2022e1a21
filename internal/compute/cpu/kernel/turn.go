package kernel

import (
	"encoding/binary"
	"math"
	"unsafe"

	"github.com/powerinfer-go/powerinfer/internal/compute/cpu/layout"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// PanelType returns the type in which weights of type t, unpacked to floats, are multiplied: the fastest that keeps the
// most of their precision.
func (k *Kernels) PanelType(t quant.Type) quant.Type {
	switch {
	case t.Quantised():
		return quant.Q8_0
	case k.bfloat && t != quant.F32:
		return quant.BF16
	}
	return quant.F32
}

// turner writes eight outputs of 32 neurons, block [32][256], as a piece of eight rows: four from lo, four from hi on,
// stride apart. A scale is scale bytes before a row's piece.
type turner func(lo, hi *byte, stride uintptr, block *float32, scale uintptr)

// Turn writes one superblock of 32 neurons, block [32][256] in the order of sums of type sums, as elements at… of the
// 256 rows of n elements of a packed panel of type t.
func (k *Kernels) Turn(t quant.Type, panel []byte, n, at int, block *[GroupNeurons][quant.QKK]float32, sums quant.Type) {
	stride, piece, scale := RowBytes(t, n), 0, 0
	if t == quant.Q8_0 {
		group := at % quant.QKK / GroupNeurons
		piece = at/quant.QKK*layout.Of(t).Bytes + header + 4*group
		scale = header + 2*group
		if at+GroupNeurons == n {
			clearScales(panel, stride, piece-scale+2, 7-group)
		}
	} else {
		piece = t.RowBytes(at)
	}
	_ = panel[quant.QKK*stride-1]
	for e := 0; e < quant.QKK; e += 8 {
		lo, hi := e, e+4
		if summedInt8(sums) {
			lo = sumElement(e)
			hi = lo + GroupNeurons
		}
		if f := k.turn[t]; f != nil {
			f(&panel[lo*stride+piece], &panel[hi*stride+piece], uintptr(stride), &block[0][e], uintptr(scale))
			continue
		}
		for i := range 4 {
			turnGeneric(t, panel[(lo+i)*stride:][:stride], piece, piece-scale, block, e+i)
			turnGeneric(t, panel[(hi+i)*stride:][:stride], piece, piece-scale, block, e+4+i)
		}
	}
}

// turnGeneric writes output e of a block to its row: the definition of turners.
func turnGeneric(t quant.Type, row []byte, piece, scale int, block *[GroupNeurons][quant.QKK]float32, e int) {
	switch t {
	case quant.Q8_0:
		var most, inverse float32
		for i := range block {
			most = max(most, float32(math.Abs(float64(block[i][e]))))
		}
		if most >= sumFloor {
			inverse = 127 / most
		}
		binary.LittleEndian.PutUint16(row[scale:], quant.F16FromF32(most*float32(1.0/127)))
		for i := range block {
			row[piece+32*(i/4)+i%4] = byte(int8(math.RoundToEven(float64(block[i][e] * inverse))))
		}
	case quant.BF16:
		for i := range block {
			v := math.Float32bits(block[i][e])
			v += 0x7fff + v>>16&1 // to nearest, ties to even
			binary.LittleEndian.PutUint16(row[piece+2*i:], uint16(v>>16))
		}
	default:
		for i := range block {
			binary.LittleEndian.PutUint32(row[piece+4*i:], math.Float32bits(block[i][e]))
		}
	}
}

// clearScales makes the scales of a panel's last blocks zero. first is the offset of the first of them in a row.
func clearScales(panel []byte, stride, first, blocks int) {
	for r := range quant.QKK {
		clear(panel[r*stride+first:][:2*blocks])
	}
}

// TurnGroups writes superblock s of the outputs of n neurons as the 256 rows of a packed panel of Q8_0. The matrix of
// type t has this many outputs and is packed in groups. A group shares its scales, so quants and scales stay those of
// the file.
func (k *Kernels) TurnGroups(t quant.Type, panel []byte, n int, data []byte, outputs, s int) {
	groups, size, quants := n/GroupNeurons, GroupBytes(t, outputs), quantBytes(t)
	stride, plane, planes := RowBytes(quant.Q8_0, n), planeBytes(t, outputs), Super(outputs)*quant.QKK*2
	at := layout.Of(quant.Q8_0)
	_, _ = panel[quant.QKK*stride-1], data[groups*size-1]
	ask := func(from, to int) { // prefetches groups: the hardware sees no order in pieces of so few bytes
		for i := from * GroupNeurons; i < min(groups, to)*GroupNeurons && k.fetch != nil; i++ {
			k.fetch(&data[i/GroupNeurons*size+planes+i%GroupNeurons*plane+s*quants], uintptr(quants/64))
		}
	}
	ask(0, 8)
	for from := 0; from < groups; from += 8 { // superblocks of neurons: what is written of 64 rows stays in the nearest cache
		ask(from+8, from+16)
		end, super := min(groups, from+8), panel[from/8*at.Bytes:]
		for p := range quant.QKK {
			scales := super[sumElement(p)*stride:][:16]
			clear(scales)
			for g := from; g < end; g++ {
				copy(scales[2*(g-from):][:2], data[g*size+2*(s*quant.QKK+p):])
			}
		}
		for line := 0; line < quants; line += 64 {
			for g := from; g < end; g++ {
				to := unsafe.Pointer(&super[line/32*4*stride+at.Quants+4*(g-from)])
				first := unsafe.Pointer(&data[g*size+planes+s*quants+line])
				for q := 0; q < GroupNeurons; q += 4 {
					turnLine(t, unsafe.Add(to, 8*q), uintptr(stride), unsafe.Add(first, q*plane), uintptr(plane))
				}
			}
		}
	}
}

// turnLine writes 64 bytes of the quants of four neurons, plane bytes apart, as dwords of rows from to on.
func turnLine(t quant.Type, to unsafe.Pointer, stride uintptr, from unsafe.Pointer, plane uintptr) {
	for d := range uintptr(8) {
		p, q := unsafe.Add(from, 8*d), unsafe.Add(from, 8*d+2*plane)
		a, b, c, e := interleave(*(*uint64)(p), *(*uint64)(unsafe.Add(p, plane)), *(*uint64)(q), *(*uint64)(unsafe.Add(q, plane)))
		// Dwords 2(d%4) and 2(d%4)+1 of a half line belong to the blocks of these numbers. A block's 32 rows are
		// consecutive. The line's second half holds the next four elements of each block.
		row := unsafe.Add(to, (64*(d%4)+d/4*4)*stride)
		if t == quant.Q8_0 {
			putQuad(row, stride, a, b, c, e)
			continue
		}
		putQuad(row, stride, lessEight(a), lessEight(b), lessEight(c), lessEight(e))
		putQuad(unsafe.Add(row, 16*stride), stride, lessEight(a>>4), lessEight(b>>4), lessEight(c>>4), lessEight(e>>4))
	}
}

// lessEight returns the low nibbles of eight bytes, less 8 each.
func lessEight(x uint64) uint64 {
	return (x&0x0f0f0f0f0f0f0f0f | 0x8080808080808080) - 0x0808080808080808 ^ 0x8080808080808080
}

// interleave returns the first bytes of the halves of four words, the second ones, the third and the fourth.
func interleave(a, b, c, d uint64) (first, second, third, fourth uint64) {
	const even, low = 0x00ff00ff00ff00ff, 0x0000ffff0000ffff
	ab, cd := a&even|b&even<<8, c&even|d&even<<8
	first, third = ab&low|cd<<16&^low, ab>>16&low|cd&^low
	ab, cd = a>>8&even|b&^even, c>>8&even|d&^even
	return first, ab&low | cd<<16&^low, third, ab>>16&low | cd&^low
}

// putQuad writes the lower halves of four words to consecutive rows, and the upper halves to the rows 32 further on.
func putQuad(row unsafe.Pointer, stride uintptr, a, b, c, d uint64) {
	next := unsafe.Add(row, GroupNeurons*stride)
	*(*uint32)(row), *(*uint32)(next) = uint32(a), uint32(a>>32)
	*(*uint32)(unsafe.Add(row, stride)), *(*uint32)(unsafe.Add(next, stride)) = uint32(b), uint32(b>>32)
	*(*uint32)(unsafe.Add(row, 2*stride)), *(*uint32)(unsafe.Add(next, 2*stride)) = uint32(c), uint32(c>>32)
	*(*uint32)(unsafe.Add(row, 3*stride)), *(*uint32)(unsafe.Add(next, 3*stride)) = uint32(d), uint32(d>>32)
}

// sumElement returns the element at place p of a sum: the inverse of sumPlace.
func sumElement(p int) int {
	v, u, lane, odd := p/32, p/16%2, p/8%2, p/4%2
	return 32*(4*lane+2*u+odd) + 4*v + p%4
}
