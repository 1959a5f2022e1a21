package quant

// entry is all that the engine knows about an element type. Lists of types, in tests, help and errors, too, are made
// from the table; docs/add-type.md says what else a new entry needs.
type entry struct {
	name       string
	blockElems int // elements per block; 0: the type is only known by name
	blockBytes int // bytes per block
	traits     Traits
	fileType   uint32  // see Type.FileType; 0: none
	output     bool    // convert and quantize write it
	reach      float64 // see Type.Reach
	halves     []int   // of types without parts: places of binary16 numbers in a block
	// decode and encode read and write one block, or one element of float types, I32 and I64. A parted type is decoded from
	// its parts. encode is nil if there is no encoder yet.
	decode func(dst []float32, b []byte)
	encode func(b []byte, x []float32)
	// vectors encodes the first elements of x, as many blocks as the CPU's vectors take, to the bytes that encode would
	// write, and returns how many elements these are; nil: there are no such kernels for the type.
	vectors func(b []byte, x []float32) int
	// weighed writes 256 elements, or the rest of a row, with errors weighed by importance; power is the mean square of
	// the row. nil: the type has no choice.
	weighed func(b []byte, x, importance []float32, power float32)
	parted  bool // see Parts
}

// Traits says how elements follow from the stored bits: element i of a block of 32 is scale·(q − Offset), or
// scale·Codebook[q], less a minimum in types that have one. Kernels, their generator and the shaders are made from
// this.
type Traits struct {
	Bits     int    // bits of a quant: 2, 3, 4, 5, 6, or 8 with a sign; 0 in float types
	Offset   int    // the stored quant of element zero
	Codebook []int8 // the values of 8 codes of 3 bits, or of 16 of 4
	Scales   Scales
	Halvings int // how often the file's unit is halved to become one of Scales'
	// Columns says that columns can be neurons without being quantised again: 32 of them share each scale.
	Columns bool
}

// Scales is the form of a type's scales.
type Scales int

// The forms.
const (
	NoScales     Scales = iota
	BlockScale          // for each 32 elements, or for each block of more, a binary16 scale
	BlockMin            // for each 32 elements a binary16 scale and a binary16 minimum, which is added
	SixBits             // for each 32 elements six bits of scale and six of minimum, for each 256 a binary16 unit of both
	HalfBlocks          // for each 16 elements a signed byte of scale, for each 256 its binary16 unit
	ByteBlocks          // for each 32 elements a signed byte of scale, for each 256 its binary16 unit
	NibbleMinima        // for each 16 elements four bits of scale and four of minimum, for each 256 a binary16 unit of each
	Exponents           // for each 32 elements the exponent of a power of two; 127 stands for one
	SuperScale          // for each 256 elements a binary16 scale
	SmallFloats         // for each 16 elements an eight-bit float (UE4M3), for each 256 a float32 factor
)

// Minima reports whether elements have a minimum in addition to the product of scale and quant.
func (s Scales) Minima() bool { return s == BlockMin || s == SixBits || s == NibbleMinima }

func nvfp4Traits() Traits { return Traits{Bits: 4, Codebook: mxfp4Values(), Scales: SmallFloats} }

