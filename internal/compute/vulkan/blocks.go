package vulkan

import (
	"fmt"
	"math"

	"github.com/powerinfer-go/powerinfer/internal/compute"
)

// storeRows writes keys, which are also the values, to a layer that keeps one position out of every few: the last of
// each block.
func (r *recorder) storeRows(o *compute.StoreKV) {
	l := o.Cache.Layers[o.Layer]
	if l.Heads != 1 || o.V.Mem != nil || o.K.Cols != l.Key || l.KeyType.Type().Quantised() {
		panic(fmt.Sprintf("vulkan: StoreKV of %d columns in %s to rows of %d", o.K.Cols, l.KeyType, l.Key))
	}
	n := o.K.Rows * l.Key / 2
	if n == 0 {
		return
	}
	r.check(needPlaces(o.Cache.CacheSpec, o.Layer))
	keys, _ := cacheLayer(o.Cache, o.Layer)
	r.dispatch(call{
		shader: "storerows", local: elementwise, spec: []uint32{uint32(l.KeyType), uint32(l.Every)},
		bind:   []binding{update(keys), read(floats(o.K)), read(r.params())},
		push:   []uint32{uint32(n), uint32(l.Key), uint32(r.seg.params.rows), uint32(r.seg.params.out), truth(o.Cache.IsWindowed(o.Layer))},
		groups: r.groupsFor(n),
	})
}

// compress puts together the positions of blocks: an invocation for each element.
func (r *recorder) compress(o *compute.Compress) {
	if !o.Fits() {
		panic("vulkan: Compress of shapes that do not fit")
	}
	n := o.Out.Rows * o.Out.Cols
	if n == 0 {
		return
	}
	r.about(o.Bias.Name)
	r.check(needPlaces(o.Cache.CacheSpec, o.Layer))
	keys, values := cacheLayer(o.Cache, o.Layer)
	r.dispatch(call{
		shader: "compress", local: elementwise, spec: []uint32{truth(o.Overlap)},
		bind: []binding{write(floats(o.Out)), read(keys), read(values), read(elements(o.Bias)), read(r.params())},
		push: []uint32{
			uint32(n), uint32(o.Out.Cols), uint32(o.Cache.Layers[o.Layer].Key), uint32(o.Block), uint32(o.At),
			uint32(r.seg.params.rows), uint32(r.seg.params.out), truth(o.Cache.IsWindowed(o.Layer)),
		},
		groups: r.groupsFor(n),
	})
}

// Shapes of attend_blocks.comp, which says the same.
const (
	blockTile  = 256 // rows that a workgroup attends to at a time, and its invocations
	blockHeads = 4   // heads of a workgroup
)

// attendBlocks attends to a window and to blocks: a workgroup for some heads of a token.
func (r *recorder) attendBlocks(o *compute.AttendBlocks) {
	if !o.Fits() {
		panic("vulkan: AttendBlocks of shapes that do not fit")
	}
	l, every := o.Cache.Layers[o.Layer], o.Of.Layers[o.Blocks].Every
	heads := o.Q.Cols / l.Key
	if o.Q.Rows == 0 {
		return
	}
	const perElement, perRow = 4 * blockHeads, 4*blockHeads + 4
	if need, most := perElement*l.Key+perRow*blockTile+attentionRest, int(r.d.gpu.Limits.MaxComputeSharedMemorySize); need > most {
		r.fail(fmt.Errorf("attention with keys of %d elements takes %d bytes of a workgroup's memory, and the GPU has %d", l.Key, need, most))
	}
	r.check(needPlaces(o.Cache.CacheSpec, o.Layer))
	r.check(needPlaces(o.Of.CacheSpec, o.Blocks))
	raw, _ := cacheLayer(o.Cache, o.Layer)
	blocks, _ := cacheLayer(o.Of, o.Blocks)
	chosen, most := floats(o.Q), 0 // stands in
	if o.Chosen.Mem != nil {
		chosen, most = floats(o.Chosen), o.Chosen.Cols
	}
	for first := 0; first < o.Q.Rows; {
		n := min(o.Q.Rows-first, int(r.d.gpu.Limits.MaxComputeWorkGroupCount[0]))
		r.dispatch(call{
			shader: "attend_blocks", local: blockTile,
			spec: []uint32{uint32(l.Key), uint32(l.KeyType), uint32(every), truth(o.How.Sinks != nil)},
			bind: []binding{
				write(floats(o.Out)), read(floats(o.Q)), read(raw), read(blocks), read(chosen), read(elementsOr(o.How.Sinks, floats(o.Q))), read(r.params()),
			},
			push: []uint32{
				uint32(first), uint32(heads), math.Float32bits(o.How.Scale), uint32(o.How.Window), uint32(most), uint32(r.seg.params.rows), uint32(r.seg.params.out),
				truth(o.Cache.IsWindowed(o.Layer)), truth(o.Of.IsWindowed(o.Blocks)),
			},
			groups: [3]int{n, ceil(heads, blockHeads), 1},
		})
		first += n
	}
}
