// Package quant holds the tensor element types of GGUF files: their block
// layout and, as each type's definition, scalar encoders and decoders.
//
// Source: the GGUF specification (ggml/docs/gguf.md); type numbers are those of
// files in circulation.
package quant

import "fmt"

// Type is a tensor's element type, numbered as in GGUF files.
type Type uint32

// The types this engine computes with.
const (
	F32  Type = 0
	F16  Type = 1
	Q4_0 Type = 2
	Q8_0 Type = 8
	Q4_K Type = 12
	Q6_K Type = 14
	I32  Type = 26
	BF16 Type = 30
)

// QK is the number of elements that share one scale in Q4_0 and Q8_0; QKK is a K-quant's superblock.
const (
	QK  = 32
	QKK = 256
)

type layout struct {
	name       string
	blockElems int // elements per block
	blockBytes int // bytes per block
}

var layouts = map[Type]layout{
	F32:  {"F32", 1, 4},
	F16:  {"F16", 1, 2},
	BF16: {"BF16", 1, 2},
	I32:  {"I32", 1, 4},
	Q4_0: {"Q4_0", QK, 2 + QK/2},
	Q8_0: {"Q8_0", QK, 2 + QK},
	Q4_K: {"Q4_K", QKK, 2 + 2 + 12 + QKK/2},
	Q6_K: {"Q6_K", QKK, QKK/2 + QKK/4 + QKK/16 + 2},
}

// foreign names types that occur in GGUF files and are not computed with, so that an error can say which one it met.
var foreign = map[Type]string{
	3: "Q4_1", 6: "Q5_0", 7: "Q5_1", 9: "Q8_1", 10: "Q2_K", 11: "Q3_K", 13: "Q5_K", 15: "Q8_K",
	16: "IQ2_XXS", 17: "IQ2_XS", 18: "IQ3_XXS", 19: "IQ1_S", 20: "IQ4_NL", 21: "IQ3_S", 22: "IQ2_S", 23: "IQ4_XS",
	24: "I8", 25: "I16", 27: "I64", 28: "F64", 29: "IQ1_M", 34: "TQ1_0", 35: "TQ2_0", 39: "MXFP4",
}

// Known reports whether the engine can read t.
func (t Type) Known() bool { _, ok := layouts[t]; return ok }

// BlockElems is the number of elements in one block of t; 0 for an unknown type.
func (t Type) BlockElems() int { return layouts[t].blockElems }

// BlockBytes is the stored size of one block of t; 0 for an unknown type.
func (t Type) BlockBytes() int { return layouts[t].blockBytes }

// RowBytes is the stored size of a row of n elements, n a multiple of BlockElems.
func (t Type) RowBytes(n int) int {
	l := layouts[t]
	return n / l.blockElems * l.blockBytes
}

func (t Type) String() string {
	if l, ok := layouts[t]; ok {
		return l.name
	}
	if n, ok := foreign[t]; ok {
		return n
	}
	return fmt.Sprintf("type %d", uint32(t))
}

// Supported lists the names of all types the engine reads, for error messages.
func Supported() string { return "F32, F16, BF16, Q4_0, Q8_0, Q4_K, Q6_K" }
