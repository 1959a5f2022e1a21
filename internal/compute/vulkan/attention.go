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

// attentionQueries returns how many rows of q a workgroup has at most: what fits in its shared memory.
func attentionQueries(l compute.KVShape) int {
	if max(l.Key, l.Value) > 256 {
		return 4
	}
	return 8
}

// attend attends with every query head to the positions of its sequence that the token sees. A few tokens have a workgroup for
// every split of the positions, and their parts are put together by combine.comp; many tokens go through all splits in
// one workgroup. Both give the same bytes.
func (r *recorder) attend(out, q compute.Tensor, c *compute.Cache, layer int, a compute.Attention) {
	l := c.Layers[layer]
	n, heads := q.Rows, q.Cols/l.Key
	if q.Cols%l.Key != 0 || heads%l.Heads != 0 || out.Rows != n || out.Cols != heads*l.Value {
		panic(fmt.Sprintf("vulkan: Attention of %d to %d columns with %d heads of %d and %d", q.Cols, out.Cols, l.Heads, l.Key, l.Value))
	}
	if max(l.Key, l.Value) > maxHeadDim {
		r.fail(fmt.Errorf("attention with heads of %d elements: the GPU takes at most %d", max(l.Key, l.Value), maxHeadDim))
	}
	if n == 0 {
		return
	}
	r.check(needPlaces(c.Pages))

	// No sequence is longer than the cache.
	maxSplits := ceil(c.Pages*compute.PagePositions, splitPositions)
	size := 4 * int64(n) * int64(heads) * int64(maxSplits) * int64(l.Value+2)
	whole := n > compute.FewTokens || size > r.d.maxBinding
	splits := floats(out) // stands in where there are none
	if !whole {
		splits = r.scratch("attention", size)
	}
	sinks, slopes := elementsOr(a.Sinks, floats(q)), elementsOr(a.Slopes, floats(q))
	group := heads / l.Heads
	queries := attentionQueries(l)
	shared := min(group, queries) // query heads of a workgroup
	tokens := 1
	if whole {
		tokens = queries / shared
	}
	keys, values := cacheLayer(c, layer)
	room := []uint32{uint32(r.seg.params.rows), uint32(r.seg.params.out)}
	attend := call{
		shader: "attention", local: splitPositions,
		spec: []uint32{
			uint32(l.Key), uint32(tokens * shared), uint32(shared), truth(whole), uint32(l.Value), truth(a.Sinks != nil), uint32(l.KeyType), uint32(l.ValueType),
			truth(a.Slopes != nil), truth(a.Later),
		},
		bind: []binding{read(floats(q)), read(keys), read(values), write(floats(out)), write(splits), read(r.params()), read(sinks), read(slopes)},
		push: append(append([]uint32{uint32(n), uint32(heads), uint32(l.Heads), uint32(maxSplits), math.Float32bits(a.Scale)}, room...),
			uint32(a.Window), math.Float32bits(a.SoftCap)),
		groups: [3]int{ceil(n, tokens), l.Heads * ceil(group, shared), 1},
	}
	if whole {
		r.dispatch(attend)
		return
	}
	// How many splits there are is known when it runs. Workgroups without one end at once.
	attend.groups[2] = max(1, min(maxSplits, splitGroups/(attend.groups[0]*attend.groups[1])))
	r.dispatch(attend)
	form, pack := floats(out), false // stands in
	if l.Value%quant.QK == 0 {
		form, pack = r.packing(out)
	}
	r.dispatch(call{
		shader: "combine", local: combineLocal, spec: []uint32{truth(pack), truth(a.Sinks != nil), truth(a.Later)},
		bind:   []binding{read(splits), write(floats(out)), read(r.params()), write(form), read(sinks)},
		push:   append(append([]uint32{uint32(heads), uint32(l.Value), uint32(maxSplits)}, room...), packedScales(n*out.Cols), uint32(a.Window)),
		groups: [3]int{heads, n, 1},
	})
	r.packed(out, form, pack)
}
