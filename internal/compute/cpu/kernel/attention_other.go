//go:build !amd64

package kernel

func (attention) scores(s, q []float32, k, _ []uint16, tile, keys, headDim int) {
	scores(s, q, k, tile, keys, headDim)
}

func (attention) softmax(s []float32, n int, old float32) (m, sum float32) { return softmax(s, n, old) }

func (attention) accumulate(acc, p []float32, v, _ []uint16, tile, keys, headDim int) {
	accumulate(acc, p, v, tile, keys, headDim)
}
