package vulkan

import (
	"fmt"
	"math"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/compute/vulkan/driver"
)

// elementwise is the workgroup of shaders that process single elements.
const elementwise = 256

// groupsFor returns the workgroups for n elements. Shaders loop with a stride if there are more than the device can
// count.
func (r *recorder) groupsFor(n int) [3]int {
	return [3]int{min(ceil(n, elementwise), int(r.d.gpu.Limits.MaxComputeWorkGroupCount[0])), 1, 1}
}

// same panics unless a and b have the same shape.
func same(verb string, a, b compute.Tensor) {
	if a.Rows != b.Rows || a.Cols != b.Cols {
		panic(fmt.Sprintf("vulkan: %s of %d×%d and %d×%d", verb, a.Rows, a.Cols, b.Rows, b.Cols))
	}
}

// add adds x to dst.
func (r *recorder) add(dst, x compute.Tensor) {
	same("Add", dst, x)
	n := dst.Rows * dst.Cols
	if n == 0 || r.join(dst, x) {
		return
	}
	r.dispatch(call{
		shader: "add", local: elementwise,
		bind:   []binding{update(floats(dst)), read(floats(x))},
		push:   []uint32{uint32(n)},
		groups: r.groupsFor(n),
	})
}

// perElement does c with an invocation for each of n elements, and pushes n before c's constants.
func (r *recorder) perElement(n int, c call) {
	if n == 0 {
		return
	}
	c.local, c.push, c.groups = elementwise, append([]uint32{uint32(n)}, c.push...), r.groupsFor(n)
	r.dispatch(c)
}

// scale multiplies every element of x by factor; its scalar twin is ref's.
func (r *recorder) scale(x compute.Tensor, factor float32) {
	r.perElement(x.Rows*x.Cols, call{
		shader: "scale",
		bind:   []binding{update(floats(x))},
		push:   []uint32{math.Float32bits(factor)},
	})
}

// softCap brings every element of x smoothly into (-limit, limit).
func (r *recorder) softCap(x compute.Tensor, limit float32) {
	r.perElement(x.Rows*x.Cols, call{
		shader: "softcap",
		bind:   []binding{update(floats(x))},
		push:   []uint32{math.Float32bits(limit)},
	})
}

// clamp brings every element of x into [low, high].
func (r *recorder) clamp(x compute.Tensor, low, high float32) {
	r.perElement(x.Rows*x.Cols, call{
		shader: "clamp",
		bind:   []binding{update(floats(x))},
		push:   []uint32{math.Float32bits(low), math.Float32bits(high)},
	})
}

// activate computes act(gate)·up.
func (r *recorder) activate(dst, gate, up compute.Tensor, act compute.Activation) {
	same("Activate", dst, gate)
	n := gate.Rows * gate.Cols
	if n == 0 {
		return
	}
	gated, second := uint32(0), gate
	if up.Mem != nil {
		same("Activate", gate, up)
		gated, second = 1, up
	}
	form, pack := r.packing(dst)
	invocations := n
	if pack {
		invocations = n / packPart
	}
	r.dispatch(call{
		shader: "activate", local: elementwise, spec: []uint32{uint32(act.Kind), gated, truth(pack)},
		bind:   inPlace(dst, gate, read(floats(second)), write(form)),
		push:   []uint32{uint32(n), math.Float32bits(act.Threshold), packedScales(n), math.Float32bits(act.Slope), math.Float32bits(act.Limit), math.Float32bits(act.Above), math.Float32bits(act.Below)},
		groups: r.groupsFor(invocations),
	})
	r.packed(dst, form, pack)
}

// inPlace are bindings of dst, which may be x, of x, and of more.
func inPlace(dst, x compute.Tensor, more ...binding) []binding {
	return append([]binding{update(floats(dst)), read(floats(x))}, more...)
}

// normLocal is the workgroup of norms: one for each row.
const normLocal = 256

// rmsNorm divides by the root of the mean square.
func (r *recorder) rmsNorm(dst, x compute.Tensor, w *compute.Vector, eps float32) {
	r.norm("rmsnorm", dst, x, w, nil, eps)
}

// layerNorm divides by the standard deviation from the mean.
func (r *recorder) layerNorm(dst, x compute.Tensor, w, b *compute.Vector, eps float32) {
	r.norm("layernorm", dst, x, w, b, eps)
}

func (r *recorder) norm(shader string, dst, x compute.Tensor, w, b *compute.Vector, eps float32) {
	same(shader, dst, x)
	if w.Len != x.Cols || b != nil && b.Len != x.Cols {
		panic(fmt.Sprintf("vulkan: %s of %d columns by %s [%d]", shader, x.Cols, w.Name, w.Len))
	}
	if x.Rows == 0 {
		return
	}
	r.about(w.Name)
	biased, bias := uint32(0), w
	if b != nil {
		biased, bias = 1, b
	}
	form, pack := floats(dst), false // stands in
	if dst.Mem != x.Mem {            // heads are normed in place, and no product takes them
		form, pack = r.packing(dst)
	}
	r.dispatch(call{
		shader: shader, local: normLocal, spec: []uint32{biased, truth(pack)},
		bind:   inPlace(dst, x, read(elements(w)), read(elements(bias)), write(form)),
		push:   []uint32{uint32(x.Rows), uint32(x.Cols), math.Float32bits(eps), packedScales(x.Rows * x.Cols)},
		groups: [3]int{min(x.Rows, int(r.d.gpu.Limits.MaxComputeWorkGroupCount[0])), 1, 1},
	})
	r.packed(dst, form, pack)
}

