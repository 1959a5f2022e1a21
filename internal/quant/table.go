package quant

// entry is all that the engine knows about an element type. Lists of types, in tests, help and errors, too, are made from the table;
// docs/add-type.md says what else a new entry needs.
type entry struct {
	name       string
	blockElems int // elements per block; 0: the type is only known by name
	blockBytes int // bytes per block
	traits     Traits
	fileType   uint32  // see Type.FileType; 0: none
	output     bool    // convert and quantize write it
	reach      float64 // see Type.Reach
	halves     []int   // see Type.Halves
	// decode and encode read and write one block; float types and I32 have theirs element by element.
	decode func(dst []float32, b []byte)
	encode func(b []byte, x []float32)
	// weighed writes 256 elements, or what a row ends with, where errors count by importance; power is the mean square of the row.
	// nil: the type has nothing to choose.
	weighed func(b []byte, x, importance []float32, power float32)
}

// Traits says how elements follow from the stored bits: element i of a block of 32 is scale·(q − Offset), less a minimum in
// types that have one. Kernels, their generator and the shaders are made from this.
type Traits struct {
	Bits   int // of a quant: 4, 5, 6, or 8 with a sign; 0 in float types
	Offset int // what the stored quant of element zero is
	Scales Scales
	// Columns says that columns can be neurons without being quantised again: 32 of them share each scale.
	Columns bool
}

// Scales is the form of a type's scales.
type Scales int

// The forms.
const (
	NoScales   Scales = iota
	BlockScale        // for each 32 elements a binary16 scale
	BlockMin          // for each 32 elements a binary16 scale and a binary16 minimum, which is added
	SixBits           // for each 32 elements six bits of scale and six of minimum, for each 256 a binary16 unit of both
	HalfBlocks        // for each 16 elements a signed byte of scale, for each 256 its binary16 unit
)

// Minima reports whether elements have a minimum beside the product of scale and quant.
func (s Scales) Minima() bool { return s == BlockMin || s == SixBits }

// table holds the types by number. Those without a size are met in files, and an error can say which one it was.
var table = [...]entry{
	F32: {
		name: "F32", blockElems: 1, blockBytes: 4, output: true,
		decode: decodeF32, encode: encodeF32,
	},
	F16: {
		name: "F16", blockElems: 1, blockBytes: 2, fileType: 1, output: true, reach: 1,
		decode: decodeF16, encode: encodeF16,
	},
	BF16: {
		name: "BF16", blockElems: 1, blockBytes: 2, fileType: 32, output: true,
		decode: decodeBF16, encode: encodeBF16,
	},
	I32: {
		name: "I32", blockElems: 1, blockBytes: 4,
		decode: decodeI32, encode: encodeI32,
	},
	Q4_0: {
		name: "Q4_0", blockElems: QK, blockBytes: 2 + QK/2, fileType: 2, output: true, reach: 8, halves: []int{0},
		traits: Traits{Bits: 4, Offset: 8, Scales: BlockScale, Columns: true},
		decode: decodeQ4_0, encode: encodeQ4_0, weighed: weighedQ4_0,
	},
	Q4_1: {
		name: "Q4_1", blockElems: QK, blockBytes: 2 + 2 + QK/2, fileType: 3, output: true, reach: 1, halves: []int{0, 2},
		traits: Traits{Bits: 4, Scales: BlockMin},
		decode: decodeQ4_1, encode: encodeQ4_1, weighed: weighedQ4_1,
	},
	Q8_0: {
		name: "Q8_0", blockElems: QK, blockBytes: 2 + QK, fileType: 7, output: true, reach: 127, halves: []int{0},
		traits: Traits{Bits: 8, Scales: BlockScale, Columns: true},
		decode: decodeQ8_0, encode: encodeQ8_0,
	},
	Q4_K: {
		name: "Q4_K", blockElems: QKK, blockBytes: 2 + 2 + 12 + QKK/2, fileType: 14, reach: 60, halves: []int{0, 2},
		traits: Traits{Bits: 4, Scales: SixBits},
		decode: decodeQ4_K, encode: encodeQ4_K, weighed: weighedQ4_K,
	},
	Q5_K: {
		name: "Q5_K", blockElems: QKK, blockBytes: 2 + 2 + 12 + QKK/8 + QKK/2, fileType: 16, output: true, reach: 60, halves: []int{0, 2},
		traits: Traits{Bits: 5, Scales: SixBits},
		decode: decodeQ5_K, encode: encodeQ5_K, weighed: weighedQ5_K,
	},
	Q6_K: {
		name: "Q6_K", blockElems: QKK, blockBytes: QKK/2 + QKK/4 + QKK/16 + 2, fileType: 18, reach: 2000, halves: []int{QKK/2 + QKK/4 + QKK/16},
		traits: Traits{Bits: 6, Offset: 32, Scales: HalfBlocks},
		decode: decodeQ6_K, encode: encodeQ6_K, weighed: weighedQ6_K,
	},

	6: {name: "Q5_0"}, 7: {name: "Q5_1"}, 9: {name: "Q8_1"}, 10: {name: "Q2_K"}, 11: {name: "Q3_K"},
	15: {name: "Q8_K"}, 16: {name: "IQ2_XXS"}, 17: {name: "IQ2_XS"}, 18: {name: "IQ3_XXS"}, 19: {name: "IQ1_S"},
	20: {name: "IQ4_NL"}, 21: {name: "IQ3_S"}, 22: {name: "IQ2_S"}, 23: {name: "IQ4_XS"}, 24: {name: "I8"}, 25: {name: "I16"},
	27: {name: "I64"}, 28: {name: "F64"}, 29: {name: "IQ1_M"}, 34: {name: "TQ1_0"}, 35: {name: "TQ2_0"}, 39: {name: "MXFP4"},
}
