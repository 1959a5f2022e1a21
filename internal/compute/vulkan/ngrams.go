package vulkan

import (
	"fmt"

	"github.com/powerinfer-go/powerinfer/internal/compute"
)

// recent writes the tokens of each row's last positions: an invocation goes through a run's positions in order.
func (r *recorder) recent(o *compute.Recent) {
	if !o.Fits() {
		panic("vulkan: Recent of shapes that do not fit")
	}
	if o.Out.Rows == 0 {
		return
	}
	r.check(needTokens(compute.MostTokens))
	state, _ := cacheLayer(o.Cache, o.Layer)
	r.dispatch(call{
		shader: "recent", local: elementwise, spec: []uint32{uint32(o.Out.Cols)},
		bind:   []binding{write(floats(o.Out)), update(state), read(r.runs(o.Cache.States)), read(r.params())},
		push:   []uint32{uint32(o.Out.Rows), uint32(o.Cache.Layers[o.Layer].State), uint32(r.seg.params.rows), uint32(r.seg.params.out)},
		groups: r.groupsFor(o.Out.Rows),
	})
}

// embedNGrams looks up the rows of each row's last tokens in every part of the table.
func (r *recorder) embedNGrams(o *compute.EmbedNGrams) {
	if !o.Fits() {
		panic(fmt.Sprintf("vulkan: EmbedNGrams of %d columns from %s", o.Out.Cols, o.Table.Name))
	}
	if o.Out.Rows == 0 {
		return
	}
	m, heads := mem(o.Table), len(o.How.First)
	rows := o.Out.Rows * heads
	grams := r.hostData(4*int64(2*len(o.How.Factors)+2*heads), func(_ *compute.Params, dst []byte) {
		w := words(dst)[:0]
		for _, f := range o.How.Factors {
			w = append(w, uint32(f), uint32(f>>32))
		}
		w = append(w, o.How.First...)
		_ = append(w, o.How.Rows...)
	})
	for i := range m.parts {
		p := &m.parts[i]
		r.dispatch(call{
			shader: "embedngrams", local: elementwise, spec: []uint32{uint32(o.Table.Type), uint32(len(o.How.Factors))},
			bind:   []binding{update(floats(o.Out)), read(p.memory), read(floats(o.Recent)), read(grams)},
			push:   append([]uint32{uint32(rows), uint32(o.Table.Cols), uint32(p.first), uint32(p.rows), uint32(heads), uint32(o.How.Heads), o.How.End}, m.push(p)...),
			groups: r.groupsFor(rows * m.units * unitElems(o.Table.Type) / slotElems),
		})
	}
}

// matchStreams gates a value for each stream: a workgroup for each.
func (r *recorder) matchStreams(o *compute.MatchStreams) {
	if !o.Fits() {
		panic("vulkan: MatchStreams of shapes that do not fit")
	}
	if o.Out.Rows == 0 {
		return
	}
	rows := o.Out.Split(o.Value.Cols)
	r.dispatch(call{
		shader: "matchstreams", local: normLocal,
		bind:   []binding{write(floats(o.Out)), read(floats(o.Key)), read(floats(o.Query)), read(floats(o.Value))},
		push:   []uint32{uint32(rows.Rows), uint32(o.Value.Cols), uint32(o.Streams())},
		groups: r.rowGroups(rows),
	})
}
