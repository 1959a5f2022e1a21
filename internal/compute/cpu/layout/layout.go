// Package layout holds the memory layouts of the processor's kernels: packed weights, quantised activations, panels.
// The kernels in Go and the programs that write kernels in assembly (module gen) take their offsets from here.
package layout

import (
	"slices"

	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// Super holds the offsets in bytes of the parts of a packed superblock of 256 elements. Its header holds the scales:
//
//	BlockScale     8 binary16 scales
//	BlockMin       8 binary16 scales, 8 binary16 minima
//	SixBits        d, dmin, 8×6 bits of scales, 8×6 bits of minima
//	HalfBlocks     16 scales, two for each block; the unit is at Unit
//	ByteBlocks     8 scales; the unit is at Unit
//	NibbleMinima   16 bytes, two for each block: a scale in the low nibble, a minimum in the high one; d and dmin at Unit
//	Exponents      8 exponents
//	SuperScale     nothing; the scale is at Unit
//	SmallFloats    8 scales of blocks' first halves, 8 of second ones; read as binary16 after seven zero bits they are 2^-7 of their value
//	               (ScaleShift); at Unit 2^7 times the factor as float32
//
// Eight blocks of 32 elements are interleaved: SIMD lane j belongs to block j.
//
//	8 bits         8×32 bytes, as activations
//	4 bits, more   4×32 bytes: vector v's dword j holds elements 4v… of block j in its low nibbles and 4(v+4)… in its high ones;
//	               then the bits above the fourth, at High
//	2 bits, 3      2×32 bytes of the lower two bits, then the third, at High
//
// One bit above the others takes 32 bytes: bit v of dword j's bytes belongs to elements 4v… of block j. Two bits take
// 2×32 bytes: bit pair f of the bytes of vector h's dword j belongs to elements 4(2f+h)… of block j.
type Super struct {
	Quants int
	High   int // where the bits above begin
	Unit   int // the binary16 units of forms that have some, or the factor
	Bytes  int
}

// Of returns the layout of a quantised type.
func Of(t quant.Type) Super {
	traits := t.Traits()
	s := Super{Quants: header(traits.Scales)}
	low := min(traits.Bits, 4) // bits of a quant at Quants
	if traits.Bits < 4 {
		low = 2
	}
	s.High = s.Quants + 32*low
	s.Bytes = s.High + 32*(traits.Bits-low)
	switch traits.Scales {
	case quant.HalfBlocks, quant.ByteBlocks, quant.SuperScale:
		s.Unit = s.Bytes
		s.Bytes += 2
	case quant.NibbleMinima, quant.SmallFloats:
		s.Unit = s.Bytes
		s.Bytes += 4
	}
	return s
}

// header returns the size of a form's header.
func header(form quant.Scales) int {
	switch form {
	case quant.BlockMin:
		return Minima + 16
	case quant.ByteBlocks, quant.Exponents:
		return 8
	case quant.SuperScale:
		return 0
	}
	return 16
}

// Packed returns about how many bytes a file's matrix of type t takes in memory once it is packed. bytes is its size in
// the file.
func Packed(t quant.Type, bytes int64) int64 {
	if !t.Quantised() {
		return bytes
	}
	file := int64(t.RowBytes(quant.QKK))
	return (bytes + file - 1) / file * int64(Of(t).Bytes)
}

// HugePage is the size of pages that large memory is asked for in. [bytes]
const HugePage = 2 << 20

// InHugePages returns about what n bytes take that are allocated together: whole huge pages where they fill one.
func InHugePages(n int64) int64 {
	if n < HugePage {
		return n
	}
	return (n + HugePage - 1) / HugePage * HugePage
}

// ScaleShift is what brings a scale of SmallFloats to its place in binary16, and the power of two that it then lacks:
// binary16's exponent has eight more below zero than E4M3's, and one is lost as the scales are halves.
const ScaleShift = 7

// Minima is the offset of the minima of BlockMin.
const Minima = 16

// MostPairs bounds the pairs of a token and an expert that experts on disk are computed for at a time, in a prompt. One
// expert alone may have more.
const MostPairs = 2048

// PairBytes returns the bytes for computing a pair of a token and an expert, without weights. width is the size of a
// row, ff the number of neurons. The bytes are the expert's input and the gates. If the expert leaves neurons out
// (exact), its output, ups, activations and lists come on top. Buffers grow by a quarter more than is needed.
func PairBytes(width, ff int, exact bool) int64 {
	elements := width + 2*ff
	if exact {
		elements = 2*width + 6*ff
	}
	return int64(elements) * 4 * 5 / 4
}

// ActBytes is the size of one superblock of quantised activations: 256 elements as int8 in lane order
// (vector v holds elements 4v…4v+3 of block j in its dword j), then per block j, in lane j:
// scale f32, -8·Σq i32, scale·Σq f32, -32·Σq i32 of the first and of the second half, and both halves' Σq as i16.
// The products' integer sums start at these negatives, which removes the offset of unsigned quants exactly.
const ActBytes = 448

// Offsets into a superblock of activations.
const (
	ActScale = 256 // 8 × f32
	ActNeg8  = 288 // 8 × i32 -8·Σ
	ActDSum  = 320 // 8 × f32 scale·Σ
	ActLo32  = 352 // 8 × i32 -32·Σ of the first halves
	ActHi32  = 384 // 8 × i32 -32·Σ of the second halves
	ActPairs = 416 // 8 × (i16 Σ of the first half, i16 Σ of the second)
)

// A panel's superblock has been unpacked to bytes and float scales. Two rows are stored together: each 32 bytes of one
// row are followed by the same bytes of the other, so the offsets below count twice.
const (
	PanelScale  = 0   // 8 × f32
	PanelMin    = 32  // types with minima: 8 × f32; SmallFloats: the scales of second halves (PanelScale has those of first halves); half-blocks: the 16 scales as i16, and for AVX2 those of first halves twice, unless quants are scaled
	PanelQuants = 64  // 8 × 32 bytes as activations, unsigned; of AVX2 in 8 bits 8 × 32 low nibbles and 32 high ones
	PanelHigh   = 320 // half-blocks of AVX2: the scales of second halves twice
	PanelLeast  = 352 // NibbleMinima: 16 minima as i16, then 8 × f32 of their unit
)

// Panel returns the size of a panel's superblock of t; avx2 says whether it is for AVX2.
func Panel(t quant.Type, avx2 bool) int {
	switch scales := t.Traits().Scales; {
	case scales == quant.NibbleMinima:
		return PanelLeast + 64
	case avx2 && scales == quant.HalfBlocks:
		return PanelHigh + 32
	case avx2 && Offset(t) == 128:
		return PanelQuants + 512
	}
	return PanelQuants + 256
}

// Form says which products a rare type's panels use. Few people run such a type, so it has no products of its own: an
// expander writes its rows as bytes with block scales, and the products of the form multiply those. Supporting another
// type with scales of the form takes one more expander.
type Form int

// The forms.
const (
	Own          Form = iota // the type has products of its own
	Blocks                   // for each 32 elements a scale
	BlockMinima              // for each 32 elements a scale and a minimum, as panels of Q5_K
	Halves                   // for each 16 elements a scale that is an integer of eight bits, for each 256 its unit
	HalfMinima               // the same, and a minimum for each 16 elements
	SmallScales              // for each 16 elements a float scale
	SignedBlocks             // for each 32 elements a scale, of values that need eight bits, as panels of Q8_0
	Forms        = iota
)

// FormOf returns the form of type t's panels.
func FormOf(t quant.Type) Form {
	switch t {
	case quant.Q4_0, quant.Q8_0, quant.Q4_K, quant.Q5_K, quant.Q6_K, quant.MXFP4:
		return Own
	}
	traits := t.Traits()
	switch traits.Scales {
	case quant.NoScales:
		return Own
	case quant.BlockMin:
		return BlockMinima
	case quant.HalfBlocks:
		return Halves
	case quant.NibbleMinima:
		return HalfMinima
	case quant.SmallFloats:
		return SmallScales
	}
	if traits.Codebook != nil && slices.Min(traits.Codebook) < -expandedOffset {
		return SignedBlocks
	}
	return Blocks
}

// expandedOffset is added to the quants of panels of Blocks and Halves, so that they are unsigned, for all types:
// products of 127·127·2 fit 16 bits.
const expandedOffset = 64

// Offset returns the offset of products' unsigned quants above their values. For quants that are signed or come from a
// codebook it is the least power of two that leaves none negative.
func Offset(t quant.Type) int {
	traits := t.Traits()
	form := FormOf(t)
	switch {
	case form == Blocks || form == Halves:
		return expandedOffset
	case traits.Bits == 8:
		return 128
	case traits.Codebook != nil:
		offset := 8
		for int(slices.Min(traits.Codebook)) < -offset {
			offset *= 2
		}
		return offset
	}
	return traits.Offset
}

// Rows of weights and tokens of a tile for a processor's matrix unit.
const (
	MatrixRows   = 16
	MatrixTokens = 16
)

// Forms of panels that tiles are made of: a block has a scale; a minimum, too; its halves have scales; minima, too; or
// scales that are floats.
const (
	FormScales     = 0
	FormMinima     = 1
	FormHalves     = 2
	FormHalfMinima = 3
	FormSmall      = 4
)

// A matrix unit multiplies tiles of pairs of BF16. Numbers that need more bits are sums of several BF16 numbers, their
// terms.
//
// In prompts (kernel/prompts.go) a tile of weights has MatrixRows lines, each with 32 elements of a row. A tile of
// activations has 16 lines of pairs of elements of MatrixTokens tokens. For each term, two tiles of rows are stored
// together, and one or two tiles of tokens.
//
// In attention (kernel/attention_terms.go), and for vectors (kernel/pairs.go), line i of a tile of weights holds
// elements 2i and 2i+1 of each row. Each group has two tiles of rows for each term.
const (
	TileTerms   = 2       // terms of F16 weights in prompts, and of their activations
	ActTerms    = 3       // as many as hold a float32
	WeightTerms = 2       // terms of keys and values
	PairTile    = 16 * 64 // bytes
	ShortPart   = 512     // columns that share a scale, where pairs are of integers of 16 bits
)

// Bits of the parameter part of tiles of several tokens, which may be called for one part of the columns after the
// other.
const (
	FirstPart = 1
	LastPart  = 2
	Fetched   = 4 // an earlier tile read the same weights, so that nobody needs to ask for the next
	// From bit PartShift on panels that serve several types have the power of two of the type's offset, or NoOffset.
	PartShift = 8
	NoOffset  = 63
)

// Panels of ARMv8 have rows one after the other, bytes with their sign, and for each half of a superblock what its four
// lanes need side by side.
const (
	NeonScale  = 0   // 8 × f32
	NeonMin    = 32  // types with minima: 8 × f32; of NibbleMinima their unit with the sign turned
	NeonQuants = 64  // 8 × 32 bytes as activations
	NeonFirst  = 320 // half-blocks: 8 × i32 factors of first halves, of SmallFloats their scales
	NeonSecond = 352 // and of second ones
	NeonLeast  = 384 // NibbleMinima: 16 minima as i16
)

// NeonPanel returns the size of such a panel's superblock of t.
func NeonPanel(t quant.Type) int {
	switch t.Traits().Scales {
	case quant.HalfBlocks, quant.SmallFloats:
		return NeonLeast
	case quant.NibbleMinima:
		return NeonLeast + 32
	}
	return NeonFirst
}

// Panels for SMMLA have rows in pairs: 8 bytes of one row, then the same 8 bytes of the other. Activations of two
// tokens that were arranged for SMMLA are stored in the same way. Block j's part begins 16·j bytes after these offsets,
// its quants 64·j bytes. Each row's scales and factors are stored twice, where tokens take turns.
const (
	PairScale  = 0    // f32; of tokens theirs
	PairMin    = 128  // types with minima: f32, of NibbleMinima their unit with the sign turned; of tokens scale·Σ
	PairQuants = 256  // 4 × 8 bytes with their sign in the order of elements
	PairFirst  = 768  // half-blocks: i32 factors of first halves; of tokens their Σ
	PairSecond = 896  // the same of second halves
	PairLeast  = 1024 // NibbleMinima: i32 minima of first halves, then of second ones
	PairActs   = 1024 // the size of an arranged superblock of two tokens
)

// PairPanel returns the size of such a panel's superblock of t, for each of two rows.
func PairPanel(t quant.Type) int {
	switch t.Traits().Scales {
	case quant.HalfBlocks, quant.SmallFloats:
		return PairLeast / 2
	case quant.NibbleMinima:
		return (PairLeast + 256) / 2
	}
	return PairFirst / 2
}
