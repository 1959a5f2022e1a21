package kernel

import (
	"encoding/binary"

	"github.com/powerinfer-go/powerinfer/internal/compute/cpu/layout"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// HasPlanes reports whether Planes knows a type.
func HasPlanes(t quant.Type) bool {
	switch t {
	case quant.Q4_0, quant.Q8_0, quant.Q4_K, quant.Q5_K, quant.Q6_K:
		return true
	}
	return false
}

// Planes writes a packed row of cols elements as compute.RowKeeper describes.
func Planes(t quant.Type, planes [][]byte, packed []byte, cols int) {
	of, units := layout.Of(t), cols/quant.QK
	for s := range Super(cols) {
		in, n := packed[s*of.Bytes:][:of.Bytes], min(8, units-8*s)
		switch t {
		case quant.Q8_0:
			eightWords(planes[0][256*s:], in[of.Quants:], n)
		default:
			fourWords(planes[0][128*s:], in[of.Quants:], n)
		}
		switch t {
		case quant.Q4_0, quant.Q8_0:
			copy(planes[1][16*s:], in[:2*n])
		case quant.Q4_K:
			restoreSixBits(planes[1][16*s:][:16], in)
		case quant.Q5_K:
			copy(planes[1][32*s:], in[of.High:][:32])
			restoreSixBits(planes[2][16*s:][:16], in)
		case quant.Q6_K:
			twoWords(planes[1][64*s:], in[of.High:])
			copy(planes[2][16*s:], in[:16])
			copy(planes[3][2*s:], in[of.Unit:][:2])
		}
	}
}

// pair returns two words of a lane, from neighbouring vectors, in the order of its block.
func pair(a, b []byte) uint64 { return uint64(get(a)) | uint64(get(b))<<32 }

// Lane j of vector v is word v of block j.

func twoWords(out, in []byte) {
	for j := range 8 {
		lane := (*[36]byte)(in[4*j:])
		binary.LittleEndian.PutUint64(out[8*j:], pair(lane[:], lane[32:]))
	}
}

func fourWords(out, in []byte, blocks int) {
	for j := range blocks {
		lane, to := (*[100]byte)(in[4*j:]), (*[16]byte)(out[16*j:])
		binary.LittleEndian.PutUint64(to[:], pair(lane[:], lane[32:]))
		binary.LittleEndian.PutUint64(to[8:], pair(lane[64:], lane[96:]))
	}
}

func eightWords(out, in []byte, blocks int) {
	for j := range blocks {
		lane, to := (*[228]byte)(in[4*j:]), (*[32]byte)(out[32*j:])
		binary.LittleEndian.PutUint64(to[:], pair(lane[:], lane[32:]))
		binary.LittleEndian.PutUint64(to[8:], pair(lane[64:], lane[96:]))
		binary.LittleEndian.PutUint64(to[16:], pair(lane[128:], lane[160:]))
		binary.LittleEndian.PutUint64(to[24:], pair(lane[192:], lane[224:]))
	}
}

// GroupPlanes writes a group of a matrix with rows outputs, packed by PackGroup, as compute.RowKeeper describes.
func GroupPlanes(t quant.Type, planes [][]byte, group []byte, rows int) {
	units, plane, quants := (rows+quant.QK-1)/quant.QK, planeBytes(t, rows), quantBytes(t)
	size := len(planes[0]) / GroupNeurons
	scales, neurons := group[:Super(rows)*quant.QKK*2], group[Super(rows)*quant.QKK*2:]
	for s := range Super(rows) {
		blocks := min(8, units-8*s)
		for n := range GroupNeurons {
			in := neurons[n*plane+s*quants:]
			if t == quant.Q8_0 {
				eightWords(planes[0][n*size+256*s:], in, blocks)
			} else {
				fourWords(planes[0][n*size+128*s:], in, blocks)
			}
		}
		for b := range blocks {
			for i := 0; i < quant.QK; i += 4 { // four outputs with neighbouring sums
				copy(planes[1][2*(s*quant.QKK+b*quant.QK+i):][:8], scales[2*(s*quant.QKK+sumPlace(b, i)):])
			}
		}
	}
}
