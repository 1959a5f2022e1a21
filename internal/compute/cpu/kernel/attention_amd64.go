package kernel

import "github.com/powerinfer-go/powerinfer/internal/compute"

func (a attention) scores(s, q []float32, k, ahead []uint16, tile, keys, headDim int) {
	if a == scalarAttention {
		scores(s, q, k, tile, keys, headDim)
		return
	}
	_, _, _ = s[tile*compute.PagePositions-1], q[tile*headDim-1], k[(keys+7)&^7*headDim-1]
	switch tile {
	case 1:
		scores1AVX2(first(s), first(q), first(k), first(ahead), keys, headDim)
	case 2:
		scores2AVX2(first(s), first(q), first(k), first(ahead), keys, headDim)
	case 3:
		scores3AVX2(first(s), first(q), first(k), first(ahead), keys, headDim)
	case 4:
		scores4AVX2(first(s), first(q), first(k), first(ahead), keys, headDim)
	case 6:
		scores6AVX2(first(s), first(q), first(k), first(ahead), keys, headDim)
	default:
		panic("kernel: no tile of this many queries")
	}
}

func (a attention) softmax(s []float32, n int, old float32) (m, sum float32) {
	if a == scalarAttention {
		return softmax(s, n, old)
	}
	_ = s[compute.PagePositions-1]
	return softmaxAVX2(first(s), n, old)
}

func (a attention) accumulate(acc, p []float32, v, ahead []uint16, tile, keys, headDim int) {
	if a == scalarAttention {
		accumulate(acc, p, v, tile, keys, headDim)
		return
	}
	_, _, _ = acc[tile*headDim-1], p[(tile-1)*compute.PagePositions+keys-1], v[keys*headDim-1]
	switch tile {
	case 1:
		accumulate1AVX2(first(acc), first(p), first(v), first(ahead), keys, headDim)
	case 2:
		accumulate2AVX2(first(acc), first(p), first(v), first(ahead), keys, headDim)
	case 3:
		accumulate3AVX2(first(acc), first(p), first(v), first(ahead), keys, headDim)
	case 4:
		accumulate4AVX2(first(acc), first(p), first(v), first(ahead), keys, headDim)
	case 6:
		accumulate6AVX2(first(acc), first(p), first(v), first(ahead), keys, headDim)
	default:
		panic("kernel: no tile of this many queries")
	}
}
