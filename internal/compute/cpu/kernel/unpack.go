package kernel

import (
	"encoding/binary"
	"math"

	"github.com/powerinfer-go/powerinfer/internal/compute/cpu/layout"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// unpacker turns packed superblocks into floats by vectors. expand writes them as a panel's, with quants offset above
// their values, and floats turns those into floats.
type unpacker struct {
	expand func(dst, w *byte, n uintptr)
	floats func(dst *float32, panel *byte, n, offset uintptr)
	offset uintptr
}

// panelSuper is at least what a superblock of a row of a panel takes, which alternates with another row.
const panelSuper = 2 * (layout.PanelQuants + 2*quant.QKK)

func (u *unpacker) known() bool { return u.expand != nil }

// super writes a superblock at w as floats. panel is free.
func (u *unpacker) super(dst *[quant.QKK]float32, w *byte, panel *[panelSuper]byte) {
	u.expand(&panel[0], w, 1)
	u.floats(&dst[0], &panel[0], 1, u.offset)
}

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
	if t.Traits().Scales == quant.SmallFloats {
		for i := range dst {
			dst[i] = w.part[i/16] * float32(w.q[place(i)])
		}
		return
	}
	for i := range dst {
		dst[i] = float32(w.scale[i/32]*float32(w.half[i/16])*float32(w.q[place(i)])) - w.min[i/32]*float32(w.least[i/16])
	}
}

// superblock is one superblock of a packed row in plain numbers: element i of block j is
// scale[j]·half[2j+i/16]·q[place(32j+i)] − min[j]·least[2j+i/16], of SmallFloats part[2j+i/16]·q[place(32j+i)].
type superblock struct {
	q           [quant.QKK]int8 // offset removed, codes looked up, in the order of activations
	half, least [16]int32       // scales and minima of half-blocks; 1 in types without
	scale, min  [8]float32
	part        [16]float32 // scales of SmallFloats, the factor included
}

// place returns where activations and superblock.q have element i of a superblock.
func place(i int) int { return i%32/4*32 + i/32*4 + i%4 }

// read unpacks superblock s of a row.
func (w *superblock) read(t quant.Type, row []byte, s int) {
	at, traits := layout.Of(t), t.Traits()
	b := row[s*at.Bytes:][:at.Bytes]
	w.scales(t, b)
	for v := range 8 {
		q := (*[32]int8)(w.q[32*v:])
		switch {
		case traits.Bits == 8:
			for i, x := range b[at.Quants+32*v:][:32] {
				q[i] = int8(x)
			}
			continue
		case traits.Bits < 4:
			bits(q, b[at.Quants+32*(v%2):], v/2*2, 3, 0)
		default:
			bits(q, b[at.Quants+32*(v%4):], v/4*4, 15, 0)
		}
		switch traits.Bits {
		case 3:
			bits(q, b[at.High:], v, 1, 2)
		case 5:
			bits(q, b[at.High:], v, 1, 4)
		case 6:
			bits(q, b[at.High+32*(v%2):], v/2*2, 3, 4)
		}
		if traits.Codebook != nil {
			for i, x := range q {
				q[i] = traits.Codebook[uint8(x)]
			}
			continue
		}
		for i := range q {
			q[i] -= int8(traits.Offset)
		}
	}
}

// bits adds bits of from to q: (byte>>shift)&mask, shifted left to bit to. If to is 0 it sets q instead.
func bits(q *[32]int8, from []byte, shift int, mask byte, to int) {
	if to == 0 {
		for i, x := range from[:32] {
			q[i] = int8(x >> (shift & 7) & mask)
		}
		return
	}
	for i, x := range from[:32] {
		q[i] |= int8(x >> (shift & 7) & mask << (to & 7))
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
		case quant.Exponents: // includes half of the smallest normal number
			w.scale[j] = math.Float32frombits(max(uint32(b[j])<<23, 1<<22))
		case quant.SuperScale:
			w.scale[j] = f16(b[at.Unit:])
		case quant.SmallFloats:
			factor := math.Float32frombits(get(b[at.Unit:]))
			w.part[2*j] = quant.F32FromF16(uint16(b[j])<<layout.ScaleShift) * factor
			w.part[2*j+1] = quant.F32FromF16(uint16(b[8+j])<<layout.ScaleShift) * factor
		default:
			w.scale[j] = f16(b[2*j:])
		}
		w.scale[j] *= 1 / float32(uint(1)<<traits.Halvings)
	}
}
