package kernel

import (
	"unsafe"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// tileKernels are the kernels of tiles over a type's rows, by the number of queries.
type tileKernels struct {
	scores     [maxTile + 1]func(s, q *float32, k, ahead *byte, keys, headDim int)
	accumulate [maxTile + 1]func(acc, p *float32, v, ahead *byte, keys, headDim, width int)
}

// tilesAVX2 holds them by compute.KVType.
var tilesAVX2 = [...]tileKernels{
	compute.KVF16: {
		scores:     [...]func(s, q *float32, k, ahead *byte, keys, headDim int){1: scores1AVX2, 2: scores2AVX2, 3: scores3AVX2, 4: scores4AVX2, 6: scores6AVX2},
		accumulate: [...]func(acc, p *float32, v, ahead *byte, keys, headDim, width int){1: accumulate1AVX2, 2: accumulate2AVX2, 3: accumulate3AVX2, 4: accumulate4AVX2, 6: accumulate6AVX2},
	},
	compute.KVBF16: {
		scores:     [...]func(s, q *float32, k, ahead *byte, keys, headDim int){1: scores1BF16AVX2, 2: scores2BF16AVX2, 3: scores3BF16AVX2, 4: scores4BF16AVX2, 6: scores6BF16AVX2},
		accumulate: [...]func(acc, p *float32, v, ahead *byte, keys, headDim, width int){1: accumulate1BF16AVX2, 2: accumulate2BF16AVX2, 3: accumulate3BF16AVX2, 4: accumulate4BF16AVX2, 6: accumulate6BF16AVX2},
	},
	compute.KVF32: {
		scores:     [...]func(s, q *float32, k, ahead *byte, keys, headDim int){1: scores1F32AVX2, 2: scores2F32AVX2, 3: scores3F32AVX2, 4: scores4F32AVX2, 6: scores6F32AVX2},
		accumulate: [...]func(acc, p *float32, v, ahead *byte, keys, headDim, width int){1: accumulate1F32AVX2, 2: accumulate2F32AVX2, 3: accumulate3F32AVX2, 4: accumulate4F32AVX2, 6: accumulate6F32AVX2},
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

func (a attention) scores(s, q []float32, k rows, ahead []byte, tile, keys, headDim int) {
	if a == scalarAttention {
		scores(s, q, k, tile, keys, headDim)
		return
	}
	_, _, _ = s[tile*compute.PagePositions-1], q[tile*headDim-1], k.data[(keys+7)&^7*k.t.RowBytes(headDim)-1]
	tilesAVX2[k.t].scores[tile](first(s), first(q), first(k.data), unsafe.SliceData(ahead), keys, headDim)
}

func (a attention) softmax(s []float32, n int, old float32) (m, sum float32) {
	if a == scalarAttention {
		return softmax(s, n, old)
	}
	_ = s[compute.PagePositions-1]
	return softmaxAVX2(first(s), n, old)
}

func (a attention) accumulate(acc, p []float32, v rows, ahead []byte, tile, keys, headDim int) {
	if a == scalarAttention {
		accumulate(acc, p, v, tile, keys, headDim)
		return
	}
	_, _, _ = acc[tile*headDim-1], p[(tile-1)*compute.PagePositions+keys-1], v.data[(keys-1)*v.t.RowBytes(v.width)+v.t.RowBytes(headDim)-1]
	tilesAVX2[v.t].accumulate[tile](first(acc), first(p), first(v.data), unsafe.SliceData(ahead), keys, headDim, v.width)
}

// decode writes the elements of whole blocks of t to dst.
func (a attention) decode(t compute.KVType, dst []float32, src []byte) {
	_ = src[:t.RowBytes(len(dst))]
	switch {
	case len(dst) == 0:
	case a == avx2Attention && t == compute.KVQ8_0:
		decodeQ8_0AVX2(first(dst), first(src), len(dst)/quant.QK)
	case a == avx2Attention && t == compute.KVQ4_0:
		decodeQ4_0AVX2(first(dst), first(src), len(dst)/quant.QK)
	default:
		quant.Decode(t.Type(), dst, src)
	}
}

// direct reports whether kernels read rows of t as they lie, or it pays to decode them first, as it does for many queries. Values of so many
// elements may lie within keys and end inside of a block.
func (a attention) direct(t compute.KVType, value, queries int) bool {
	return !t.Type().Quantised() || a == avx2Attention && value%quant.QK == 0 && queries <= directQueries
}

// directQueries is the most queries for which quantised rows are not decoded first.
const directQueries = 2 * maxTile
