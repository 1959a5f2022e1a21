package vulkan

import (
	"fmt"
	"math"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/compute/vulkan/driver"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// Shapes of attention.comp. Its constants must be equal.
const (
	splitPositions = 256       // positions that are attended to at a time, and invocations of a workgroup
	splitBytes     = 256 << 20 // that the parts of tokens may take: many wide heads take more than that is worth, and go through all splits
	splitGroups    = 2048      // workgroups that share the splits of a step, about: enough for any GPU
	combineLocal   = 64
)

// attentionBytes returns the shared memory of a workgroup with that many rows of q, in bytes: the rows, the scores of a
// split, the scores while they are reduced, and slices of values.
func attentionBytes(l compute.KVShape, queries int) int {
	const each = 16 // a vector of four rows
	slices := max(splitPositions/max(l.Value/2, 1), 1)
	return each*(queries/4*(l.Key+splitPositions+splitPositions/4)+slices*l.Value) + attentionRest
}

// attentionRest bounds what else a workgroup has in shared memory, in bytes.
const attentionRest = 1 << 10

// attentionRoom is the shared memory that a workgroup of eight rows may take, in bytes. Several workgroups then fit on
// a compute unit.
const attentionRoom = 32 << 10

// attentionQueries returns how many rows of q a workgroup has at most. More rows read the cache less often, and take
// more shared memory.
func attentionQueries(l compute.KVShape) int {
	if attentionBytes(l, 8) > attentionRoom {
		return 4
	}
	return 8
}

// attend computes attention of every query head over the positions of its sequence that the token sees. Single tokens
// of running sequences, and a few others, have a workgroup for every split of the positions, and combine.comp joins the
// parts. Those without room for parts go through all splits in a workgroup each. Many tokens of prompts share
// workgroups. All give the same bytes, except attention_token.comp, attention_tile.comp and attention_workgroup.comp,
// which compute some tokens of each kind with their own rounding.
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
	if a.Bounded {
		r.check(needBounds(c.CacheSpec, layer))
	}
	f := attending{r: r, out: out, q: q, c: c, layer: layer, how: a, heads: heads, group: heads / l.Heads, queries: queries}
	single := r.single(q)
	var tiles []attentionTile
	if single < n && a.Seen.All() {
		tiles = f.byTiles()
	}
	switch {
	case single > 0 && a.Seen.All() && f.byToken():
		f.alone(single)
	case n <= compute.FewTokens && len(tiles) == 0:
		single = n
		f.apart(n)
	default:
		f.apart(single)
	}
	if len(tiles) == 0 {
		f.together(single, n-single)
	}
	for _, t := range tiles {
		f.tiles(t, single, n-single)
	}
}

// attending is one Attend operation.
type attending struct {
	r       *recorder
	out, q  compute.Tensor
	c       *compute.Cache
	layer   int
	how     compute.Attention
	heads   int // query heads
	group   int // query heads that share keys
	queries int // rows of q that a workgroup has at most
}

// apart computes the first n tokens, each apart from the others: as many in splits as their parts have room for.
func (f *attending) apart(n int) {
	if n == 0 {
		return
	}
	r, l := f.r, &f.c.Layers[f.layer]
	// No sequence is longer than the cache.
	maxSplits := ceil(f.c.Pages*compute.PagePositions, splitPositions)
	each := 4 * int64(f.heads) * int64(maxSplits) * int64(l.Value+2) // bytes of a token's parts
	split := min(n, fewRows, int(min(r.d.maxBinding, splitBytes)/each))
	if split < n {
		r.dispatch(f.call(split, n-split, 1, maxSplits, nil))
	}
	if split == 0 {
		return
	}
	splits := r.scratch("attention", int64(split)*each)
	attend := f.call(0, split, 1, maxSplits, &splits)
	// How many splits there are is known when it runs. Workgroups without one end at once.
	attend.groups[2] = max(1, min(maxSplits, splitGroups/(attend.groups[0]*attend.groups[1])))
	r.dispatch(attend)
	f.combine(splits, splitPositions, maxSplits, 0, split)
}

