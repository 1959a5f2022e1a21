package vulkan

import (
	"math"

	"github.com/powerinfer-go/powerinfer/internal/compute"
)

// connectionWeights makes weights of products: an invocation for each token.
func (r *recorder) connectionWeights(o *compute.ConnectionWeights) {
	if !o.Fits() {
		panic("vulkan: ConnectionWeights of shapes that do not fit")
	}
	if o.W.Rows == 0 {
		return
	}
	r.about(o.Base.Name)
	r.dispatch(call{
		shader: "connectionweights", local: elementwise, spec: []uint32{uint32(o.How.Streams), uint32(o.W.Cols)},
		bind: []binding{update(floats(o.W)), read(elements(o.Scale)), read(elements(o.Base))},
		push: []uint32{
			uint32(o.W.Rows), math.Float32bits(o.How.Eps), math.Float32bits(o.How.Written), math.Float32bits(o.How.Floor), uint32(o.How.Rounds),
		},
		groups: r.groupsFor(o.W.Rows),
	})
}

// readStreams sums the streams.
func (r *recorder) readStreams(o *compute.ReadStreams) {
	if !o.Fits() {
		panic("vulkan: ReadStreams of shapes that do not fit")
	}
	r.perElement(o.Out.Rows*o.Out.Cols, call{
		shader: "readstreams", spec: []uint32{uint32(o.Streams)},
		bind: []binding{write(floats(o.Out)), read(floats(o.X)), read(floats(o.W))},
		push: []uint32{uint32(o.Out.Cols), uint32(o.W.Cols)},
	})
}

// writeStreams adds y to the streams, which it mixes.
func (r *recorder) writeStreams(o *compute.WriteStreams) {
	if !o.Fits() {
		panic("vulkan: WriteStreams of shapes that do not fit")
	}
	r.perElement(o.Y.Rows*o.Y.Cols, call{
		shader: "writestreams", spec: []uint32{uint32(o.Streams), truth(o.Mixes())},
		bind: []binding{update(floats(o.X)), read(floats(o.Y)), read(floats(o.W))},
		push: []uint32{uint32(o.Y.Cols), uint32(o.W.Cols), uint32(o.First())},
	})
}

// readGated sums the gated streams.
func (r *recorder) readGated(o *compute.ReadGated) {
	if !o.Fits() {
		panic("vulkan: ReadGated of shapes that do not fit")
	}
	r.perElement(o.Out.Rows*o.Out.Cols, call{
		shader: "readgated", spec: []uint32{uint32(o.Streams())},
		bind: []binding{write(floats(o.Out)), read(floats(o.X)), read(floats(o.Gate))},
		push: []uint32{uint32(o.Out.Cols)},
	})
}
