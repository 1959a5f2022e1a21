package quant

import (
	"encoding/binary"
	"fmt"
	"math"
)

// NVFP4: a scale for each 16 of a block's 64 elements, an eight-bit float without a sign (UE4M3), then 32 bytes of
// codes: four-bit floats (E2M1) as in MXFP4. Of each 16 elements, eight bytes have element i in the low nibble of byte
// i and element i+8 in its high one.
//
// A matrix may have a float32 factor in another tensor. Devices compute with NVFP4Scaled: its blocks end with that
// factor.
//
// Source: ggml's block_nvfp4.

// nvfp4Scales is the number of a block's scales, each of nvfp4Shared elements.
const (
	nvfp4Scales = 4
	nvfp4Shared = 16
	nvfp4Block  = nvfp4Scales * nvfp4Shared
)

// f32FromUE4M3 returns half of the E4M3 number in the lower seven bits. All ones are a NaN there; here such a scale is
// zero, as in Split.
func f32FromUE4M3(b uint8) float32 {
	const bias, mantissa = 7 + 1, 3
	exponent, m := int(b>>mantissa), int(b&7)
	if exponent == 0 {
		return float32(math.Ldexp(float64(m), 1-bias-mantissa))
	}
	return float32(math.Ldexp(float64(8+m), exponent-bias-mantissa))
}

// ue4m3Of returns the E4M3 number nearest to x, halves upward; negative numbers give zero.
func ue4m3Of(x float32) uint8 {
	const greatest, bias = 448, 7
	switch {
	case !(x > 0):
		return 0
	case x > greatest:
		return 0x7e
	}
	bits := math.Float32bits(x)
	exponent := int(bits>>23) - 127 + bias
	if exponent <= 0 { // steps of 2^-9; the greatest rounds no further than seven of them, as in ggml
		return uint8(min(7, int(x*512+0.5)))
	}
	return uint8(min(0x7e, exponent<<3+int(bits>>20&7)+int(bits>>19&1)))
}

// scalesNVFP4 leaves in Scale seven bits that kernels can read as they are.
func scalesNVFP4(p *Parts, b []byte) {
	for g, v := range b[:nvfp4Scales] {
		if v == 0x7f {
			v = 0
		}
		p.Scale[g] = int8(v & 0x7f)
	}
	p.Factor = 1
}

func scalesNVFP4Scaled(p *Parts, b []byte) {
	scalesNVFP4(p, b)
	p.Factor = math.Float32frombits(binary.LittleEndian.Uint32(b[NVFP4.BlockBytes():]))
}

func codesNVFP4(p *Parts, b []byte) {
	for g := range nvfp4Scales {
		q, from := p.Q[nvfp4Shared*g:][:nvfp4Shared], b[nvfp4Scales+8*g:][:8]
		for i, v := range from {
			q[i], q[i+8] = v&15, v>>4
		}
	}
}

func joinNVFP4(b []byte, p *Parts) {
	for g := range nvfp4Scales {
		b[g] = uint8(p.Scale[g])
		q, to := p.Q[nvfp4Shared*g:][:nvfp4Shared], b[nvfp4Scales+8*g:][:8]
		for i := range to {
			to[i] = q[i]&15 | q[i+8]<<4
		}
	}
}

func joinNVFP4Scaled(b []byte, p *Parts) {
	joinNVFP4(b, p)
	binary.LittleEndian.PutUint32(b[NVFP4.BlockBytes():], math.Float32bits(p.Factor))
}

// encodeNVFP4: a scale takes the largest of its magnitudes to the largest float of four bits, which is 6.
func encodeNVFP4(b []byte, x []float32) {
	var p Parts
	for g := range nvfp4Scales {
		own := x[nvfp4Shared*g:][:nvfp4Shared]
		scale := ue4m3Of(abs(absMax(own)) / 6)
		p.Scale[g] = int8(scale)
		encodeFloats4(p.Q[nvfp4Shared*g:], own, inverse(f32FromUE4M3(scale)))
	}
	joinNVFP4(b, &p)
}

// Scaled writes blocks of NVFP4 as NVFP4Scaled with a factor to dst, which must have room for them, and returns it.
func Scaled(dst, blocks []byte, factor float32) {
	in, out := NVFP4.BlockBytes(), NVFP4Scaled.BlockBytes()
	if len(blocks)%in != 0 || len(dst) != len(blocks)/in*out {
		panic(fmt.Sprintf("quant: %d bytes of %s into %d", len(blocks), NVFP4, len(dst)))
	}
	for ; len(blocks) > 0; blocks, dst = blocks[in:], dst[out:] {
		copy(dst, blocks[:in])
		binary.LittleEndian.PutUint32(dst[in:], math.Float32bits(factor))
	}
}
