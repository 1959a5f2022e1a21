package kernel

import (
	"encoding/binary"
	"math"

	"github.com/powerinfer-go/powerinfer/internal/compute/cpu/layout"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// PanelType returns the type in which weights of type t, unpacked to floats, are multiplied: the fastest that keeps the most of
// their precision.
func (k *Kernels) PanelType(t quant.Type) quant.Type {
	switch {
	case t.Quantised():
		return quant.Q8_0
	case k.bfloat && t != quant.F32:
		return quant.BF16
	}
	return quant.F32
}

// turner writes eight outputs of 32 neurons, block [32][256], as a piece of eight rows: four from lo, four from hi on, stride
// apart. A scale lies scale bytes before a row's piece.
type turner func(lo, hi *byte, stride uintptr, block *float32, scale uintptr)

// Turn writes one superblock of 32 neurons, block [32][256] in the order of sums of type sums, as elements at… of the 256 rows of
// n elements of a packed panel of type t.
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

// clearScales makes blocks of a panel's last superblocks zero, the scale of whose first is at first.
func clearScales(panel []byte, stride, first, blocks int) {
	for r := range quant.QKK {
		clear(panel[r*stride+first:][:2*blocks])
	}
}

// sumElement returns the element that lies at place p of a sum: the inverse of sumPlace.
func sumElement(p int) int {
	v, u, lane, odd := p/32, p/16%2, p/8%2, p/4%2
	return 32*(4*lane+2*u+odd) + 4*v + p%4
}
