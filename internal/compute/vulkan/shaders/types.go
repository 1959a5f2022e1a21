package shaders

import (
	"fmt"
	"slices"
	"strings"

	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// TypesFile is the name of the source that Types writes.
const TypesFile = "types.glsl"

// Types returns the source of what shaders know about element types: their numbers and traits, from quant's table. TYPE
// is the number of the type that a pipeline is made for, so that all that depends on it is constant there.
func Types() []byte {
	var b strings.Builder
	fmt.Fprintln(&b, "// Code generated from package quant by compile. DO NOT EDIT.")
	fmt.Fprintln(&b, "\nlayout(constant_id = 2) const uint TYPE = 0;")
	fmt.Fprintln(&b)
	for _, t := range quant.Computed() {
		fmt.Fprintf(&b, "const uint %s = %d;\n", t, uint32(t))
	}
	fmt.Fprintln(&b, "\n// Forms of scales: quant.Scales says what they are.")
	for s, name := range scaleNames() {
		fmt.Fprintf(&b, "const uint %s = %d;\n", name, s)
	}
	fmt.Fprintln(&b, "\n// Traits of TYPE: those of every type are one word, so that a module has one chain of choices.")
	fmt.Fprint(&b, "const uint TRAITS =")
	books := codebooks()
	for _, t := range quant.Computed() {
		if t.Quantised() {
			fmt.Fprintf(&b, " TYPE == %s ? %#xu :", t, packed(t.Traits(), books))
		}
	}
	fmt.Fprintln(&b, " 0;")
	at := 0
	for _, f := range fields() {
		fmt.Fprintf(&b, "const %s %s = %s(TRAITS >> %d & %d);\n", f.typ, f.name, f.typ, at, 1<<f.bits-1)
		at += f.bits
	}
	fmt.Fprintln(&b, "\n// Values of a codebook's codes, four to a word.")
	for w := range mostCodes / 4 {
		fmt.Fprintf(&b, "const uint VALUES_%d =", w)
		for i, book := range books {
			if v := codeWord(book, w); v != 0 {
				fmt.Fprintf(&b, " CODEBOOK == %d ? %#08xu :", i+1, v)
			}
		}
		fmt.Fprintln(&b, " 0;")
	}
	return []byte(b.String())
}

// field is a trait as shaders know it: some bits of a word.
type field struct {
	typ, name string
	bits      int
	of        func(t quant.Traits, books [][]int8) int
}

func fields() []field {
	return []field{
		{"uint", "BITS", 4, func(t quant.Traits, _ [][]int8) int { return t.Bits }},
		{"int", "OFFSET", 6, func(t quant.Traits, _ [][]int8) int { return t.Offset }},
		{"uint", "SCALES", 4, func(t quant.Traits, _ [][]int8) int { return int(t.Scales) }},
		{"uint", "HALVINGS", 2, func(t quant.Traits, _ [][]int8) int { return t.Halvings }},
		{"bool", "MINIMA", 1, func(t quant.Traits, _ [][]int8) int {
			if t.Scales.Minima() {
				return 1
			}
			return 0
		}},
		{"uint", "CODEBOOK", 4, func(t quant.Traits, books [][]int8) int {
			return 1 + slices.IndexFunc(books, func(b []int8) bool { return slices.Equal(b, t.Codebook) })
		}},
	}
}

// packed returns all fields of t, the first in the lowest bits.
func packed(t quant.Traits, books [][]int8) (word uint32) {
	at := 0
	for _, f := range fields() {
		v := f.of(t, books)
		if v < 0 || v >= 1<<f.bits {
			panic(fmt.Sprintf("shaders: %s is %d, which %d bits do not hold", f.name, v, f.bits))
		}
		word |= uint32(v) << at
		at += f.bits
	}
	return word
}

// codebooks returns every codebook once.
func codebooks() (books [][]int8) {
	for _, t := range quant.Computed() {
		book := t.Traits().Codebook
		if book != nil && !slices.ContainsFunc(books, func(b []int8) bool { return slices.Equal(b, book) }) {
			books = append(books, book)
		}
	}
	return books
}

// scaleNames returns the forms' names, in order.
func scaleNames() []string {
	return []string{"NO_SCALES", "BLOCK_SCALE", "BLOCK_MIN", "SIX_BITS", "HALF_BLOCKS", "BYTE_BLOCKS", "NIBBLE_MINIMA", "EXPONENTS", "SUPER_SCALE", "SMALL_FLOATS"}
}

// mostCodes is the length of the longest codebook.
const mostCodes = 16

// codeWord returns values 4w… of a codebook as the bytes of a word; after its end they are zero.
func codeWord(codebook []int8, w int) (word int) {
	for i := range 4 {
		if at := 4*w + i; at < len(codebook) {
			word |= int(uint8(codebook[at])) << (8 * i)
		}
	}
	return word
}
