package quant

import "math"

// F32FromF16 widens an IEEE 754 binary16 number exactly. A NaN becomes a quiet one, as in CPUs' conversions.
func F32FromF16(h uint16) float32 {
	sign := uint32(h&0x8000) << 16
	exp, frac := uint32(h>>10&0x1f), uint32(h&0x3ff)
	switch {
	case exp == 0x1f && frac != 0:
		return math.Float32frombits(sign | 0x7fc00000 | frac<<13)
	case exp == 0x1f:
		return math.Float32frombits(sign | 0x7f800000)
	case exp != 0:
		return math.Float32frombits(sign | (exp+112)<<23 | frac<<13)
	}
	v := float32(frac) * 0x1p-24
	return math.Float32frombits(math.Float32bits(v) | sign)
}

// F16FromF32 rounds to binary16, ties to even. Numbers that are too large become infinity.
func F16FromF32(f float32) uint16 {
	b := math.Float32bits(f)
	sign := uint16(b >> 16 & 0x8000)
	b &= 0x7fffffff
	switch {
	case b > 0x7f800000:
		return sign | 0x7e00 | uint16(b>>13&0x1ff)
	case b >= 0x477ff000: // rounds to 65536 or more
		return sign | 0x7c00
	case b >= 0x38800000: // normal
		b += 0xfff + b>>13&1
		return sign | uint16(b>>13-112<<10)
	}
	// Adding 0.5 aligns the subnormal's bits at the bottom of the significand; the addition rounds.
	v := math.Float32frombits(b) + 0.5
	return sign | uint16(math.Float32bits(v)-0x3f000000)
}

// F32FromBF16 widens the upper half of a float32; exact.
func F32FromBF16(h uint16) float32 { return math.Float32frombits(uint32(h) << 16) }

// BF16FromF32 rounds to the upper half of a float32, ties to even.
func BF16FromF32(f float32) uint16 {
	b := math.Float32bits(f)
	if b&0x7fffffff > 0x7f800000 {
		return uint16(b>>16) | 0x40 // stay a NaN
	}
	return uint16((b + 0x7fff + b>>16&1) >> 16)
}
