package vulkan

import (
	"fmt"
	"math"

	"github.com/powerinfer-go/powerinfer/internal/compute"
)

// wkv has a workgroup for a head of a run, which goes through its positions in order. Invocations share the rows of a
// head's state evenly.
func (r *recorder) wkv(o *compute.WKV) {
	if !o.Fits() {
		panic(fmt.Sprintf("vulkan: WKV of %d columns by %d heads of %d", o.Out.Cols, o.Heads, o.Dim))
	}
	if o.Out.Rows == 0 {
		return
	}
	r.about(o.Bonus.Name)
	lanes := 1
	for 2*lanes*o.Dim <= elementwise {
		lanes *= 2
	}
	state, _ := cacheLayer(o.Cache, o.Layer)
	r.dispatch(call{
		shader: "wkv", local: elementwise, spec: []uint32{uint32(o.Dim), uint32(lanes), uint32(ceil(o.Dim, lanes))},
		bind: []binding{
			write(floats(o.Out)), read(floats(o.R)), read(floats(o.K)), read(floats(o.V)), read(floats(o.W)), read(floats(o.A)),
			read(elements(o.KeyNorm)), read(elements(o.KeyRate)), read(elements(o.Bonus)), read(elements(o.Scale)), update(state), read(r.runs(o.Cache.States)),
		},
		push:   []uint32{uint32(o.Out.Rows), uint32(o.Heads), uint32(o.At), uint32(o.Cache.Layers[o.Layer].State), math.Float32bits(o.Epsilon)},
		groups: [3]int{o.Heads, min(o.Out.Rows, int(r.d.gpu.Limits.MaxComputeWorkGroupCount[1])), 1},
	})
}
