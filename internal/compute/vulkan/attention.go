package vulkan

import (
	"fmt"
	"math"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// Shapes of attention.comp, whose constants say the same.
const (
	splitPositions = 256       // positions that are attended to at a time, and invocations of a workgroup
	splitBytes     = 256 << 20 // that the parts of a few tokens may take: many wide heads take more than that is worth, and go through all splits
	splitGroups    = 2048      // workgroups that share the splits of a step, about: enough for any GPU
	combineLocal   = 64
)

// attentionBytes returns the shared memory of a workgroup with so many rows of q: theirs, the scores of a split, these
// while they are reduced, and slices of values.
func attentionBytes(l compute.KVShape, queries int) int {
	const each = 16 // a vector of four rows
	slices := max(splitPositions/max(l.Value/2, 1), 1)
	return each*(queries/4*(l.Key+splitPositions+splitPositions/4)+slices*l.Value) + attentionRest
}

// attentionRest bounds what else a workgroup has in shared memory, in bytes.
const attentionRest = 1 << 10

// attentionRoom is the shared memory that a workgroup of eight rows may take, in bytes, so that several fit on a part
// of a GPU.
const attentionRoom = 32 << 10

// attentionQueries returns how many rows of q a workgroup has at most. More rows read the cache less often, and take
// more shared memory.
func attentionQueries(l compute.KVShape) int {
	if attentionBytes(l, 8) > attentionRoom {
		return 4
	}
	return 8
}

// attend attends with every query head to the positions of its sequence that the token sees. A few tokens have a
// workgroup for every split of the positions, and their parts are put together by combine.comp; many tokens go through
// all splits in one workgroup. Both give the same bytes.
func (r *recorder) attend(out, q compute.Tensor, c *compute.Cache, layer int, a compute.Attention) {
	l := c.Layers[layer]
	n, heads := q.Rows, q.Cols/l.Key
	if q.Cols%l.Key != 0 || heads%l.Heads != 0 || out.Rows != n || out.Cols != heads*l.Value {
		panic(fmt.Sprintf("vulkan: Attention of %d to %d columns with %d heads of %d and %d", q.Cols, out.Cols, l.Heads, l.Key, l.Value))
	}
	queries := attentionQueries(l)
	if need, most := attentionBytes(l, queries), int(r.d.gpu.Limits.MaxComputeSharedMemorySize); need > most {
		r.fail(fmt.Errorf("attention with keys of %d elements and values of %d takes %d bytes of a workgroup's memory, and the GPU has %d", l.Key, l.Value, need, most))
	}
	if n == 0 {
		return
	}
	r.check(needPlaces(c.CacheSpec, layer))

	// No sequence is longer than the cache.
	maxSplits := ceil(c.Pages*compute.PagePositions, splitPositions)
	size := 4 * int64(n) * int64(heads) * int64(maxSplits) * int64(l.Value+2)
	whole := n > compute.FewTokens || size > min(r.d.maxBinding, splitBytes)
	splits := floats(out) // stands in where there are none
	if !whole {
		splits = r.scratch("attention", size)
	}
	sinks, slopes := elementsOr(a.Sinks, floats(q)), elementsOr(a.Slopes, floats(q))
	group := heads / l.Heads
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
			truth(a.Slopes != nil), truth(a.Later), truth(l.Within),
		},
		bind: []binding{read(floats(q)), read(keys), read(values), write(floats(out)), write(splits), read(r.params()), read(sinks), read(slopes)},
		push: append(append([]uint32{uint32(n), uint32(heads), uint32(l.Heads), uint32(maxSplits), math.Float32bits(a.Scale)}, room...),
			window(a), math.Float32bits(a.SoftCap), truth(c.IsWindowed(layer))),
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
		shader: "combine", local: combineLocal, spec: []uint32{truth(pack), truth(a.Sinks != nil), truth(a.Later), uint32(l.Value)},
		bind:   []binding{read(splits), write(floats(out)), read(r.params()), write(form), read(sinks)},
		push:   append(append([]uint32{uint32(heads), uint32(maxSplits)}, room...), packedScales(n*out.Cols), window(a)),
		groups: [3]int{heads, n, 1},
	})
	r.packed(out, form, pack)
}

// parts is IN_PARTS of shaders/seen.glsl.
const parts = 1 << 31

// window returns what shaders are told of a layer's window.
func window(a compute.Attention) uint32 {
	if a.Parts && a.Window > 0 {
		return uint32(a.Window) | parts
	}
	return uint32(a.Window)
}
