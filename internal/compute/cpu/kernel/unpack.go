package kernel

import (
	"encoding/binary"
	"math"

	"github.com/powerinfer-go/powerinfer/internal/compute/cpu/layout"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// UnpackRow decodes a packed row of len(dst) elements.
func UnpackRow(t quant.Type, dst []float32, src []byte) {
	if !t.Quantised() {
		quant.Decode(t, dst, src)
		return
	}
	for s := range Super(len(dst)) {
		unpackSuper(t, dst[s*quant.QKK:min(len(dst), (s+1)*quant.QKK)], src, s)
	}
}

// unpackSuper decodes elements 256·s… of a packed row.
func unpackSuper(t quant.Type, dst []float32, src []byte, s int) {
	if !t.Quantised() {
		quant.Decode(t, dst, src[t.RowBytes(s*quant.QKK):t.RowBytes(s*quant.QKK+len(dst))])
		return
	}
	var w superblock
	w.read(t, src, s)
	for i := range dst {
		dst[i] = float32(w.scale[i/32]*float32(w.half[i/16])*float32(w.q[i])) - w.min[i/32]*float32(w.least[i/16])
	}
}

// superblock is one superblock of a packed row in plain numbers: element i of block j is
// scale[j]·half[2j+i/16]·q[32j+i] − min[j]·least[2j+i/16].
type superblock struct {
	q           [quant.QKK]int32 // offset removed, codes looked up
	half, least [16]int32        // scales and minima of half-blocks; 1 in types without
	scale, min  [8]float32
}

// read unpacks superblock s of a row.
func (w *superblock) read(t quant.Type, row []byte, s int) {
	at, traits := layout.Of(t), t.Traits()
	b := row[s*at.Bytes:][:at.Bytes]
	w.scales(t, b)
	quants, high := b[at.Quants:], b[at.High:]
	for j := range 8 {
		for i := range 32 {
			place, v := j*4+i%4, i/4
			if traits.Bits == 8 {
				w.q[32*j+i] = int32(int8(quants[32*v+place]))
				continue
			}
			var x int32
			if traits.Bits < 4 {
				x = int32(quants[32*(v%2)+place] >> (v / 2 * 2) & 3)
			} else {
				x = int32(quants[32*(v%4)+place] >> (v / 4 * 4) & 15)
			}
			switch traits.Bits {
			case 3:
				x |= int32(high[place]>>v&1) << 2
			case 5:
				x |= int32(high[place]>>v&1) << 4
			case 6:
				x |= int32(high[32*(v%2)+place]>>(v/2*2)&3) << 4
			}
			if traits.Codebook != nil {
				w.q[32*j+i] = int32(traits.Codebook[x])
				continue
			}
			w.q[32*j+i] = x - int32(traits.Offset)
		}
	}
}

func (w *superblock) scales(t quant.Type, b []byte) {
	f16 := func(b []byte) float32 { return quant.F32FromF16(binary.LittleEndian.Uint16(b)) }
	field := func(at, j int) float32 {
		var six [8]byte
		copy(six[:6], b[at:])
		return float32(binary.LittleEndian.Uint64(six[:]) >> (6 * j) & 63)
	}
	at, traits := layout.Of(t), t.Traits()
	for g := range w.half {
		w.half[g], w.least[g] = 1, 1
	}
	for j := range 8 {
		w.min[j] = 0
		switch traits.Scales {
		case quant.BlockMin:
			w.scale[j], w.min[j] = f16(b[2*j:]), -f16(b[layout.Minima+2*j:])
		case quant.SixBits:
			w.scale[j], w.min[j] = f16(b)*field(4, j), f16(b[2:])*field(10, j)
		case quant.HalfBlocks:
			w.scale[j] = f16(b[at.Unit:])
			w.half[2*j], w.half[2*j+1] = int32(int8(b[2*j])), int32(int8(b[2*j+1]))
		case quant.ByteBlocks:
			w.scale[j] = f16(b[at.Unit:]) * float32(int8(b[j]))
		case quant.NibbleMinima:
			w.scale[j], w.min[j] = f16(b[at.Unit:]), f16(b[at.Unit+2:])
			for g := 2 * j; g < 2*j+2; g++ {
				w.half[g], w.least[g] = int32(b[g]&15), int32(b[g]>>4)
			}
		case quant.Exponents: // of the smallest normal number's half, too
			w.scale[j] = math.Float32frombits(max(uint32(b[j])<<23, 1<<22))
		case quant.SuperScale:
			w.scale[j] = f16(b[at.Unit:])
		default:
			w.scale[j] = f16(b[2*j:])
		}
		w.scale[j] *= 1 / float32(uint(1)<<traits.Halvings)
	}
}
