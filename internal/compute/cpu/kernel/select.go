package kernel

import "github.com/powerinfer-go/powerinfer/internal/compute"

// Index computes the scores of positions by index queries. The positions are those of chunk number chunk of a sequence,
// or of its picks, before position end. A position's score is the sum of its key's products with q [queries, key], each
// times its weight [queries], or 1 if there are no weights. A rectified product below 0 counts as 0. Products are added
// in the order of the queries. scores [ChunkPositions]
func (v *Vector) Index(scores, q, weights []float32, kv *KV, chunk, end int, rectified bool) {
	const page = compute.PagePositions
	n := len(q) / kv.Shape.Key
	w := walk{v: v, kernels: v.attention, key: kv.Shape.Key, value: kv.Shape.Value, queries: n}
	if w.key%8 != 0 {
		w.kernels = scalarAttention
	}
	first := chunk * ChunkPositions
	end = min(end, first+ChunkPositions)
	for at := first; at < end; at += page {
		positions := min(end-at, page)
		w.load(kv, at/page, positions)
		sums := scores[at-first:][:positions]
		clear(sums)
		for i := 0; i < n; {
			tile := tileOf(n - i)
			products := kv.Scratch[:scoresLen]
			w.kernels.scores(products, q[i*w.key:], w.keys, tile, positions, w.key)
			for t := range tile {
				weight := float32(1)
				if weights != nil {
					weight = weights[i+t]
				}
				for j, p := range products[t*page:][:positions] {
					if rectified && p < 0 {
						p = 0
					}
					sums[j] += float32(weight * p)
				}
			}
			i += tile
		}
	}
}
