package vulkan

import (
	"fmt"
	"math"
	"slices"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/compute/vulkan/driver"
)

// Shapes of scan.comp and delta.comp. Their constants must be equal.
const (
	scanLanes = 16 // invocations that share a row of a head's state
	scanRows  = elementwise / scanLanes
)

// runWords are the words that shaders/runs.glsl reads for each row: how many rows the run has that begins there, or 0,
// and its slot, with freshRun if the sequence begins.
const (
	runWords = 2
	freshRun = 1 << 31
)

// runs returns the memory of the step's runs. Their sequences have slots in a cache with that many slots.
func (r *recorder) runs(slots int) driver.View {
	if r.run.Slab != nil {
		return r.run
	}
	r.check(func(p *compute.Params) error { return p.CheckRuns(slots) })
	layout, list := r.seg.params, []compute.Run(nil)
	r.run = r.hostData(4*runWords*int64(layout.rows), func(p *compute.Params, dst []byte) {
		w, lead := words(dst)[:runWords*layout.rows], layout.lead(p)
		clear(w)
		if p.CheckRuns(slots) != nil { // the step is refused
			return
		}
		list = p.AppendRuns(list[:0])
		for _, run := range list {
			at := runWords * (lead + run.From)
			w[at], w[at+1] = uint32(run.To-run.From), uint32(run.Slot)
			if run.Fresh {
				w[at+1] |= freshRun
			}
		}
	})
	return r.run
}

// convolve has an invocation for each channel of a run, which goes through its positions in order.
func (r *recorder) convolve(o *compute.Convolve) {
	if !o.Fits() {
		panic(fmt.Sprintf("vulkan: Convolve of %d channels to %d by %s [%d]", o.X.Cols, o.Out.Cols, o.W.Name, o.W.Len))
	}
	if o.X.Rows == 0 {
		return
	}
	r.about(o.W.Name)
	state, _ := cacheLayer(o.Cache, o.Layer)
	before := update(state)
	if o.Peek {
		before = read(state)
	}
	r.dispatch(call{
		shader: "convolve", local: elementwise, spec: []uint32{uint32(o.Width()), truth(o.Bias != nil), truth(o.Gated), truth(o.Plain), truth(o.Peek)},
		bind: []binding{
			write(floats(o.Out)), read(floats(o.X)), read(elements(o.W)), read(elementsOr(o.Bias, floats(o.X))), before, read(r.runs(o.Cache.States)),
		},
		push:   []uint32{uint32(o.X.Rows), uint32(o.Out.Cols), uint32(o.Cache.Layers[o.Layer].State), uint32(o.At)},
		groups: [3]int{ceil(o.Out.Cols, elementwise), min(o.X.Rows, int(r.d.gpu.Limits.MaxComputeWorkGroupCount[1])), 1},
	})
}

// scan has a workgroup for some rows of a head's state of a run, which goes through its positions in order.
func (r *recorder) scan(o *compute.Scan) {
	s := o.Shape
	if !o.Fits() {
		panic(fmt.Sprintf("vulkan: Scan of %d columns to %d by %+v", o.X.Cols, o.Out.Cols, s))
	}
	if o.X.Rows == 0 {
		return
	}
	r.about(o.A.Name)
	step := o.Step
	if !o.Stepped() {
		step = o.X // only for the binding
	}
	state, _ := cacheLayer(o.Cache, o.Layer)
	push := []uint32{uint32(o.X.Rows), uint32(s.Heads), uint32(s.Dim), uint32(s.Groups), uint32(o.At), uint32(o.Cache.Layers[o.Layer].State)}
	x, bc := floats(o.X), floats(o.X)
	if o.Apart() {
		bc = floats(o.BC)
	}
	r.dispatch(call{
		shader: "scan", local: elementwise,
		spec: []uint32{uint32(s.State), uint32(ceil(s.State, scanLanes)), truth(o.Stepped()), truth(o.D != nil), truth(o.Apart()), truth(o.Fine)},
		bind: []binding{
			write(floats(o.Out)), read(x), read(bc), read(floats(step)), read(elements(o.A)), read(elementsOr(o.D, x)), read(elementsOr(o.Bias, x)),
			update(state), read(r.runs(o.Cache.States)),
		},
		push:   slices.Clip(push),
		groups: [3]int{s.Heads * ceil(s.Dim, scanRows), min(o.X.Rows, int(r.d.gpu.Limits.MaxComputeWorkGroupCount[1])), 1},
	})
}

// delta has a workgroup for some rows of a head's state of a run, which goes through its positions in order.
func (r *recorder) delta(o *compute.Delta) {
	s := o.Shape
	if !o.Fits() {
		panic(fmt.Sprintf("vulkan: Delta of %d columns to %d by %+v", o.X.Cols, o.Out.Cols, s))
	}
	if o.X.Rows == 0 {
		return
	}
	r.about(o.A.Name)
	state, _ := cacheLayer(o.Cache, o.Layer)
	r.dispatch(call{
		shader: "delta", local: elementwise, spec: []uint32{uint32(s.State), uint32(ceil(s.State, scanLanes)), truth(o.Tiled), truth(o.Joined()), truth(o.ByColumn())},
		bind: []binding{
			write(floats(o.Out)), read(floats(o.X)), read(floats(o.Write)), read(floats(o.Step)), read(elements(o.A)), read(elements(o.Bias)),
			update(state), read(r.runs(o.Cache.States)),
		},
		push: []uint32{
			uint32(o.X.Rows), uint32(s.Heads), uint32(s.Dim), uint32(s.Groups), uint32(o.At), uint32(o.Cache.Layers[o.Layer].State), math.Float32bits(o.Epsilon), math.Float32bits(o.Bound),
		},
		groups: [3]int{s.Heads * ceil(s.Dim, scanRows), min(o.X.Rows, int(r.d.gpu.Limits.MaxComputeWorkGroupCount[1])), 1},
	})
}