// combine adds up the parts of the softmax that splits holds for n tokens from first on. A token has at most most
// parts, each of that many positions.
func (f *attending) combine(splits driver.View, positions, most, first, n int) {
	r, value := f.r, f.c.Layers[f.layer].Value
	form, pack := floats(f.out), false // stands in
	if value%quant.QK == 0 && n == f.out.Rows {
		form, pack = r.packing(f.out)
	}
	r.dispatch(call{
		shader: "combine", local: combineLocal,
		spec:   []uint32{truth(pack), truth(f.how.Sinks != nil), truth(f.how.Later), uint32(value), uint32(positions), truth(!f.how.Seen.All())},
		bind:   []binding{read(splits), write(floats(f.out)), read(r.params()), write(form), read(elementsOr(f.how.Sinks, floats(f.q))), read(f.lists())},
		push:   append([]uint32{uint32(f.heads), uint32(most), uint32(r.seg.params.rows), uint32(r.seg.params.out), packedScales(f.out.Rows * f.out.Cols), window(f.how), uint32(first)}, f.picks()...),
		groups: [3]int{f.heads, n, 1},
	})
	r.packed(f.out, form, pack)
}

// together computes n tokens from first on, as many in a workgroup as it has rows for.
func (f *attending) together(first, n int) {
	if n > 0 {
		tokens := f.queries / min(f.group, f.queries)
		if !f.how.Seen.All() { // each sees other positions
			tokens = 1
		}
		f.r.dispatch(f.call(first, n, tokens, 1, nil))
	}
}

// call returns the dispatch of attention.comp for n tokens from first on, tokens of them in a workgroup. If splits is
// not nil, the shader writes parts there for combine.comp, maxSplits for each token.
func (f *attending) call(first, n, tokens, maxSplits int, splits *driver.View) call {
	r, l, a := f.r, &f.c.Layers[f.layer], &f.how
	shared, parts := min(f.group, f.queries), floats(f.out) // placeholders if there are none
	if splits != nil {
		parts = *splits
	}
	keys, values := cacheLayer(f.c, f.layer)
	sinks, slopes := elementsOr(a.Sinks, floats(f.q)), elementsOr(a.Slopes, floats(f.q))
	return call{
		shader: "attention", local: splitPositions,
		spec: []uint32{
			uint32(l.Key), uint32(tokens * shared), uint32(shared), truth(splits == nil), uint32(l.Value), truth(a.Sinks != nil), uint32(l.KeyType), uint32(l.ValueType),
			truth(a.Slopes != nil), truth(a.Later), truth(l.Within), truth(!a.Seen.All()),
		},
		bind: []binding{read(floats(f.q)), read(keys), read(values), write(floats(f.out)), write(parts), read(r.params()), read(sinks), read(slopes), read(f.lists())},
		push: append([]uint32{
			uint32(first + n), uint32(f.heads), uint32(l.Heads), uint32(maxSplits), math.Float32bits(a.Scale), uint32(r.seg.params.rows), uint32(r.seg.params.out),
			window(*a), math.Float32bits(a.SoftCap), truth(f.c.IsWindowed(f.layer)), uint32(first),
		}, f.picks()...),
		groups: [3]int{ceil(n, tokens), l.Heads * ceil(f.group, shared), 1},
	}
}

// lists returns the memory of the blocks that tokens see, or a placeholder if they see all.
func (f *attending) lists() driver.View {
	if f.how.Seen.All() {
		return floats(f.q)
	}
	return floats(f.how.Seen.Blocks)
}

// picks returns the parameters of shaders/picked.glsl: lists for each token, elements of a list, and positions of a
// block.
func (f *attending) picks() []uint32 {
	s := &f.how.Seen
	if s.All() {
		return []uint32{0, 0, 0}
	}
	return []uint32{uint32(s.Groups), uint32(s.Blocks.Cols / s.Groups), uint32(s.Block)}
}

// parts and bounded are IN_PARTS and BOUNDED of shaders/seen.glsl.
const (
	parts   = 1 << 31
	bounded = 1 << 30
)

// window returns the shaders' code of a layer's window.
func window(a compute.Attention) uint32 {
	w := uint32(a.Window)
	if a.Parts && a.Window > 0 {
		w |= parts
	}
	if a.Bounded {
		w |= bounded
	}
	return w
}
