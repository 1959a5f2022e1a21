// Package quant has the tensor element types of GGUF files: one table of them with their block layout and traits, and
// scalar encoders and decoders as each type's definition.
//
// Source: the GGUF specification (ggml/docs/gguf.md); type numbers are those of files in circulation.
package quant

import (
	"fmt"
	"slices"
	"strings"
)

// Type is a tensor's element type, numbered as in GGUF files.
type Type uint32

// The types this engine computes with, and I32 and I64, which it only reads.
const (
	F32     Type = 0
	F16     Type = 1
	Q4_0    Type = 2
	Q4_1    Type = 3
	Q5_0    Type = 6
	Q5_1    Type = 7
	Q8_0    Type = 8
	Q2_K    Type = 10
	Q3_K    Type = 11
	Q4_K    Type = 12
	Q5_K    Type = 13
	Q6_K    Type = 14
	IQ2_XXS Type = 16
	IQ2_XS  Type = 17
	IQ3_XXS Type = 18
	IQ1_S   Type = 19
	IQ4_NL  Type = 20
	IQ3_S   Type = 21
	IQ2_S   Type = 22
	IQ4_XS  Type = 23
	I32     Type = 26
	I64     Type = 27
	IQ1_M   Type = 29
	BF16    Type = 30
	TQ1_0   Type = 34
	TQ2_0   Type = 35
	MXFP4   Type = 39
	NVFP4   Type = 40
	Q1_0    Type = 41
	Q2_0    Type = 42
)

// NVFP4Scaled is the in-memory type of NVFP4 matrices that have a scale tensor: each block holds the factor, the same
// in all blocks of a superblock. No file holds it; its number is far above files' numbers.
const NVFP4Scaled Type = 63

// Limit is above every known type's number: the length of arrays by type.
const Limit = len(table)

// QK is the number of elements that share one scale in Q4_0 and Q8_0; QKK is a K-quant's superblock.
const (
	QK  = 32
	QKK = 256
)

// entry returns t's entry of the table, or the zero entry.
func (t Type) entry() *entry {
	if int(t) < len(table) {
		return &table[t]
	}
	return &entry{}
}

// Known reports whether the engine can compute with t, or read it.
func (t Type) Known() bool { return t.entry().blockElems > 0 }

// BlockElems returns the number of elements in one block of t; 0 for an unknown type.
func (t Type) BlockElems() int { return t.entry().blockElems }

// BlockBytes returns the stored size of one block of t; 0 for an unknown type.
func (t Type) BlockBytes() int { return t.entry().blockBytes }

// RowBytes returns the stored size of a row of n elements, n a multiple of BlockElems.
func (t Type) RowBytes(n int) int {
	e := t.entry()
	return n / e.blockElems * e.blockBytes
}

// Traits returns how t's elements follow from the stored bits, or the zero Traits for a float type.
func (t Type) Traits() Traits { return t.entry().traits }

// Quantised reports whether t's elements are integers with scales.
func (t Type) Quantised() bool { return t.entry().traits.Bits > 0 }

// Float reports whether t's elements are floating-point numbers.
func (t Type) Float() bool { return t.Known() && !t.Quantised() && !t.Whole() }

// Whole reports whether t's elements are whole numbers: of tokens or experts, not of weights.
func (t Type) Whole() bool { return t == I32 || t == I64 }

// Reach returns the largest magnitude that t is sure to hold, in multiples of the largest binary16 number; 0 if
// binary16 is no bound.
func (t Type) Reach() float64 { return t.entry().reach }

// OnGrid reports whether groups of t's elements are entries of a grid. Encoding searches it and is slow.
func (t Type) OnGrid() bool {
	switch t {
	case IQ1_S, IQ1_M, IQ2_XXS, IQ2_XS, IQ2_S, IQ3_XXS, IQ3_S:
		return true
	}
	return false
}

// FileType is general.file_type of files with mostly matrices of type t, in llama.cpp's numbering. ok reports whether
// there is one.
func (t Type) FileType() (n uint32, ok bool) {
	e := t.entry()
	return e.fileType, e.fileType != 0 || t == F32
}

func (t Type) String() string {
	if name := t.entry().name; name != "" {
		return name
	}
	return fmt.Sprintf("type %d", uint32(t))
}

// Types lists the types that matrices may have: float types first, then by number.
func Types() []Type {
	var floats, quantised []Type
	for i := range table {
		switch t := Type(i); {
		case t.Float():
			floats = append(floats, t)
		case t.Quantised() && t.InFiles():
			quantised = append(quantised, t)
		}
	}
	return append(floats, quantised...)
}

// Like returns the first type of t's form: with the same bits and scales, and a codebook if t has one. Tests try fewer
// cases of the others.
func (t Type) Like() Type {
	form := func(t Type) Traits {
		traits := t.Traits()
		return Traits{Bits: traits.Bits, Scales: traits.Scales, Codebook: traits.Codebook[:min(1, len(traits.Codebook))]}
	}
	own := form(t)
	for i := range table {
		if f := form(Type(i)); t.Quantised() && f.Bits == own.Bits && f.Scales == own.Scales && len(f.Codebook) == len(own.Codebook) {
			return Type(i)
		}
	}
	return t
}

// OutTypes lists the types that convert and quantize write.
func OutTypes() []Type {
	return slices.DeleteFunc(Types(), func(t Type) bool { return !t.entry().output })
}

// BlockTypes lists the OutTypes for rows of any length that 32 divides: float types, and blocks of 32.
func BlockTypes() []Type {
	return slices.DeleteFunc(OutTypes(), func(t Type) bool { return t.BlockElems() > QK })
}

// Names lists types for error messages and help, separated by commas.
func Names(types []Type) string {
	names := make([]string, len(types))
	for i, t := range types {
		names[i] = t.String()
	}
	return strings.Join(names, ", ")
}

// Named returns the one of types with the given name, in upper or lower case.
func Named(name string, types []Type) (t Type, ok bool) {
	for _, t := range types {
		if strings.EqualFold(name, t.String()) {
			return t, true
		}
	}
	return 0, false
}

// InFiles reports whether tensors in files may be of type t.
func (t Type) InFiles() bool { return t.Known() && t != NVFP4Scaled }

// Computed lists Types and the types that only devices have.
func Computed() []Type { return append(Types(), NVFP4Scaled) }

// Supported lists the names of all types that matrices may have, for error messages.
func Supported() string { return Names(Types()) }
