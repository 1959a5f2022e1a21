package kernel

import (
	"github.com/powerinfer-go/powerinfer/internal/compute/cpu/layout"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// low1 is the lowest bit of every byte.
const low1 = 0x01010101

// packQ5_K packs a superblock: scales and nibbles as in Q4_K, and the fifth bits.
func packQ5_K(out, file []byte) {
	in := (*[176]byte)(file)
	packSixBits(out, in[:16])
	packPairs(out[header:], in[48:])
	high := out[layout.Of(quant.Q5_K).High:]
	for j := range 8 {
		var bits uint32
		for v := range 8 {
			bits |= get(in[16+4*v:]) >> j & low1 << v
		}
		put(high[4*j:], bits)
	}
}

// restoreQ5_K is the inverse of packQ5_K.
func restoreQ5_K(file, packed []byte) {
	restoreSixBits(file, packed)
	restorePairs(file[48:176], packed[header:])
	high := packed[layout.Of(quant.Q5_K).High:]
	for v := range 8 {
		var bits uint32
		for j := range 8 {
			bits |= get(high[4*j:]) >> v & low1 << j
		}
		put(file[16+4*v:], bits)
	}
}
