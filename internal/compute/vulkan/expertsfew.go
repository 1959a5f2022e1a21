package vulkan

import (
	"math"

	"github.com/powerinfer-go/powerinfer/internal/compute"
)

// Shapes of expertneurons.comp and expertsums.comp.
const (
	mostUsed    = 32 // experts of a token, at most; shared memory has a block of outputs for each
	expertsEach = 4  // experts that a group of lanes sums at a time
	expertsOwn  = 8  // rows of a workgroup, unless it begins a norm: small workgroups keep large GPUs busy
)

// expertsBytes bounds the shared memory of a workgroup of expertsums.comp.
func expertsBytes(local, used int) int { return 8<<10 + 8*local + 4*used*(blockOwn+3) + 512 }

// few reports whether two dispatches compute the layer for a few tokens: expertneurons.comp the neurons of every pair, and
// expertsums.comp the sum over a token's experts. They add in the same order as compute.
func (f *experts) few() bool {
	if f.tokens > compute.FewTokens || f.sorted.Slab != nil || f.w.Exact || f.c.Used > mostUsed || f.w.Act.Kind >= compute.XIELU {
		return false
	}
	gate, _ := f.w.Gates()
	for _, m := range []*compute.Matrix{gate, f.w.Up, f.w.Down} {
		if m != nil && (!mem(m).whole() || mem(m).layout == groups) {
			return false
		}
	}
	return gate == nil || gate.Type == f.w.Up.Type
}

// expertsNext reports whether the last dispatch of o can add its result to a residual and begin the norm of that.
func (r *recorder) expertsNext(o *compute.Experts) bool {
	n := o.X.Rows
	if n < 1 || n > blockTokens || r.single(o.X) < n || o.Out.Cols%blockOwn != 0 || !r.d.quantised {
		return false
	}
	f := experts{r: r, w: o.Weights, c: o.Choice, tokens: n}
	return f.few()
}

// computeFew computes the tokens' rows of out.
func (f *experts) computeFew(in *operand, out compute.Tensor, next *begun) {
	a := f.scratch("experts' neurons", f.ff)
	f.neurons(in, a)
	hidden := operand{r: f.r, x: a, name: "experts' neurons"}
	f.sum(&hidden, out, next)
}

// neurons computes the neurons of every pair.
func (f *experts) neurons(in *operand, a compute.Tensor) {
	r, w := f.r, &f.w
	gate, gateBias := w.Gates()
	firstGate, firstUp := w.First(0, f.ff)
	gated := gate != nil
	if !gated {
		gate, gateBias, firstGate = w.Up, w.UpBias, firstUp
	}
	m := mem(gate)
	part, ups := &m.parts[0], mem(w.Up).parts[0].memory
	x, scales := in.of(gate.Type)
	form, pack := r.packing(a)
	rows := f.pairs() * f.ff
	if gated {
		rows *= 2
	}
	local, each, _ := r.d.blockShape(rows, 1, false)
	r.dispatch(call{
		shader: r.dotting("expertneurons"), local: local,
		spec: []uint32{uint32(gate.Type), uint32(each), uint32(w.Act.Kind), truth(pack), truth(gated)},
		bind: []binding{
			read(part.memory), read(x), read(ups), write(floats(a)), read(floats(choices(f.c))),
			read(elementsOr(gateBias, part.memory)), read(elementsOr(w.UpBias, part.memory)), write(form), read(f.table),
		},
		push: append(m.push(part), uint32(f.ff), scales, packedScales(a.Rows*a.Cols), truth(gateBias != nil), truth(w.UpBias != nil),
			math.Float32bits(w.Act.Threshold), math.Float32bits(w.Act.Slope), math.Float32bits(w.Act.Limit),
			uint32(f.first), uint32(f.c.Used), uint32(f.held), f.tabled(), uint32(gate.Rows/f.held), uint32(firstGate), uint32(firstUp), truth(w.Before)),
		groups: [3]int{ceil(f.ff, blockOwn), 1, f.pairs()},
	})
	r.packed(a, form, pack)
}

// sum computes the tokens' rows of out from the pairs' neurons.
func (f *experts) sum(hidden *operand, out compute.Tensor, next *begun) {
	r, w := f.r, &f.w
	m := mem(w.Down)
	part := &m.parts[0]
	x, scales := hidden.of(w.Down.Type)
	total, form, norm := floats(out), floats(out), part.memory // stand in
	elements, squares := out.Rows*out.Cols, uint32(0)
	if next != nil {
		total, form, norm, squares = floats(next.add.Dst), next.view, elementsOr(next.norm.W, norm), next.squares(elements)
	}
	own := expertsOwn
	if next != nil {
		own = blockOwn
	}
	local := vecLanes * own
	for limits := &r.d.gpu.Limits; local > int(limits.MaxComputeWorkGroupInvocations) || expertsBytes(local, f.c.Used) > int(limits.MaxComputeSharedMemorySize); {
		local /= 2
	}
	if r.d.turns {
		local = vecLocal
	}
	r.dispatch(call{
		shader: r.dotting("expertsums"), local: local,
		spec: []uint32{uint32(w.Down.Type), uint32(min(expertsEach, f.c.Used)), uint32(f.c.Used), truth(next != nil), uint32(own)},
		bind: []binding{
			read(part.memory), read(x), read(floats(choices(f.c))), write(floats(out)), update(total), read(elementsOr(w.DownBias, part.memory)), read(f.table),
			write(form), read(norm),
		},
		push: append(m.push(part), uint32(out.Cols), scales, packedScales(elements), truth(w.DownBias != nil),
			uint32(f.first), uint32(f.held), f.tabled(), truth(!w.Before), squares),
		groups: [3]int{ceil(out.Cols, own), f.tokens, 1},
	})
}
