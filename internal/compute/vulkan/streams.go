package vulkan

import (
	"fmt"
	"math"

	"github.com/powerinfer-go/powerinfer/internal/compute"
)

// temper scales queries by their position.
func (r *recorder) temper(x compute.Tensor, how compute.Temperature) {
	r.check(needPositions(0, math.MaxInt32))
	r.perElement(x.Rows*x.Cols, call{
		shader: "temper",
		bind:   []binding{update(floats(x)), read(r.params())},
		push:   []uint32{uint32(x.Cols), uint32(r.seg.params.rows), math.Float32bits(how.Scale), uint32(how.Length), uint32(how.Offset)},
	})
}

// gaussianTopK keeps the values that are above the mean by that many standard deviations.
func (r *recorder) gaussianTopK(x compute.Tensor, deviations float32) {
	if x.Rows == 0 {
		return
	}
	r.dispatch(call{
		shader: "topk", local: normLocal,
		bind:   []binding{update(floats(x))},
		push:   []uint32{uint32(x.Rows), uint32(x.Cols), math.Float32bits(deviations)},
		groups: r.rowGroups(x),
	})
}

// match gives x's rows the size of like's.
func (r *recorder) match(x, like compute.Tensor, floor float32) {
	same("Match", x, like)
	if x.Rows == 0 {
		return
	}
	r.dispatch(call{
		shader: "match", local: normLocal,
		bind:   []binding{update(floats(x)), read(floats(like))},
		push:   []uint32{uint32(x.Rows), uint32(x.Cols), math.Float32bits(floor)},
		groups: r.rowGroups(x),
	})
}

// rowGroups returns a workgroup for each row of x. Shaders loop with a stride if there are more than the device can
// count.
func (r *recorder) rowGroups(x compute.Tensor) [3]int {
	return [3]int{min(x.Rows, int(r.d.gpu.Limits.MaxComputeWorkGroupCount[0])), 1, 1}
}

// slice copies columns.
func (r *recorder) slice(dst, x compute.Tensor, from int) {
	if dst.Rows != x.Rows || from < 0 || from+dst.Cols > x.Cols {
		panic(fmt.Sprintf("vulkan: Slice of %d from %d on of %d", dst.Cols, from, x.Cols))
	}
	r.perElement(dst.Rows*dst.Cols, call{
		shader: "slice",
		bind:   []binding{write(floats(dst)), read(floats(x))},
		push:   []uint32{uint32(dst.Cols), uint32(x.Cols), uint32(from)},
	})
}

// scaleColumns multiplies every row by w.
func (r *recorder) scaleColumns(dst, x compute.Tensor, w *compute.Vector) {
	same("Multiply", dst, x)
	n := x.Rows * x.Cols
	if n == 0 {
		return
	}
	r.about(w.Name)
	r.dispatch(call{
		shader: "multiply", local: elementwise,
		bind:   inPlace(dst, x, read(elements(w))),
		push:   []uint32{uint32(n), uint32(x.Cols)},
		groups: r.groupsFor(n),
	})
}

// shift adds b to every row.
func (r *recorder) shift(x compute.Tensor, b *compute.Vector) {
	n := x.Rows * x.Cols
	if n == 0 {
		return
	}
	r.about(b.Name)
	r.dispatch(call{
		shader: "shift", local: elementwise,
		bind:   []binding{update(floats(x)), read(elements(b))},
		push:   []uint32{uint32(n), uint32(x.Cols)},
		groups: r.groupsFor(n),
	})
}

// altUpPredict mixes the streams.
func (r *recorder) altUpPredict(x compute.Streams, m compute.Tensor, w *compute.Vector) {
	r.streams(x, "altuppredict", w, []binding{read(floats(m)), read(elements(w))})
}

// altUpCorrect adds what y differs by from the active stream.
func (r *recorder) altUpCorrect(x compute.Streams, y, m compute.Tensor, w *compute.Vector, active int) {
	same("AltUpCorrect", x[0], y)
	r.streams(x, "altupcorrect", w, []binding{read(floats(m)), read(elements(w)), read(floats(y))}, uint32(active))
}

func (r *recorder) streams(x compute.Streams, shader string, w *compute.Vector, more []binding, push ...uint32) {
	var bind []binding
	for _, s := range x {
		same(shader, x[0], s)
		bind = append(bind, update(floats(s)))
	}
	n := x[0].Rows * x[0].Cols
	if n == 0 {
		return
	}
	r.about(w.Name)
	r.dispatch(call{
		shader: shader, local: elementwise,
		bind:   append(bind, more...),
		push:   append([]uint32{uint32(n), uint32(x[0].Cols)}, push...),
		groups: r.groupsFor(n),
	})
}
