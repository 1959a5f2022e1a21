// Package filelayout says where files have the parts of a superblock of 256 elements, for the generators of kernels
// that read them as they are. Package quant has the layouts themselves.
package filelayout

import "github.com/powerinfer-go/powerinfer/internal/quant"

// Offsets in bytes. In superblocks of several blocks each begins with its scale and ends with its quants.
const (
	SixBits  = 16  // Q4_K and Q5_K: the first byte after the six-bit scales, which begins Q4_K's quants or Q5_K's fifth bits
	Q5K      = 48  // Q5_K's quants
	Q6KHigh  = 128 // Q6_K's high bits
	Q6K      = 192 // Q6_K's scales
	Q6KUnit  = 208
	XSHigh   = 2  // IQ4_XS's upper bits of scales
	XSLow    = 4  // and the lower ones
	XS       = 8  // and the codes
	Q2K      = 16 // Q2_K's quants, after its scales
	Q2KUnit  = 80
	Q3K      = 32  // Q3_K's lower bits, after the third ones
	Q3KLow   = 96  // Q3_K's scales
	Q3KUpper = 104 // the upper bits of Q3_K's scales
	Q3KUnit  = 108
	TQUnit   = 64 // TQ2_0's unit, after its quants
	Digits16 = 32 // TQ1_0's bytes of the second sixteen digits
	Digits4  = 48 // and of the last four
	TQ1Unit  = 52
)

// Nibbles returns the offset of the low nibbles of Q4_K and Q5_K.
func Nibbles(typ quant.Type) int {
	if typ == quant.Q5_K {
		return Q5K
	}
	return SixBits
}

// Grid says where a superblock of a type on a grid has its indices, signs and scales.
type Grid struct {
	Low      int // the place of the lower parts of indices, which are together for each 32 elements
	LowBytes int // from the lower parts of 32 elements to the next
	LowStep  int // bits from one index to the next
	LowBits  int
	// Upper is the place of the upper parts: UpperBlock bits for each 32 elements, UpperStep from one to the next, of
	// UpperBits; 0: there are none.
	Upper, UpperBlock, UpperStep, UpperBits int
	Scales                                  int
	Signs                                   int // the place of signs, for types with bytes or words of signs apart from the indices
}

// Grids returns the layouts of all types on grids.
func Grids() map[quant.Type]Grid {
	return map[quant.Type]Grid{
		quant.IQ2_XXS: {Low: 2, LowBytes: 8, LowStep: 8, LowBits: 8}, // a word of signs and scale follows each four indices
		quant.IQ2_XS:  {Low: 2, LowBytes: 8, LowStep: 16, LowBits: 9, Scales: 66},
		quant.IQ2_S:   {Low: 2, LowBytes: 4, LowStep: 8, LowBits: 8, Upper: 66, UpperBlock: 8, UpperStep: 2, UpperBits: 2, Scales: 74, Signs: 34},
		quant.IQ3_XXS: {Low: 2, LowBytes: 8, LowStep: 8, LowBits: 8, Signs: 66}, // its words of signs have the scales in their upper bits
		quant.IQ3_S:   {Low: 2, LowBytes: 8, LowStep: 8, LowBits: 8, Upper: 66, UpperBlock: 8, UpperStep: 1, UpperBits: 1, Scales: 106, Signs: 74},
		quant.IQ1_S:   {Low: 2, LowBytes: 4, LowStep: 8, LowBits: 8, Upper: 34, UpperBlock: 16, UpperStep: 3, UpperBits: 3, Scales: 34, Signs: 34},
		quant.IQ1_M:   {Low: 0, LowBytes: 4, LowStep: 8, LowBits: 8, Upper: 32, UpperBlock: 16, UpperStep: 4, UpperBits: 3, Scales: 48, Signs: 32},
	}
}
