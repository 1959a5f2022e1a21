package vulkan

import (
	"fmt"
	"math"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// Shapes of attention.comp, whose constants say the same.
const (
	splitPositions = 256  // positions that are attended to at a time, and invocations of a workgroup
	splitGroups    = 2048 // workgroups that share the splits of a step, about: enough for any GPU
	maxHeadDim     = 512
	combineLocal   = 64
)

// attentionQueries is how many rows of q a workgroup has at most: what fits in its shared memory.
func attentionQueries(headDim int) int {
	if headDim > 256 {
		return 4
	}
	return 8
}

// Attention attends with every query head to its sequence's positions up to the token's own. A few tokens have a workgroup for
// every split of the positions, and their parts are put together by combine.comp; many tokens go through all splits in
// one workgroup. Both give the same bytes.
func (r *recorder) Attention(out, q compute.Tensor, c *compute.Cache, layer int, scale float32) {
	same("Attention", out, q)
	n, heads := q.Rows, q.Cols/c.HeadDim
	if q.Cols%c.HeadDim != 0 || heads%c.KVHeads != 0 {
		panic(fmt.Sprintf("vulkan: Attention of %d columns to %d heads of %d", q.Cols, c.KVHeads, c.HeadDim))
	}
	if c.HeadDim > maxHeadDim {
		r.fail(fmt.Errorf("attention with heads of %d elements: the GPU takes at most %d", c.HeadDim, maxHeadDim))
	}
	if n == 0 || r.err != nil {
		return
	}
	r.check(needPlaces(n, c.Pages))

	// No sequence is longer than the cache.
	maxSplits := ceil(c.Pages*compute.PagePositions, splitPositions)
	size := 4 * int64(n) * int64(heads) * int64(maxSplits) * int64(c.HeadDim+2)
	whole := n > fewTokens || size > r.d.maxBinding
	splits := floats(out) // stands in where there are none
	if !whole {
		splits = r.scratch("attention", size)
	}
	group := heads / c.KVHeads
	queries := attentionQueries(c.HeadDim)
	shared := min(group, queries) // query heads of a workgroup
	tokens := 1
	if whole {
		tokens = queries / shared
	}
	keys, values := cacheLayer(c, layer)
	room := []uint32{uint32(r.seg.params.rows), uint32(r.seg.params.out)}
	attend := call{
		shader: "attention", local: splitPositions, spec: []uint32{uint32(c.HeadDim), uint32(tokens * shared), uint32(shared), truth(whole)},
		bind:   []binding{read(floats(q)), read(keys), read(values), write(floats(out)), write(splits), read(r.params())},
		push:   append([]uint32{uint32(n), uint32(heads), uint32(c.KVHeads), uint32(maxSplits), math.Float32bits(scale)}, room...),
		groups: [3]int{ceil(n, tokens), c.KVHeads * ceil(group, shared), 1},
	}
	if whole {
		r.dispatch(attend)
		return
	}
	// How many splits there are is known when it runs. Workgroups without one end at once.
	attend.groups[2] = max(1, min(maxSplits, splitGroups/(attend.groups[0]*attend.groups[1])))
	r.dispatch(attend)
	form, pack := floats(out), false // stands in
	if c.HeadDim%quant.QK == 0 {
		form, pack = r.packing(out)
	}
	r.dispatch(call{
		shader: "combine", local: combineLocal, spec: []uint32{truth(pack)},
		bind:   []binding{read(splits), write(floats(out)), read(r.params()), write(form)},
		push:   append(append([]uint32{uint32(heads), uint32(c.HeadDim), uint32(maxSplits)}, room...), packedScales(n*q.Cols)),
		groups: [3]int{heads, n, 1},
	})
	r.packed(out, form, pack)
}
