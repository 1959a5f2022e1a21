package vulkan

import (
	"fmt"
	"math"

	"github.com/powerinfer-go/powerinfer/internal/compute"
)

// attendResiduals has a workgroup for each row.
func (r *recorder) attendResiduals(o *compute.AttendResiduals) {
	if !o.Fits() {
		panic(fmt.Sprintf("vulkan: AttendResiduals of %d columns and %d checkpoints by %s [%d]", o.X.Cols, o.Count, o.W.Name, o.W.Len))
	}
	if o.X.Rows == 0 {
		return
	}
	r.about(o.W.Name)
	r.dispatch(call{
		shader: "attendresiduals", local: elementwise,
		bind:   []binding{write(floats(o.Out)), read(floats(o.Stack)), read(floats(o.X)), read(elements(o.W))},
		push:   []uint32{uint32(o.X.Rows), uint32(o.X.Cols), uint32(o.Stack.Cols), uint32(o.Count), math.Float32bits(o.Epsilon)},
		groups: [3]int{min(o.X.Rows, listedGroups), 1, 1},
	})
}
