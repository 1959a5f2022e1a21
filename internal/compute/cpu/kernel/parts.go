package kernel

import (
	"encoding/binary"
	"math"

	"github.com/powerinfer-go/powerinfer/internal/compute/cpu/layout"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// Types with parts are packed by their forms, four codes at a time.

// smallBlocks is the number of 32 elements in a block of types with SmallFloats as scales.
const smallBlocks = 2

// low2 is the lowest two bits of every byte.
const low2 = 0x03030303

// packParts packs the blocks of a superblock. The last superblock of a row may have fewer blocks.
func packParts(t quant.Type, out, file []byte) {
	at, traits, size := layout.Of(t), t.Traits(), t.BlockBytes()
	blocks := t.BlockElems() / quant.QK
	var p quant.Parts
	for b := range len(file) / size {
		t.Split(&p, file[b*size:][:size])
		packScales(traits.Scales, at, out, &p, b, blocks)
		for i := range blocks {
			j := b*blocks + i
			packCodes(traits.Bits, out, at, j, p.Q[32*i:])
		}
	}
}

// packScales packs the scales of a superblock, or of its block b if blocks are smaller. blocks is the number of 32
// elements.
func packScales(form quant.Scales, at layout.Super, out []byte, p *quant.Parts, b, blocks int) {
	switch form {
	case quant.BlockScale:
		for i := range blocks {
			put16(out[2*(b*blocks+i):], p.Unit)
		}
	case quant.BlockMin:
		put16(out[2*b:], p.Unit)
		put16(out[layout.Minima+2*b:], p.MinUnit)
	case quant.Exponents:
		out[b] = uint8(p.Unit)
	case quant.SmallFloats:
		for i := range smallBlocks {
			j := smallBlocks*b + i
			out[j], out[8+j] = uint8(p.Scale[2*i]), uint8(p.Scale[2*i+1])
		}
		put(out[at.Unit:], math.Float32bits(p.Factor*(1<<layout.ScaleShift)))
		return
	case quant.NibbleMinima:
		for g, s := range p.Scale {
			out[g] = uint8(s) | p.Min[g]<<4
		}
		put16(out[at.Unit+2:], p.MinUnit)
	default:
		for g := range at.Quants {
			out[g] = uint8(p.Scale[g])
		}
	}
	if at.Unit > 0 {
		put16(out[at.Unit:], p.Unit)
	}
}

// packCodes packs the codes of block j.
func packCodes(bits int, out []byte, at layout.Super, j int, codes []uint8) {
	q := (*[quant.QK]uint8)(codes)
	low, high := at.Quants+4*j, at.High+4*j
	below := 4
	if bits < 4 {
		below = 2
		for h := range 2 {
			var pairs uint32
			for f := range 4 {
				pairs |= get(q[4*(2*f+h):]) & low2 << (2 * f)
			}
			put(out[low+32*h:], pairs)
		}
	} else {
		for v := range 4 {
			put(out[low+32*v:], get(q[4*v:])&low4|get(q[16+4*v:])&low4<<4)
		}
	}
	if bits == below {
		return
	}
	var above uint32
	for v := range 8 {
		above |= get(q[4*v:]) >> below & low1 << v
	}
	put(out[high:], above)
}

// restoreParts is the inverse of packParts.
func restoreParts(t quant.Type, file, packed []byte) {
	at, traits, size := layout.Of(t), t.Traits(), t.BlockBytes()
	blocks := t.BlockElems() / quant.QK
	var p quant.Parts
	for b := range len(file) / size {
		restoreScales(traits.Scales, at, &p, packed, b, blocks)
		for i := range blocks {
			j := b*blocks + i
			restoreCodes(traits.Bits, p.Q[32*i:], packed, at, j)
		}
		t.Join(file[b*size:][:size], &p)
	}
}

// restoreScales is the inverse of packScales.
func restoreScales(form quant.Scales, at layout.Super, p *quant.Parts, packed []byte, b, blocks int) {
	switch form {
	case quant.BlockScale:
		p.Unit = get16(packed[2*b*blocks:])
	case quant.BlockMin:
		p.Unit, p.MinUnit = get16(packed[2*b:]), get16(packed[layout.Minima+2*b:])
	case quant.Exponents:
		p.Unit = uint16(packed[b])
	case quant.SmallFloats:
		for i := range smallBlocks {
			j := smallBlocks*b + i
			p.Scale[2*i], p.Scale[2*i+1] = int8(packed[j]), int8(packed[8+j])
		}
		p.Factor = math.Float32frombits(get(packed[at.Unit:])) / (1 << layout.ScaleShift)
		return
	case quant.NibbleMinima:
		for g, v := range packed[:16] {
			p.Scale[g], p.Min[g] = int8(v&15), v>>4
		}
		p.MinUnit = get16(packed[at.Unit+2:])
	default:
		for g := range at.Quants {
			p.Scale[g] = int8(packed[g])
		}
	}
	if at.Unit > 0 {
		p.Unit = get16(packed[at.Unit:])
	}
}

// restoreCodes is the inverse of packCodes.
func restoreCodes(bits int, q []uint8, packed []byte, at layout.Super, j int) {
	low, high := at.Quants+4*j, at.High+4*j
	below := min(bits, 4)
	if bits < 4 {
		below = 2
	}
	for v := range 8 {
		var codes uint32
		if below == 2 {
			codes = get(packed[low+32*(v%2):]) >> (v / 2 * 2) & low2
		} else {
			codes = get(packed[low+32*(v%4):]) >> (v / 4 * 4) & low4
		}
		if bits > below {
			codes |= get(packed[high:]) >> v & low1 << below
		}
		put(q[4*v:], codes)
	}
}

func get16(b []byte) uint16    { return binary.LittleEndian.Uint16(b) }
func put16(b []byte, v uint16) { binary.LittleEndian.PutUint16(b, v) }
