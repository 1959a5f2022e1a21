//go:build amd64 || arm64

package kernel

import (
	"unsafe"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// first returns the address of x[0], or nil or an address not to be read where x is empty.
func first[T any](x []T) *T { return unsafe.SliceData(x) }

// tileKernels are the kernels of tiles over a type's rows, by the number of queries.
type tileKernels struct {
	scores     [maxTile + 1]func(s, q *float32, k, ahead *byte, keys, headDim int)
	accumulate [maxTile + 1]func(acc, p *float32, v, ahead *byte, keys, headDim, width int)
	// Kernels of maxTile queries in 512-bit vectors, with the same bytes; nil: none.
	wideScores     func(s, q *float32, k, ahead *byte, keys, headDim int)
	wideAccumulate func(acc, p *float32, v, ahead *byte, keys, headDim, width int)
}

func (a attention) scores(s, q []float32, k rows, tile, keys, headDim int) {
	if a == scalarAttention {
		scores(s, q, k, tile, keys, headDim)
		return
	}
	up := (keys + 7) &^ 7
	_, _, _ = s[(tile-1)*compute.PagePositions+up-1], q[tile*headDim-1], k.data[up*k.t.RowBytes(headDim)-1]
	tiles := &attentionTiles[k.t]
	f := tiles.scores[tile]
	if a == wideAttention && tile == maxTile && tiles.wideScores != nil {
		f = tiles.wideScores
	}
	f(first(s), first(q), first(k.data), unsafe.SliceData(k.ahead), keys, headDim)
}

func (a attention) softmax(s []float32, n int, old float32) (m, sum float32) {
	if a == scalarAttention {
		return softmax(s, n, old)
	}
	_ = s[compute.PagePositions-1]
	return softmaxTile(first(s), n, old)
}

func (a attention) accumulate(acc, p []float32, v rows, tile, keys, headDim int) {
	if a == scalarAttention {
		accumulate(acc, p, v, tile, keys, headDim)
		return
	}
	_, _, _ = acc[tile*headDim-1], p[(tile-1)*compute.PagePositions+keys-1], v.data[(keys-1)*v.t.RowBytes(v.width)+v.t.RowBytes(headDim)-1]
	tiles := &attentionTiles[v.t]
	f := tiles.accumulate[tile]
	if a == wideAttention && tile == maxTile && tiles.wideAccumulate != nil {
		f = tiles.wideAccumulate
	}
	f(first(acc), first(p), first(v.data), unsafe.SliceData(v.ahead), keys, headDim, v.width)
}

// decode writes the elements of whole blocks of t to dst.
func (a attention) decode(t compute.KVType, dst []float32, src, ahead []byte) {
	_ = src[:t.RowBytes(len(dst))]
	switch {
	case len(dst) == 0:
	case a != scalarAttention && t == compute.KVQ8_0:
		a.decodeQ8_0(first(dst), first(src), unsafe.SliceData(ahead), len(dst)/quant.QK)
	case a != scalarAttention && t == compute.KVQ4_0:
		a.decodeQ4_0(first(dst), first(src), unsafe.SliceData(ahead), len(dst)/quant.QK)
	default:
		quant.Decode(t.Type(), dst, src)
	}
}

// direct reports whether kernels read rows of t as the cache stores them. Otherwise it is faster to decode a page
// first, as for many queries. value is the number of elements of a value; values within keys may end inside a block.
func (a attention) direct(t compute.KVType, value, queries int) bool {
	switch {
	case !t.Type().Quantised():
		return true
	case a == scalarAttention || value%quant.QK != 0:
		return false
	}
	return queries <= maxTile // in one tile an element is decoded once
}
