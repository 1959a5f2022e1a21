package vulkan

import (
	"math"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// gatedFusion is the product of a gate and of an up matrix, or of an up matrix alone, whose results are activated at
// once: MatMul, Activate.
type gatedFusion struct{}

func (gatedFusion) takes(r *recorder, ops []compute.Op) bool {
	m, ok := ops[0].(*compute.MatMul)
	if !ok || len(ops) > 2 {
		return false
	}
	gate, up := &m.Products[0], &m.Products[1]
	if len(ops) == 2 {
		a, ok := ops[1].(*compute.Activate)
		return ok && a.Dst == gate.Out && a.Gate == gate.Out && (up.W == nil && a.Up.Mem == nil || up.W != nil && a.Up == up.Out)
	}
	if n := m.X.Rows; n < 1 || n > compute.FewTokens || m.Products[2].W != nil || !r.gates(m.X, gate) {
		return false
	}
	return up.W == nil || gate.Out != up.Out && gate.W.Type == up.W.Type && gate.W.Rows == up.W.Rows && r.gates(m.X, up)
}

// gates reports whether gated.comp computes p for all rows of x: single tokens, with a matrix of one part.
func (r *recorder) gates(x compute.Tensor, p *compute.Product) bool {
	s, w := r.spans(p), mem(p.W)
	return len(w.parts) == 1 && w.layout != groups && len(s) == 1 && s[0].by == Ordered && p.W.Cols == x.Cols && p.Out.Cols == p.W.Rows && p.Out.Rows == x.Rows
}

func (gatedFusion) whole(_ *recorder, ops []compute.Op) bool { return len(ops) == 2 }

// gatedOwn is OWN of gated.glsl: rows of a workgroup.
const gatedOwn = quant.QK

// gatedShape returns the shape of gated.comp for n tokens: the invocations of a workgroup, and what a lane sums and
// loads at a time. Shared memory holds a float for each of its sums.
func gatedShape(n int) (local, rows, tokens, ahead int) {
	for tokens = 1; tokens < n; {
		tokens *= 2
	}
	switch tokens {
	case 1:
		return 256, 4, 1, 1
	case 2:
		return 256, 2, 2, 1
	case 4:
		return 256, 1, 4, 1
	}
	return 128, 1, tokens, 1
}

func (gatedFusion) record(r *recorder, ops []compute.Op) {
	m, a := ops[0].(*compute.MatMul), ops[1].(*compute.Activate)
	gate, up := &m.Products[0], &m.Products[1]
	r.about(gate.W.Name)
	o := operand{r: r, x: m.X, name: "activations"}
	x, scales := o.of(gate.W.Type)
	form, pack := r.packing(a.Dst)
	w := mem(gate.W)
	part := &w.parts[0]
	upMemory, upOut := part.memory, floats(a.Dst) // stand in
	if up.W != nil {
		upMemory, upOut = mem(up.W).parts[0].memory, floats(a.Up)
	}
	local, rows, tokens, ahead := gatedShape(m.X.Rows)
	r.dispatch(call{
		shader: r.dotting("gated"), local: local,
		spec: []uint32{uint32(gate.W.Type), uint32(rows), uint32(tokens), uint32(ahead), uint32(a.Act.Kind), truth(pack), truth(up.W != nil)},
		bind: []binding{
			read(part.memory), read(x), read(upMemory), write(floats(a.Dst)), write(upOut),
			read(elementsOr(gate.Bias, part.memory)), read(elementsOr(up.Bias, part.memory)), write(form),
		},
		push: append(w.push(part), uint32(part.rows), uint32(m.X.Rows), scales, packedScales(a.Dst.Rows*a.Dst.Cols), truth(gate.Bias != nil), truth(up.Bias != nil),
			math.Float32bits(a.Act.Threshold), math.Float32bits(a.Act.Slope), math.Float32bits(a.Act.Limit)),
		groups: grid(ceil(part.rows, gatedOwn)),
	})
	r.packed(a.Dst, form, pack)
}
