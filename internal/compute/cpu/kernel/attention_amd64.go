package kernel

import "github.com/powerinfer-go/powerinfer/internal/compute"

func scoresAVX2(s, q []float32, k []uint16, tile, keys, headDim int) {
	_, _, _ = s[tile*compute.PagePositions-1], q[tile*headDim-1], k[(keys+7)&^7*headDim-1]
	switch tile {
	case 1:
		scores1AVX2(first(s), first(q), first(k), keys, headDim)
	case 2:
		scores2AVX2(first(s), first(q), first(k), keys, headDim)
	case 3:
		scores3AVX2(first(s), first(q), first(k), keys, headDim)
	case 4:
		scores4AVX2(first(s), first(q), first(k), keys, headDim)
	case 6:
		scores6AVX2(first(s), first(q), first(k), keys, headDim)
	default:
		panic("kernel: no tile of this many queries")
	}
}

func softmaxPage(s []float32, n int, old float32) (m, sum float32) {
	_ = s[compute.PagePositions-1]
	return softmaxAVX2(first(s), n, old)
}

func accumulateAVX2(acc, p []float32, v []uint16, tile, keys, headDim int) {
	_, _, _ = acc[tile*headDim-1], p[(tile-1)*compute.PagePositions+keys-1], v[keys*headDim-1]
	switch tile {
	case 1:
		accumulate1AVX2(first(acc), first(p), first(v), keys, headDim)
	case 2:
		accumulate2AVX2(first(acc), first(p), first(v), keys, headDim)
	case 3:
		accumulate3AVX2(first(acc), first(p), first(v), keys, headDim)
	case 4:
		accumulate4AVX2(first(acc), first(p), first(v), keys, headDim)
	case 6:
		accumulate6AVX2(first(acc), first(p), first(v), keys, headDim)
	default:
		panic("kernel: no tile of this many queries")
	}
}
