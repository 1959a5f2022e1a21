package quant

import (
	"encoding/binary"
	"math"
)

// Parts are a block taken apart: the elements' codes, and the integers and numbers of its scales, in the order of
// elements. Types with parts share the few forms of Traits, so code that packs, computes and encodes need not know
// where a file has its bits.
type Parts struct {
	// Q holds a code for each element: the stored quant, or the place of its value in Traits.Codebook.
	Q [QKK]uint8
	// Scale holds the integer factors of the unit: for HalfBlocks and NibbleMinima of each 16 elements, for ByteBlocks
	// of each 32. For SmallFloats it holds the bits of a float for each 16.
	Scale [QKK / 16]int8
	// Min holds NibbleMinima's integer minima.
	Min [QKK / 16]uint8
	// Unit is the binary16 scale or unit, or the exponent of Exponents. MinUnit is the binary16 minimum of BlockMin, or
	// the unit of NibbleMinima's minima.
	Unit, MinUnit uint16
	// Factor multiplies scales of SmallFloats.
	Factor float32
}

// Parted reports whether blocks of t can be taken apart.
func (t Type) Parted() bool { return t.entry().parted }

// Split takes block b of t apart, a type that is Parted.
func (t Type) Split(p *Parts, b []byte) {
	t.SplitScales(p, b)
	t.SplitCodes(p, b)
}

// SplitScales is Split without the codes. Both are switches, because functions in a table would make p escape.
func (t Type) SplitScales(p *Parts, b []byte) {
	b = b[:t.BlockBytes()]
	switch t {
	case Q5_0, IQ4_NL, Q1_0, Q2_0:
		p.Unit = get16(b)
	case Q5_1:
		p.Unit, p.MinUnit = get16(b), get16(b[2:])
	case Q2_K:
		scalesQ2_K(p, b)
	case Q3_K:
		scalesQ3_K(p, b)
	case IQ2_XXS:
		scalesOfWords(p, b, 2+4, 8)
	case IQ2_XS:
		scalesOfHalves(p, b, 66)
	case IQ3_XXS:
		scalesOfWords(p, b, 66, 4)
	case IQ1_S:
		scalesIQ1_S(p, b)
	case IQ3_S:
		scalesIQ3_S(p, b)
	case IQ2_S:
		scalesOfHalves(p, b, 74)
	case IQ4_XS:
		scalesIQ4_XS(p, b)
	case IQ1_M:
		scalesIQ1_M(p, b)
	case TQ1_0:
		p.Unit = get16(b[52:])
	case TQ2_0:
		p.Unit = get16(b[64:])
	case MXFP4:
		p.Unit = uint16(b[0])
	case NVFP4:
		scalesNVFP4(p, b)
	case NVFP4Scaled:
		scalesNVFP4Scaled(p, b)
	default:
		panic("quant: blocks of " + t.String() + " have no parts")
	}
}

// SplitCodes is Split without the scales.
func (t Type) SplitCodes(p *Parts, b []byte) {
	b = b[:t.BlockBytes()]
	switch t {
	case Q5_0:
		splitFives(p, b[2:])
	case Q5_1:
		splitFives(p, b[4:])
	case Q2_K:
		splitPairs(&p.Q, b[16:])
	case Q3_K:
		codesQ3_K(p, b)
	case IQ2_XXS:
		codesIQ2_XXS(p, b)
	case IQ2_XS:
		codesIQ2_XS(p, b)
	case IQ3_XXS:
		codesIQ3_XXS(p, b)
	case IQ1_S:
		codesIQ1_S(p, b)
	case IQ4_NL:
		splitNibbles(p.Q[:], b[2:])
	case IQ3_S:
		codesIQ3_S(p, b)
	case IQ2_S:
		codesIQ2_S(p, b)
	case IQ4_XS:
		codesIQ4_XS(p, b)
	case IQ1_M:
		codesIQ1_M(p, b)
	case TQ1_0:
		codesTQ1_0(p, b)
	case TQ2_0:
		splitPairs(&p.Q, b)
	case MXFP4:
		splitNibbles(p.Q[:], b[1:])
	case Q1_0:
		codesQ1_0(p, b)
	case Q2_0:
		codesQ2_0(p, b)
	case NVFP4, NVFP4Scaled:
		codesNVFP4(p, b)
	default:
		panic("quant: blocks of " + t.String() + " have no parts")
	}
}

