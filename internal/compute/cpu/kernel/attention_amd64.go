package kernel

import (
	"unsafe"

	"github.com/powerinfer-go/powerinfer/internal/compute"
)

// attentionTiles holds the kernels of tiles by compute.KVType.
var attentionTiles = [...]tileKernels{
	compute.KVF16: {
		scores:     [...]func(s, q *float32, k, ahead *byte, keys, headDim int){1: scores1AVX2, 2: scores2AVX2, 3: scores3AVX2, 4: scores4AVX2, 6: scores6AVX2},
		accumulate: [...]func(acc, p *float32, v, ahead *byte, keys, headDim, width int){1: accumulate1AVX2, 2: accumulate2AVX2, 3: accumulate3AVX2, 4: accumulate4AVX2, 6: accumulate6AVX2},
		wideScores: scores6AVX512, wideAccumulate: accumulate6AVX512,
	},
	compute.KVBF16: {
		scores:     [...]func(s, q *float32, k, ahead *byte, keys, headDim int){1: scores1BF16AVX2, 2: scores2BF16AVX2, 3: scores3BF16AVX2, 4: scores4BF16AVX2, 6: scores6BF16AVX2},
		accumulate: [...]func(acc, p *float32, v, ahead *byte, keys, headDim, width int){1: accumulate1BF16AVX2, 2: accumulate2BF16AVX2, 3: accumulate3BF16AVX2, 4: accumulate4BF16AVX2, 6: accumulate6BF16AVX2},
		wideScores: scores6BF16AVX512, wideAccumulate: accumulate6BF16AVX512,
	},
	compute.KVF32: {
		scores:     [...]func(s, q *float32, k, ahead *byte, keys, headDim int){1: scores1F32AVX2, 2: scores2F32AVX2, 3: scores3F32AVX2, 4: scores4F32AVX2, 6: scores6F32AVX2},
		accumulate: [...]func(acc, p *float32, v, ahead *byte, keys, headDim, width int){1: accumulate1F32AVX2, 2: accumulate2F32AVX2, 3: accumulate3F32AVX2, 4: accumulate4F32AVX2, 6: accumulate6F32AVX2},
		wideScores: scores6F32AVX512, wideAccumulate: accumulate6F32AVX512,
	},
	compute.KVQ8_0: {
		scores:     [...]func(s, q *float32, k, ahead *byte, keys, headDim int){1: scores1Q8_0AVX2, 2: scores2Q8_0AVX2, 3: scores3Q8_0AVX2, 4: scores4Q8_0AVX2, 6: scores6Q8_0AVX2},
		accumulate: [...]func(acc, p *float32, v, ahead *byte, keys, headDim, width int){1: accumulate1Q8_0AVX2, 2: accumulate2Q8_0AVX2, 3: accumulate3Q8_0AVX2, 4: accumulate4Q8_0AVX2, 6: accumulate6Q8_0AVX2},
	},
	compute.KVQ4_0: {
		scores:     [...]func(s, q *float32, k, ahead *byte, keys, headDim int){1: scores1Q4_0AVX2, 2: scores2Q4_0AVX2, 3: scores3Q4_0AVX2, 4: scores4Q4_0AVX2, 6: scores6Q4_0AVX2},
		accumulate: [...]func(acc, p *float32, v, ahead *byte, keys, headDim, width int){1: accumulate1Q4_0AVX2, 2: accumulate2Q4_0AVX2, 3: accumulate3Q4_0AVX2, 4: accumulate4Q4_0AVX2, 6: accumulate6Q4_0AVX2},
	},
}

func softmaxTile(s *float32, n int, old float32) (m, sum float32) { return softmaxAVX2(s, n, old) }

func (attention) decodeQ8_0(dst *float32, src, ahead *byte, blocks int) {
	decodeQ8_0AVX2(dst, src, ahead, blocks)
}

func (attention) decodeQ4_0(dst *float32, src, ahead *byte, blocks int) {
	decodeQ4_0AVX2(dst, src, ahead, blocks)
}

// blockVectors are the kernels of attention in integers by VPDPWSSD.
func blockVectors() *blockKernels {
	return &blockKernels{
		round: func(dst *int16, x *float32, blocks int) float32 {
			from := (*byte)(unsafe.Pointer(x))
			factor, scale := queryFactor(sizeF32Shorts(from, uintptr(blocks)))
			shortsF32((*byte)(unsafe.Pointer(dst)), from, factor, uintptr(blocks))
			return scale
		},
		scales: blockScalesAVX512,
		keys: func(t compute.KVType, dst, src *byte, blocks int) {
			if t == compute.KVQ8_0 {
				keysQ8_0AVX512(dst, src, blocks)
			} else {
				keysQ4_0AVX512(dst, src, blocks)
			}
		},
		values: func(t compute.KVType, dst, src *byte, blocks, pairs int) {
			if t == compute.KVQ8_0 {
				valuesQ8_0AVX512(dst, src, blocks, pairs)
			} else {
				valuesQ4_0AVX512(dst, src, blocks, pairs)
			}
		},
		weigh: weighBlocksAVX512,
		score: [...]func(s *float32, q *int16, factors *float32, panel *byte, scales *float32, blocks, keys int, ahead *byte, step int){1: scoreBlocks1AVX512, 2: scoreBlocks2AVX512, 4: scoreBlocks4AVX512, 8: scoreBlocks8AVX512},
		add:   [...]func(acc *float32, w *int16, factors *float32, panel *byte, blocks, pairs int, ahead *byte, step int){1: addBlocks1AVX512, 2: addBlocks2AVX512, 4: addBlocks4AVX512, 8: addBlocks8AVX512},
	}
}
