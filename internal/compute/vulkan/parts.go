package vulkan

import (
	"encoding/binary"
	"math"

	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// piece names the part of a type's blocks that a region holds.
type piece int

// The pieces: of every unit its quants' bits, of every block its scales.
const (
	lowNibbles piece = iota
	lowPairs
	thirdBits
	fifthBits
	scalesOf16 // HalfBlocks' bytes
	scalesOf32 // ByteBlocks'
	nibblePairs
	unitOnly
	bothUnits
	exponentByte
	floatBytes // SmallFloats'
)

// bytes returns what a piece takes of each unit or block.
func (p piece) bytes() int {
	return [...]int{lowNibbles: 16, lowPairs: 8, thirdBits: 4, fifthBits: 4, scalesOf16: 16, scalesOf32: 8, nibblePairs: 16, unitOnly: 2, bothUnits: 4, exponentByte: 1, floatBytes: 4}[p]
}

// partRegions returns the regions of a type with parts.
func partRegions(t quant.Type, units int) []region {
	pieces := map[quant.Scales][]piece{
		quant.BlockMin:     {bothUnits},
		quant.HalfBlocks:   {scalesOf16, unitOnly},
		quant.ByteBlocks:   {scalesOf32, unitOnly},
		quant.NibbleMinima: {nibblePairs, bothUnits},
		quant.Exponents:    {exponentByte},
		quant.SuperScale:   {unitOnly},
		quant.SmallFloats:  {floatBytes},
	}
	regions := codeRegions(t, units)
	if t.Traits().Scales == quant.BlockScale { // blocks may have several units
		return append(regions, region{1, 2 * units, func(dst, file []byte) { packUnits(t, dst, file) }})
	}
	blocks := units / (t.BlockElems() / quant.QK)
	for _, p := range pieces[t.Traits().Scales] {
		regions = append(regions, region{1, p.bytes() * blocks, func(dst, file []byte) { packScales(t, dst, file, p) }})
	}
	if t.Traits().Scales == quant.SmallFloats {
		regions = append(regions, region{1, 4, func(dst, file []byte) { packFactor(t, dst, file) }})
	}
	return regions
}

// codeRegions returns the regions of the quants: the lowest bits and, in types with an odd number of bits, the highest.
// Types with files that keep the bits together are not split.
func codeRegions(t quant.Type, units int) []region {
	size, perBlock := t.BlockBytes(), t.BlockElems()/quant.QK
	nibbles := func(from int) region {
		return region{1, 16 * units, func(dst, file []byte) { packNibbles(dst, file, size, from, perBlock) }}
	}
	pairs := func(from int) region {
		return region{1, 8 * units, func(dst, file []byte) { packBitPairs(dst, file, size, from) }}
	}
	turned := func(bytes int, lanes func([]byte) uint64) region {
		return region{1, 8 * units, func(dst, file []byte) { packLanes(dst, file, size, perBlock, bytes, lanes) }}
	}
	split := func(p piece) region {
		return region{1, p.bytes() * units, func(dst, file []byte) { packCodes(t, dst, file, p) }}
	}
	switch t {
	case quant.Q5_0:
		return []region{nibbles(6), split(fifthBits)}
	case quant.Q5_1:
		return []region{nibbles(8), split(fifthBits)}
	case quant.IQ4_NL:
		return []region{nibbles(2)}
	case quant.IQ4_XS:
		return []region{nibbles(8)}
	case quant.MXFP4:
		return []region{nibbles(1)}
	case quant.NVFP4, quant.NVFP4Scaled:
		return []region{{1, 16 * units, func(dst, file []byte) { packSixteens(dst, file, size, 4) }}}
	case quant.Q2_K:
		return []region{pairs(16)}
	case quant.TQ2_0:
		return []region{pairs(0)}
	case quant.Q1_0:
		return []region{turned(4, quant.LanesOfBits)}
	case quant.Q2_0:
		return []region{turned(8, quant.LanesOfPairs)}
	case quant.Q3_K:
		return []region{pairs(32), {1, 4 * units, func(dst, file []byte) { packHighBits(dst, file, size, 0) }}}
	}
	switch t.Traits().Bits {
	case 2:
		return []region{split(lowPairs)}
	case 3:
		return []region{split(lowPairs), split(thirdBits)}
	}
	return []region{split(lowNibbles)}
}

// packFactor writes the factor of a row, which its first block has, times two to what scales lack as the shaders read
// them.
func packFactor(t quant.Type, dst, row []byte) {
	var p quant.Parts
	t.SplitScales(&p, row)
	binary.LittleEndian.PutUint32(dst, math.Float32bits(float32(math.Ldexp(float64(p.Factor), scaleShift))))
}

// scaleShift is SCALE_SHIFT of weights.glsl.
const scaleShift = 7

// packSixteens writes every unit's nibbles in the order of Q4_0. A block takes that many bytes in the file and has two
// units from byte from on. Eight bytes have sixteen elements, the second eight of them in high nibbles.
func packSixteens(dst, file []byte, bytes, from int) {
	le := binary.LittleEndian
	for ; len(file) > 0; dst, file = dst[32:], file[bytes:] {
		for u := range 2 {
			in, out := file[from+16*u:][:16], dst[16*u:][:16]
			a, b := le.Uint64(in), le.Uint64(in[8:])
			le.PutUint64(out, a&low4|b&low4<<4)
			le.PutUint64(out[8:], a>>4&low4|b&^low4)
		}
	}
}

// packNibbles copies the sixteen bytes that every unit has in the file. A block has that many bytes and units; the
// units begin at byte from.
func packNibbles(dst, file []byte, bytes, from, units int) {
	for ; len(file) > 0; dst, file = dst[16*units:], file[bytes:] {
		copy(dst[:16*units], file[from:])
	}
}

// packLanes writes every unit's two words of bit pairs, which lanes computes from the unit's bytes in the file. A block
// has size bytes: a scale and then bytes bytes for each unit.
func packLanes(dst, file []byte, size, units, bytes int, lanes func([]byte) uint64) {
	for ; len(file) > 0; file = file[size:] {
		for u := range units {
			binary.LittleEndian.PutUint64(dst, lanes(file[2+u*bytes:]))
			dst = dst[8:]
		}
	}
}

// packUnits writes the binary16 scale of every unit's block.
func packUnits(t quant.Type, dst, file []byte) {
	var p quant.Parts
	for ; len(file) > 0; file = file[t.BlockBytes():] {
		t.SplitScales(&p, file)
		for range t.BlockElems() / quant.QK {
			binary.LittleEndian.PutUint16(dst, p.Unit)
			dst = dst[2:]
		}
	}
}

// packCodes takes blocks apart and writes a piece of every unit.
func packCodes(t quant.Type, dst, file []byte, what piece) {
	var p quant.Parts
	size, units := what.bytes(), t.BlockElems()/quant.QK
	for ; len(file) > 0; file = file[t.BlockBytes():] {
		t.SplitCodes(&p, file)
		for u := range units {
			what.putCodes(dst[:size], p.Q[quant.QK*u:][:quant.QK])
			dst = dst[size:]
		}
	}
}

// putCodes writes a piece of the codes of a unit.
func (p piece) putCodes(dst []byte, q []uint8) {
	le := binary.LittleEndian
	switch p {
	case lowNibbles:
		for i := 0; i < 16; i += 8 {
			le.PutUint64(dst[i:], le.Uint64(q[i:])&low4|le.Uint64(q[i+16:])&low4<<4)
		}
	case lowPairs:
		for h := range 2 {
			bits := uint32(0)
			for f := range 4 {
				bits |= le.Uint32(q[4*(2*f+h):]) & low2 << (2 * f)
			}
			le.PutUint32(dst[4*h:], bits)
		}
	case thirdBits, fifthBits:
		shift := 2
		if p == fifthBits {
			shift = 4
		}
		bits := uint32(0)
		for v := range 8 {
			bits |= le.Uint32(q[4*v:]) >> shift & low1 << v
		}
		le.PutUint32(dst, bits)
	}
}

// packScales writes a piece of every block's scales.
func packScales(t quant.Type, dst, file []byte, what piece) {
	var p quant.Parts
	size := what.bytes()
	for ; len(file) > 0; dst, file = dst[size:], file[t.BlockBytes():] {
		t.SplitScales(&p, file)
		what.putScales(dst[:size], &p)
	}
}

// putScales writes a piece of the scales of a block.
func (p piece) putScales(dst []byte, parts *quant.Parts) {
	switch p {
	case scalesOf16, scalesOf32, floatBytes:
		for i := range dst {
			dst[i] = uint8(parts.Scale[i])
		}
	case nibblePairs:
		for i := range dst {
			dst[i] = uint8(parts.Scale[i]) | parts.Min[i]<<4
		}
	case exponentByte:
		dst[0] = uint8(parts.Unit)
	default:
		binary.LittleEndian.PutUint16(dst, parts.Unit)
		if p == bothUnits {
			binary.LittleEndian.PutUint16(dst[2:], parts.MinUnit)
		}
	}
}