// Join is the inverse of Split. It writes all of block b. Codes and scales must be ones that the type can hold: groups
// of the IQ types must be entries of their grids, with an even number of minus signs among eight if the eighth is not
// stored.
func (t Type) Join(b []byte, p *Parts) {
	b = b[:t.BlockBytes()]
	clear(b)
	switch t {
	case Q5_0:
		joinQ5_0(b, p)
	case Q5_1:
		joinQ5_1(b, p)
	case Q2_K:
		joinQ2_K(b, p)
	case Q3_K:
		joinQ3_K(b, p)
	case IQ2_XXS:
		joinIQ2_XXS(b, p)
	case IQ2_XS:
		joinIQ2_XS(b, p)
	case IQ3_XXS:
		joinIQ3_XXS(b, p)
	case IQ1_S:
		joinIQ1_S(b, p)
	case IQ4_NL:
		joinIQ4_NL(b, p)
	case IQ3_S:
		joinIQ3_S(b, p)
	case IQ2_S:
		joinIQ2_S(b, p)
	case IQ4_XS:
		joinIQ4_XS(b, p)
	case IQ1_M:
		joinIQ1_M(b, p)
	case TQ1_0:
		joinTQ1_0(b, p)
	case TQ2_0:
		joinTQ2_0(b, p)
	case MXFP4:
		joinMXFP4(b, p)
	case Q1_0:
		joinQ1_0(b, p)
	case Q2_0:
		joinQ2_0(b, p)
	case NVFP4:
		joinNVFP4(b, p)
	case NVFP4Scaled:
		joinNVFP4Scaled(b, p)
	default:
		panic("quant: blocks of " + t.String() + " have no parts")
	}
}

// SetUnits makes block b, of any bytes, a valid one: its binary16 numbers, or its exponent, become unit's, and bits
// that an encoder would not write are set as an encoder would. It serves tests and synthetic models.
func (t Type) SetUnits(b []byte, unit func() float32) {
	e := t.entry()
	if !e.parted {
		for _, at := range e.halves {
			putHalf(b[at:], unit())
		}
		return
	}
	var p Parts
	t.Split(&p, b)
	switch e.traits.Scales {
	case Exponents:
		_, exponent := math.Frexp(float64(unit()))
		p.Unit = uint16(127 + exponent)
	case SmallFloats:
		p.Factor = 0.75
		for g := range e.blockElems / 16 {
			p.Scale[g] = int8(ue4m3Of(abs(unit())))
		}
	default:
		p.Unit, p.MinUnit = F16FromF32(unit()), F16FromF32(unit())
	}
	t.Join(b, &p)
}

// decode writes the elements of a block of type t.
func (p *Parts) decode(t Type, dst []float32) {
	traits := t.Traits()
	for g := range len(dst) / 16 {
		scale, least := p.scales(traits, g)
		for i, q := range p.Q[16*g:][:16] {
			v := float32(scale * float32(traits.value(q))) // converted: no platform may fuse, or values would differ
			if traits.Scales.Minima() {
				v += least
			}
			dst[16*g+i] = v
		}
	}
}

// scales returns the scale of elements 16g…, and the number added to their products.
func (p *Parts) scales(t Traits, g int) (scale, least float32) {
	unit := float32(math.Ldexp(float64(F32FromF16(p.Unit)), -t.Halvings))
	switch t.Scales {
	case HalfBlocks:
		return unit * float32(p.Scale[g]), 0
	case ByteBlocks:
		return unit * float32(p.Scale[g/2]), 0
	case NibbleMinima:
		return unit * float32(p.Scale[g]), -(F32FromF16(p.MinUnit) * float32(p.Min[g]))
	case BlockMin:
		return unit, F32FromF16(p.MinUnit)
	case SmallFloats:
		return p.Factor * f32FromUE4M3(uint8(p.Scale[g])), 0
	case Exponents:
		if p.Unit == 255 {
			return float32(math.NaN()), 0
		}
		return float32(math.Ldexp(1, int(p.Unit)-127-t.Halvings)), 0
	}
	return unit, 0
}

// value returns the number that code q stands for, in units of its scale.
func (t Traits) value(q uint8) int {
	if t.Codebook != nil {
		return int(t.Codebook[q])
	}
	return int(q) - t.Offset
}

func get16(b []byte) uint16    { return binary.LittleEndian.Uint16(b) }
func put16(b []byte, v uint16) { binary.LittleEndian.PutUint16(b, v) }

// splitNibbles: element i is the low nibble of byte i, element i+16 its high one.
func splitNibbles(q []uint8, b []byte) {
	for i, v := range b[:QK/2] {
		q[i], q[i+QK/2] = v&15, v>>4
	}
}

func joinNibbles(b []byte, q []uint8) {
	for i := range b[:QK/2] {
		b[i] = q[i]&15 | q[i+QK/2]<<4
	}
}

// splitPairs: element i of the j-th 32 of 128 elements is bit pair j of byte i of 32.
func splitPairs(q *[QKK]uint8, b []byte) {
	for e := range q {
		q[e] = b[e/128*32+e%32] >> (e / 32 % 4 * 2) & 3
	}
}

func joinPairs(b []byte, q *[QKK]uint8) {
	for e, v := range q {
		b[e/128*32+e%32] |= v & 3 << (e / 32 % 4 * 2)
	}
}
