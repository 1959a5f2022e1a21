// Command matmul writes the tiles of matrix products: internal/compute/cpu/kernel/matmul_amd64.s and its stubs.
//
// A tile computes out[t][r] for R weight rows and T activation rows over all superblocks; a stream computes one
// token's products with many rows, one row after the other. Layouts are those of package kernel (pack.go, acts.go);
// the scalar twin of all is dotGeneric in matmul_generic.go.
package main

import (
	"flag"
	"slices"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
)

// Offsets into an activation superblock; kernel/acts.go holds the same.
const (
	actBytes = 448
	offScale = 256 // 8 × f32
	offNeg8  = 288 // 8 × i32 -8·Σ
	offDSum  = 320 // 8 × f32 scale·Σ
	offLo32  = 352 // 8 × i32 -32·Σ of the first halves
	offHi32  = 384 // 8 × i32 -32·Σ of the second halves
	offPairs = 416 // 8 × (i16 Σ of the first half, i16 Σ of the second)
)

// Offsets into a weight superblock; kernel/pack.go holds the same.
const (
	offQuants = 16  // behind the header
	offHigh   = 144 // Q6_K's high bits
	offSuper  = 208 // Q6_K's d
)

// Offsets into a superblock of a panel.
const (
	panelScale  = 0   // 8 × f32
	panelMin    = 32  // Q4_K: 8 × f32; Q6_K: the 16 scales of half-blocks as i16, of AVX2 those of first halves twice
	panelQuants = 64  // 8 × 32 bytes as activations, unsigned; of AVX2's Q8_0 8 × 32 low nibbles and 32 high ones
	panelHigh   = 320 // AVX2's Q6_K: the scales of second halves twice
)

// panelBytes is the size of a panel's superblock; kernel/kernels_amd64.go holds the same.
func panelBytes(isa, typ string) int {
	switch {
	case isa == "AVX2" && typ == "Q6_K":
		return 352
	case isa == "AVX2" && typ == "Q8_0":
		return 576
	}
	return 320
}

func superBytes(typ string) int {
	return map[string]int{"Q4_0": 144, "Q4_K": 144, "Q8_0": 272, "Q6_K": 210}[typ]
}

var constants = map[string]Mem{}

func constant(name string) Mem {
	if m, ok := constants[name]; ok {
		return m
	}
	panic("constant " + name)
}

func define(name string, b []byte) {
	constants[name] = GLOBL(name, RODATA|NOPTR)
	for i, v := range b {
		DATA(i, U8(v))
	}
}

func repeat(b ...byte) []byte {
	out := make([]byte, 0, 64)
	for len(out) < 64 {
		out = append(out, b...)
	}
	return out
}

// sixBitFields are what finds the eight 6-bit fields that start at byte base of a Q4_K header: for dword j the two
// bytes that hold field j, and the bits to shift it down by.
func sixBitFields(base int) (shuffle, shift []byte) {
	shuffle, shift = make([]byte, 32), make([]byte, 32)
	for j := range 8 {
		b := base + 6*j/8
		next := byte(b + 1)
		if b+1 > 15 {
			next = 0x80
		}
		copy(shuffle[4*j:], []byte{byte(b), next, 0x80, 0x80})
		shift[4*j] = byte(6 * j % 8)
	}
	return shuffle, shift
}

func defineConstants() {
	constants["f127"] = GLOBL("f127", RODATA|NOPTR)
	DATA(0, F32(127))
	define("mask0f", repeat(0x0f))
	define("mask30", repeat(0x30))
	define("x80", repeat(0x80))
	define("ones16", repeat(1, 0))
	define("mask63", repeat(63, 0, 0, 0))
	scale, shift := sixBitFields(4)
	min, _ := sixBitFields(10)
	define("sixBitShuffle", append(scale, min...))
	define("sixBitShift", append(shift, shift...))
	both := make([]byte, 64)
	for j := 8; j < 16; j++ {
		both[4*j] = 1
	}
	define("superPair", both)
	define("lowWords", repeat(0, 1, 0, 1, 4, 5, 4, 5, 8, 9, 8, 9, 12, 13, 12, 13))
	define("highWords", repeat(2, 3, 2, 3, 6, 7, 6, 7, 10, 11, 10, 11, 14, 15, 14, 15))
}

var quantised = []string{"Q4_0", "Q4_K", "Q8_0", "Q6_K"}

func main() {
	layout := flag.String("layout", "packed", "packed or file: which kernels are written")
	flag.Parse()
	if *layout == "file" {
		fileKernels()
		Generate()
		return
	}
	defineConstants()
	for _, isa := range []string{"AVX2", "VNNI"} {
		size := map[string][2]int{"AVX2": {2, 2}, "VNNI": {4, 4}}[isa]
		for _, typ := range quantised {
			r := size[0]
			if isa == "VNNI" && typ == "Q6_K" {
				r = 2
			}
			(&tile{isa: isa, typ: typ, r: r, t: size[1]}).emit()
			if isa != "VNNI" || typ != "Q4_0" { // kernel/kernels_amd64.go says why
				stream(isa, typ, near)
				if slices.Contains(farTypes, typ) {
					stream(isa, typ, far)
				}
			}
			if isa == "AVX2" || typ == "Q4_K" || typ == "Q6_K" {
				(&tile{isa: isa, typ: typ, r: 4, t: 1}).emit()
			}
			stream(isa, typ, scattered)
			if isa == "VNNI" {
				(&panel{tile{isa: isa, typ: typ, r: 4, t: 4}}).emit()
			} else {
				(&panel{tile{isa: isa, typ: typ, r: 2, t: 3}}).emit()
			}
			if isa == "AVX2" || typ == "Q8_0" || typ == "Q6_K" {
				expand(isa, typ)
			}
		}
	}
	floats := map[string][][2]int{"AVX2": {{1, 1}, {3, 1}, {2, 4}}, "VNNI": {{4, 4}}}
	for _, isa := range []string{"AVX2", "VNNI"} {
		for _, rt := range floats[isa] {
			for _, typ := range []string{"F32", "F16", "BF16"} {
				(&tile{isa: isa, typ: typ, r: rt[0], t: rt[1]}).float()
			}
		}
	}
	for _, typ := range []string{"F32", "F16", "BF16"} {
		scatterFloats(typ)
	}
	bfloats()
	quantize()
	Generate()
}
