// Command matmul writes the tiles of matrix products: internal/compute/cpu/kernel/matmul_amd64.s and its stubs.
//
// A tile computes out[t][r] for R weight rows and T activation rows over all superblocks; a stream computes one
// token's products with many rows, one row after the other. Layouts are those of package layout;
// the scalar twin of all is dotGeneric in matmul_generic.go.
package main

import (
	"encoding/binary"
	"flag"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"

	"github.com/powerinfer-go/powerinfer/internal/compute/cpu/layout"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// short is a type's name in the names of kernels.
func short(typ quant.Type) string { return strings.ReplaceAll(typ.String(), "_", "") }

// constants are the bytes of all defined constants; written are the constants that a kernel uses.
var (
	constants = map[string][]byte{}
	written   = map[string]Mem{}
)

// constant returns the place of a constant.
func constant(name string) Mem {
	m, ok := written[name]
	if ok {
		return m
	}
	b, ok := constants[name]
	if !ok {
		panic("constant " + name)
	}
	m = GLOBL(name, RODATA|NOPTR)
	for i := 0; i < len(b); i += 8 {
		DATA(i, U64(binary.LittleEndian.Uint64(b[i:])))
	}
	written[name] = m
	return m
}

func define(name string, b []byte) { constants[name] = b }

func repeat(b ...byte) []byte {
	out := make([]byte, 0, 64)
	for len(out) < 64 {
		out = append(out, b...)
	}
	return out
}

// sixBitFields are the constants that find the eight 6-bit fields that start at byte base of a Q4_K header: for dword j
// the two bytes with field j, and the bits to shift it down by.
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
	define("f127", binary.LittleEndian.AppendUint64(nil, uint64(math.Float32bits(127))))
	defineCodebooks()
	define("mask03", repeat(0x03))
	define("mask04", repeat(0x04))
	define("low4Words", repeat(0x0f, 0))
	define("lowerWords", repeat(0xff, 0xff, 0, 0))
	define("leastExponent", repeat(0, 0, 0x40, 0)) // half the smallest normal number
	for n := 1; n <= 3; n++ {
		define(fmt.Sprintf("halved%d", n), repeat(binary.LittleEndian.AppendUint32(nil, math.Float32bits(float32(math.Ldexp(1, -n))))...))
	}
	define("mask0f", repeat(0x0f))
	define("mask10", repeat(0x10))
	define("mask30", repeat(0x30))
	turn := make([]byte, 64) // brings the fifth bits of groups 0 and 1 to bit 4, see fiveBitZ
	for i := range 16 {
		turn[4*i] = byte(4 - i/8)
	}
	define("turn5", turn)
	turn3 := make([]byte, 64) // the same to bit 2, see codedZ
	for i := range 16 {
		turn3[4*i] = byte(2 - i/8)
	}
	define("turn3", turn3)
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
	byToken := make([]byte, 64) // turns four rows of four tokens
	for i := range 16 {
		byToken[4*i] = byte(4*(i%4) + i/4)
	}
	define("byToken", byToken)
	define("signs", repeat(0, 0, 0, 0x80))
	define("lowWords", repeat(0, 1, 0, 1, 4, 5, 4, 5, 8, 9, 8, 9, 12, 13, 12, 13))
	define("highWords", repeat(2, 3, 2, 3, 6, 7, 6, 7, 10, 11, 10, 11, 14, 15, 14, 15))
}

// quantised lists the types with quants.
func quantised() []quant.Type {
	return slices.DeleteFunc(quant.Types(), func(t quant.Type) bool { return !t.Quantised() })
}

// first returns the first type with typ's traits.
func first(typ quant.Type) quant.Type {
	all := quantised()
	return all[slices.IndexFunc(all, func(t quant.Type) bool { return reflect.DeepEqual(t.Traits(), typ.Traits()) })]
}

// eachToken reports whether a type's few tokens are multiplied one after the other, by AVX2, from rows that were expanded:
// a panel of its form has such a kernel for rare types.
func eachToken(typ quant.Type) bool {
	return typ == quant.Q4_K || typ == quant.Q5_K
}

func main() {
	form := flag.String("layout", "packed", "packed or file: which kernels are written")
	flag.Parse()
	if *form == "file" {
		fileKernels()
		Generate()
		return
	}
	defineConstants()
	defineLifts()
	expandedProducts()
	for _, isa := range []string{"AVX2", "VNNI"} {
		for _, typ := range quantised() {
			if first(typ) != typ {
				continue // packed, it is the same
			}
			if layout.FormOf(typ) != layout.Own {
				if streamed(typ) {
					stream(isa, typ, far)
				}
				if isa == "VNNI" {
					expandPair(typ)
				} else {
					expand(isa, typ)
				}
				if isa == "VNNI" && layout.FormOf(typ) == layout.SignedBlocks {
					expand(isa, typ)
				}
				continue
			}
			(&tile{isa: isa, typ: typ, r: 4, t: 1}).emit()
			stream(isa, typ, near)
			stream(isa, typ, far)
			scatter(isa, typ)
			if isa == "VNNI" {
				if typ != quant.Q4_K { // Q4_K uses Q5_K's strips
					newWidePanel(tile{typ: typ, r: panelRows(typ), t: 4}).strip()
					newWidePanel(tile{typ: typ, r: panelRows(typ), t: 1}).strip()
				}
				expandStrip(typ)
				firstTiles(typ)
				fewTiles(typ)
			} else {
				if !eachToken(typ) {
					(&tile{isa: isa, typ: typ, r: 2, t: 2}).emit()
				}
				(&panel{tile{typ: typ, r: 2, t: 3}}).emit()
			}
			if isa == "AVX2" || layout.Panel(typ, true) != layout.Panel(typ, false) {
				expand(isa, typ)
			}
		}
	}
	vexPanels()
	floatPanels()
	amxPrompts()
	defineUnpacking()
	unpackPanels()
	floats := map[string][][2]int{"AVX2": {{1, 1}, {3, 1}, {2, 4}}, "VNNI": {{4, 2}, {4, 3}, {4, 4}}}
	for _, isa := range []string{"AVX2", "VNNI"} {
		for _, rt := range floats[isa] {
			for _, typ := range []quant.Type{quant.F32, quant.F16, quant.BF16} {
				(&tile{isa: isa, typ: typ, r: rt[0], t: rt[1]}).float()
			}
		}
	}
	for _, typ := range []quant.Type{quant.F32, quant.F16, quant.BF16} {
		(&tile{isa: "AVX2", typ: typ, r: 3, t: 1, near: true}).float()
		(&tile{isa: "AVX2", typ: typ, r: 3, t: 1, close: true}).float()
		scatterFloats(typ)
	}
	bfloats()
	amxFloats()
	pairVectors()
	quantize()
	fetchLines()
	Generate()
}