// table holds the types by number. Those without a size occur in files, so that an error can name them.
var table = [...]entry{
	F32: {
		name: "F32", blockElems: 1, blockBytes: 4, output: true,
		decode: decodeF32, encode: encodeF32,
	},
	F16: {
		name: "F16", blockElems: 1, blockBytes: 2, fileType: 1, output: true, reach: 1,
		decode: decodeF16, encode: encodeF16, vectors: encodeF16Vectors,
	},
	BF16: {
		name: "BF16", blockElems: 1, blockBytes: 2, fileType: 32, output: true,
		decode: decodeBF16, encode: encodeBF16,
	},
	I32: {
		name: "I32", blockElems: 1, blockBytes: 4,
		decode: decodeI32, encode: encodeI32,
	},
	I64: {
		name: "I64", blockElems: 1, blockBytes: 8,
		decode: decodeI64, encode: encodeI64,
	},
	Q4_0: {
		name: "Q4_0", blockElems: QK, blockBytes: 2 + QK/2, fileType: 2, output: true, reach: 8, halves: []int{0},
		traits: Traits{Bits: 4, Offset: 8, Scales: BlockScale, Columns: true},
		decode: decodeQ4_0, encode: encodeQ4_0, vectors: encodeQ4_0Vectors, weighed: weighedQ4_0,
	},
	Q4_1: {
		name: "Q4_1", blockElems: QK, blockBytes: 2 + 2 + QK/2, fileType: 3, output: true, reach: 1, halves: []int{0, 2},
		traits: Traits{Bits: 4, Scales: BlockMin},
		decode: decodeQ4_1, encode: encodeQ4_1, weighed: weighedQ4_1,
	},
	Q8_0: {
		name: "Q8_0", blockElems: QK, blockBytes: 2 + QK, fileType: 7, output: true, reach: 127, halves: []int{0},
		traits: Traits{Bits: 8, Scales: BlockScale, Columns: true},
		decode: decodeQ8_0, encode: encodeQ8_0, vectors: encodeQ8_0Vectors,
	},
	Q4_K: {
		name: "Q4_K", blockElems: QKK, blockBytes: 2 + 2 + 12 + QKK/2, fileType: 14, output: true, reach: 60, halves: []int{0, 2},
		traits: Traits{Bits: 4, Scales: SixBits},
		decode: decodeQ4_K, encode: encodeQ4_K, weighed: weighedQ4_K,
	},
	Q5_K: {
		name: "Q5_K", blockElems: QKK, blockBytes: 2 + 2 + 12 + QKK/8 + QKK/2, fileType: 16, output: true, reach: 60, halves: []int{0, 2},
		traits: Traits{Bits: 5, Scales: SixBits},
		decode: decodeQ5_K, encode: encodeQ5_K, weighed: weighedQ5_K,
	},
	Q6_K: {
		name: "Q6_K", blockElems: QKK, blockBytes: QKK/2 + QKK/4 + QKK/16 + 2, fileType: 18, output: true, reach: 2000, halves: []int{QKK/2 + QKK/4 + QKK/16},
		traits: Traits{Bits: 6, Offset: 32, Scales: HalfBlocks},
		decode: decodeQ6_K, encode: encodeQ6_K, weighed: weighedQ6_K,
	},

	Q5_0: {
		name: "Q5_0", blockElems: QK, blockBytes: 2 + 4 + QK/2, fileType: 8, output: true, reach: 16,
		traits: Traits{Bits: 5, Offset: 16, Scales: BlockScale}, parted: true,
		encode: encodeQ5_0, weighed: weighedQ5_0,
	},
	Q5_1: {
		name: "Q5_1", blockElems: QK, blockBytes: 2 + 2 + 4 + QK/2, fileType: 9, output: true, reach: 1,
		traits: Traits{Bits: 5, Scales: BlockMin}, parted: true,
		encode: encodeQ5_1, weighed: weighedQ5_1,
	},
	Q2_K: {
		name: "Q2_K", blockElems: QKK, blockBytes: QKK/16 + QKK/4 + 2 + 2, fileType: 10, output: true, reach: 15,
		traits: Traits{Bits: 2, Scales: NibbleMinima}, parted: true,
		encode: encodeQ2_K, weighed: weighedQ2_K,
	},
	Q3_K: {
		name: "Q3_K", blockElems: QKK, blockBytes: QKK/8 + QKK/4 + 12 + 2, fileType: 11, output: true, reach: 120,
		traits: Traits{Bits: 3, Offset: 4, Scales: HalfBlocks}, parted: true,
		encode: encodeQ3_K, weighed: weighedQ3_K,
	},
	IQ2_XXS: {
		name: "IQ2_XXS", blockElems: QKK, blockBytes: 2 + QKK/4, fileType: 19, output: true, reach: 40,
		traits: Traits{Bits: 3, Codebook: iq2Values(), Scales: ByteBlocks, Halvings: 3}, parted: true,
		encode: alone(weighFlat, formIQ2_XXS().put), weighed: byImportance(1, formIQ2_XXS().put),
	},
	IQ2_XS: {
		name: "IQ2_XS", blockElems: QKK, blockBytes: 2 + QKK/4 + QKK/32, fileType: 20, output: true, reach: 40,
		traits: Traits{Bits: 3, Codebook: iq2Values(), Scales: HalfBlocks, Halvings: 3}, parted: true,
		encode: alone(weighFlat, formIQ2_XS().put), weighed: byImportance(1, formIQ2_XS().put),
	},
	IQ3_XXS: {
		name: "IQ3_XXS", blockElems: QKK, blockBytes: 2 + QKK/4 + QKK/8, fileType: 23, output: true, reach: 100,
		traits: Traits{Bits: 4, Codebook: iq3xxsValues(), Scales: ByteBlocks, Halvings: 2}, parted: true,
		encode: alone(weighSquares, formIQ3_XXS().put), weighed: byImportance(2, formIQ3_XXS().put),
	},
	IQ1_S: {
		name: "IQ1_S", blockElems: QKK, blockBytes: 2 + QKK/8 + QKK/16, fileType: 24, output: true, reach: 8,
		traits: Traits{Bits: 3, Codebook: iq1Values(), Scales: ByteBlocks, Halvings: 3}, parted: true,
		encode: alone(weighSquares, putIQ1_S), weighed: byImportance(2, putIQ1_S),
	},
	IQ4_NL: {
		name: "IQ4_NL", blockElems: QK, blockBytes: 2 + QK/2, fileType: 25, output: true, reach: 50,
		traits: Traits{Bits: 4, Codebook: iq4Values(), Scales: BlockScale}, parted: true,
		encode: encodeIQ4_NL, weighed: weighedIQ4_NL,
	},
	IQ3_S: {
		name: "IQ3_S", blockElems: QKK, blockBytes: 2 + QKK/4 + QKK/32 + QKK/8 + QKK/64, fileType: 26, output: true, reach: 100,
		traits: Traits{Bits: 4, Codebook: iq3sValues(), Scales: ByteBlocks}, parted: true,
		encode: alone(weighSquares, formIQ3_S().put), weighed: byImportance(2, formIQ3_S().put),
	},
	IQ2_S: {
		name: "IQ2_S", blockElems: QKK, blockBytes: 2 + QKK/4 + QKK/32 + QKK/32, fileType: 28, output: true, reach: 40,
		traits: Traits{Bits: 3, Codebook: iq2Values(), Scales: HalfBlocks, Halvings: 3}, parted: true,
		encode: alone(weighFlat, formIQ2_S().put), weighed: byImportance(2, formIQ2_S().put),
	},
	IQ4_XS: {
		name: "IQ4_XS", blockElems: QKK, blockBytes: 2 + 2 + QKK/64 + QKK/2, fileType: 30, output: true, reach: 1000,
		traits: Traits{Bits: 4, Codebook: iq4Values(), Scales: ByteBlocks}, parted: true,
		encode: alone(weighSquares, putIQ4_XS), weighed: byImportance(2, putIQ4_XS),
	},
	IQ1_M: {
		name: "IQ1_M", blockElems: QKK, blockBytes: QKK/8 + QKK/16 + QKK/32, fileType: 31, output: true, reach: 8,
		traits: Traits{Bits: 3, Codebook: iq1Values(), Scales: HalfBlocks, Halvings: 3}, parted: true,
		encode: alone(weighSquares, putIQ1_M), weighed: byImportance(2, putIQ1_M),
	},
	TQ1_0: {
		name: "TQ1_0", blockElems: QKK, blockBytes: 48 + 4 + 2, fileType: 36, output: true, reach: 1,
		traits: Traits{Bits: 2, Offset: 1, Scales: SuperScale}, parted: true,
		encode: encodeTQ1_0,
	},
	TQ2_0: {
		name: "TQ2_0", blockElems: QKK, blockBytes: QKK/4 + 2, fileType: 37, output: true, reach: 1,
		traits: Traits{Bits: 2, Offset: 1, Scales: SuperScale}, parted: true,
		encode: encodeTQ2_0,
	},
	MXFP4: {
		name: "MXFP4", blockElems: QK, blockBytes: 1 + QK/2, fileType: 38, output: true,
		traits: Traits{Bits: 4, Codebook: mxfp4Values(), Scales: Exponents, Halvings: 1}, parted: true,
		encode: encodeMXFP4,
	},

	Q1_0: {
		name: "Q1_0", blockElems: q1Block, blockBytes: 2 + q1Block/8, fileType: 40, output: true, reach: 1,
		traits: Traits{Bits: 2, Offset: 1, Scales: BlockScale}, parted: true,
		encode: encodeQ1_0,
	},
	Q2_0: {
		name: "Q2_0", blockElems: q2Block, blockBytes: 2 + q2Block/4, fileType: 41, output: true, reach: 1,
		traits: Traits{Bits: 2, Offset: 1, Scales: BlockScale}, parted: true,
		encode: encodeQ2_0,
	},

	NVFP4: {
		name: "NVFP4", blockElems: nvfp4Block, blockBytes: nvfp4Scales + nvfp4Block/2, fileType: 39, output: true,
		traits: nvfp4Traits(), parted: true,
		encode: encodeNVFP4,
	},
	NVFP4Scaled: {
		name: "NVFP4_SCALED", blockElems: nvfp4Block, blockBytes: nvfp4Scales + nvfp4Block/2 + 4,
		traits: nvfp4Traits(), parted: true,
	},

	9: {name: "Q8_1"}, 15: {name: "Q8_K"}, 24: {name: "I8"}, 25: {name: "I16"}, 28: {name: "F64"},
}
