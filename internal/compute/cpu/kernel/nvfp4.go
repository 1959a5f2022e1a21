package kernel

import (
	"encoding/binary"
	"math"

	"github.com/powerinfer-go/powerinfer/internal/compute/cpu/layout"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// packNVFP4 is packParts of NVFP4 in whole words.
func packNVFP4(out, file []byte) {
	packSmall(out, file, quant.NVFP4.BlockBytes(), func([]byte) float32 { return 1 })
}

// packNVFP4Scaled is packParts of NVFP4Scaled in whole words. Every block of a superblock has its factor.
func packNVFP4Scaled(out, file []byte) {
	packSmall(out, file, quant.NVFP4Scaled.BlockBytes(), func(block []byte) float32 {
		return math.Float32frombits(get(block[quant.NVFP4.BlockBytes():]))
	})
}

// packSmall packs blocks of size bytes. A block begins with four scales and 32 bytes of codes.
func packSmall(out, file []byte, size int, factor func(block []byte) float32) {
	at := layout.Of(quant.NVFP4)
	for ; len(file) > 0; out, file = out[at.Bytes:], file[min(len(file), 4*size):] {
		if len(file) < 4*size { // a row's last blocks
			clear(out[:at.Bytes])
		}
		put(out[at.Unit:], math.Float32bits(factor(file)*(1<<layout.ScaleShift)))
		for b := range min(4, len(file)/size) {
			in := file[b*size:][:size]
			for i := range smallBlocks {
				j := smallBlocks*b + i
				out[j], out[8+j] = smallScale(in[2*i]), smallScale(in[2*i+1])
				to, codes := out[at.Quants+4*j:][:3*32+4], in[4+16*i:][:16]
				first, second := binary.LittleEndian.Uint64(codes), binary.LittleEndian.Uint64(codes[8:])
				low, high := first&low4Long|second&low4Long<<4, first>>4&low4Long|second&^low4Long
				put(to, uint32(low))
				put(to[32:], uint32(low>>32))
				put(to[64:], uint32(high))
				put(to[96:], uint32(high>>32))
			}
		}
	}
}

const low4Long = low4 | low4<<32

// smallScale is a scale as quant.Parts have it: what is no number is zero.
func smallScale(b byte) byte {
	if b == 0x7f {
		return 0
	}
	return b & 0x7f
}