// embed looks up each token's row.
func (r *recorder) embed(dst compute.Tensor, table *compute.Matrix) {
	r.check(needTokens(table.Rows))
	r.lookup("embed", dst, table, 0)
}

// addPosition adds each position's row.
func (r *recorder) addPosition(x compute.Tensor, table *compute.Matrix, offset int) {
	r.check(needPositions(offset, table.Rows))
	r.lookup("addposition", x, table, offset)
}

// addType adds the row of each token's type.
func (r *recorder) addType(x compute.Tensor, table *compute.Matrix) {
	r.check(needTypes(table.Rows))
	r.lookup("addtype", x, table, r.seg.params.types())
}

// lookup dispatches shader for every part of table: a part serves the rows that it has.
func (r *recorder) lookup(shader string, dst compute.Tensor, table *compute.Matrix, offset int) {
	if table.Cols != dst.Cols {
		panic(fmt.Sprintf("vulkan: %s of %d columns from %s with %d", shader, dst.Cols, table.Name, table.Cols))
	}
	if dst.Rows == 0 {
		return
	}
	m := mem(table)
	slots := dst.Rows * m.units * unitElems(table.Type) / slotElems
	for i := range m.parts {
		p := &m.parts[i]
		r.dispatch(call{
			shader: shader, local: elementwise, spec: []uint32{uint32(table.Type)},
			bind:   []binding{update(floats(dst)), read(p.memory), read(r.params())},
			push:   append([]uint32{uint32(dst.Rows), uint32(dst.Cols), uint32(p.first), uint32(p.rows), uint32(offset), uint32(r.seg.params.rows)}, m.push(p)...),
			groups: r.groupsFor(slots),
		})
	}
}

// slotElems is the number of elements that weights.glsl decodes at a time.
const slotElems = 8

// gather copies the rows with wanted logits.
func (r *recorder) gather(dst, x compute.Tensor) {
	if dst.Cols != x.Cols {
		panic(fmt.Sprintf("vulkan: Gather of %d columns from %d", dst.Cols, x.Cols))
	}
	r.check(needRows())
	r.perElement(dst.Rows*dst.Cols, call{
		shader: "gather",
		bind:   []binding{write(floats(dst)), read(floats(x)), read(r.params())},
		push:   []uint32{uint32(dst.Cols), uint32(r.seg.params.rows)},
	})
}

// precede goes through the host's memory, where what Params.Before has is.
func (r *recorder) precede(dst, x compute.Tensor) {
	var to func() []float32
	from, layout := r.Download(x), &r.seg.params
	r.Overlap(func(p *compute.Params) error {
		in, out, lead := from(), to(), layout.lead(p)
		row := func(of []float32) func(int) []float32 {
			return func(i int) []float32 { return of[(lead+i)*dst.Cols:][:dst.Cols] }
		}
		p.Precede(row(out), row(in))
		return nil
	}, nil)
	to = r.Upload(dst)
}

// insert takes what Params.Given has from memory that the host fills before the step: whether a row has something, and
// what.
func (r *recorder) insert(x compute.Tensor, first int, add bool) {
	n := x.Rows * x.Cols
	if n == 0 {
		return
	}
	r.check(needGiven(first + x.Cols))
	layout := r.seg.params
	given := r.hostData(4*int64(x.Rows+n), func(p *compute.Params, dst []byte) {
		has, to, lead := words(dst)[:x.Rows], numbers(dst)[x.Rows:], layout.lead(p)
		clear(has)
		for i, row := range p.Given {
			if row != nil {
				has[lead+i] = 1
				copy(to[(lead+i)*x.Cols:][:x.Cols], row[first:])
			}
		}
	})
	r.dispatch(call{
		shader: "insert", local: elementwise, spec: []uint32{truth(add)},
		bind:   []binding{update(floats(x)), read(given)},
		push:   []uint32{uint32(n), uint32(x.Cols), uint32(x.Rows)},
		groups: r.groupsFor(n),
	})
}

// copyColumns copies ranges of columns.
func (r *recorder) copyColumns(o *compute.CopyColumns) {
	copiesFusion{}.record(r, []compute.Op{o})
}

// turns returns the memory of rp's cosines and sines for rows tokens. Angles grow with the position far beyond what a
// shader's sine is good for, so the host computes them once a step.
func (r *recorder) turns(rp *compute.Rope, rows int) driver.View {
	if v, ok := r.ropes[rp]; ok && v.Size >= 8*int64(rows)*int64(len(rp.Freqs)) {
		return v
	}
	r.check(needTurns(rp))
	layout := r.seg.params
	v := r.hostData(8*int64(rows)*int64(len(rp.Freqs)), func(p *compute.Params, dst []byte) {
		w, lead, n := numbers(dst), layout.lead(p), len(p.Turn())
		angles := make([]float64, len(rp.Freqs))
		for t := range rows {
			clear(angles) // padding
			if i := t - lead; i >= 0 && i < n {
				p.Angles(angles, rp, i)
			}
			for i, angle := range angles {
				sin, cos := math.Sincos(angle)
				at := 2 * (t*len(angles) + i)
				w[at], w[at+1] = float32(rp.Scale*cos), float32(rp.Scale*sin)
			}
		}
	})
	if r.ropes == nil {
		r.ropes = map[*compute.Rope]driver.View{}
	}
	r.ropes[rp] = v
	return v
}
