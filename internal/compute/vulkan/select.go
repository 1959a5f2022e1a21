package vulkan

import (
	"fmt"

	"github.com/powerinfer-go/powerinfer/internal/compute"
)

// selectLocal is the number of invocations of index.comp and select.comp. Their constants must be equal.
const selectLocal = 256

// selectBytes bounds the scores that are kept at a time, unless a row has more.
const selectBytes = 64 << 20

// selectBlocks scores the positions of some rows and lists the blocks of each row, then does the same for the next
// rows. If no sequence has more blocks than are chosen, nothing is scored.
func (r *recorder) selectBlocks(o *compute.Select) {
	if !o.Fits() {
		panic(fmt.Sprintf("vulkan: Select of %d columns to %d", o.Q.Cols, o.Blocks.Cols))
	}
	n, h, l := o.Q.Rows, &o.How, o.Cache.Layers[o.Layer]
	if n == 0 {
		return
	}
	r.check(needPlaces(o.Cache.CacheSpec, o.Layer))
	positions := o.Cache.Pages * compute.PagePositions // no sequence is longer than the cache
	scored := h.Candidates(positions-1) > h.Top
	width, stride := positions, positions
	switch {
	case !scored:
		width, stride = 0, 1
	case h.Ends:
		width, stride = positions/h.Block, positions/h.Block
	case h.Block > 1:
		stride += ceil(positions, h.Block)
	}
	row := 4 * int64(h.Groups) * int64(stride)
	rows := int(max(1, min(int64(n), min(r.d.maxBinding, selectBytes)/row)))
	scores := r.scratch("select", int64(rows)*row)
	keys, _ := cacheLayer(o.Cache, o.Layer)
	weights := floats(o.Q) // stands in
	if o.W.Mem != nil {
		weights = floats(o.W)
	}
	layout := r.seg.params
	for from := 0; from < n; from += rows {
		some := min(rows, n-from)
		if scored {
			r.dispatch(call{
				shader: "index", local: selectLocal,
				spec: []uint32{uint32(l.Key), uint32(l.KeyType), truth(o.W.Mem != nil), truth(h.Rectified), truth(h.Ends), uint32(l.Every)},
				bind: []binding{read(floats(o.Q)), read(keys), read(weights), write(scores), read(r.params())},
				push: []uint32{
					uint32(from), uint32(h.Groups), uint32(o.Q.Cols / h.Groups / l.Key), uint32(stride), uint32(h.Block), uint32(h.Top), uint32(layout.rows),
					uint32(layout.out), truth(o.Cache.IsWindowed(o.Layer)),
				},
				groups: [3]int{max(1, min(ceil(width, selectLocal), splitGroups/(some*h.Groups))), h.Groups, some},
			})
		}
		r.dispatch(call{
			shader: "select", local: selectLocal,
			spec: []uint32{truth(h.Ends), truth(h.Open)},
			bind: []binding{update(scores), write(floats(o.Blocks)), read(r.params())},
			push: []uint32{
				uint32(from), uint32(h.Groups), uint32(h.Row()), uint32(stride), uint32(h.Block), uint32(h.Top), uint32(h.Local), uint32(width), uint32(layout.rows),
				uint32(layout.out),
			},
			groups: [3]int{some, h.Groups, 1},
		})
	}
}
