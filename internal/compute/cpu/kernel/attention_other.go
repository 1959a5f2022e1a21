//go:build !amd64 && !arm64

package kernel

import (
	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

func (attention) scores(s, q []float32, k rows, tile, keys, headDim int) {
	scores(s, q, k, tile, keys, headDim)
}

func (attention) softmax(s []float32, n int, old float32) (m, sum float32) { return softmax(s, n, old) }

func (attention) accumulate(acc, p []float32, v rows, tile, keys, headDim int) {
	accumulate(acc, p, v, tile, keys, headDim)
}

func (attention) decode(t compute.KVType, dst []float32, src, _ []byte) {
	quant.Decode(t.Type(), dst, src)
}

func (attention) direct(t compute.KVType, _, _ int) bool { return !t.Type().Quantised() }
