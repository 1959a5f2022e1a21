// Package filelayout says where files have the parts of a superblock of 256 elements, for the generators of kernels that read them as they are. Package quant
// has the layouts themselves.
package filelayout

import "github.com/powerinfer-go/powerinfer/internal/quant"

// Offsets in bytes. In superblocks of several blocks each begins with its scale and ends with its quants.
const (
	SixBits  = 16  // Q4_K and Q5_K: what is behind the six-bit scales, Q4_K's quants or Q5_K's fifth bits
	Q5K      = 48  // Q5_K's quants
	Q6KHigh  = 128 // Q6_K's high bits
	Q6K      = 192 // Q6_K's scales
	Q6KUnit  = 208
	XSHigh   = 2  // IQ4_XS's upper bits of scales
	XSLow    = 4  // and the lower ones
	XS       = 8  // and the codes
	Q2K      = 16 // Q2_K's quants, behind its scales
	Q2KUnit  = 80
	Q3K      = 32  // Q3_K's lower bits, behind the third ones
	Q3KLow   = 96  // Q3_K's scales
	Q3KUpper = 104 // and the upper bits of these
	Q3KUnit  = 108
	TQUnit   = 64 // TQ2_0's unit, behind its quants
)

// Nibbles returns the offset of the low nibbles of Q4_K and Q5_K.
func Nibbles(typ quant.Type) int {
	if typ == quant.Q5_K {
		return Q5K
	}
	return SixBits
}
