package vulkan

import (
	"math"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/compute/vulkan/driver"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// blockOwn is OWN of block.glsl: rows of a workgroup, one block of packed weights.
const blockOwn = quant.QK

// block is a dispatch of block.comp: one or two products of a few single tokens, and operations on the results.
type block struct {
	x      compute.Tensor
	first  *compute.Product
	second *compute.Product  // a product of the same shape and type, or nil
	act    *compute.Activate // the activation of the results, or nil
	next   *begun            // an RMSNorm of a residual that the result is added to is begun, or nil
	from   *begun            // x is an RMSNorm that was begun, or nil
	writes bool              // x is written, too
}

// begun is an RMSNorm in two halves. A product's dispatch adds up squares of its results; the products that read the
// normalised row divide by the root of their mean, which is known only once the row is complete.
type begun struct {
	add  *compute.Add
	norm *compute.RMSNorm
	view driver.View // Dst·root in eight bits, and the sum of X's squares for each block
}

// squares returns the place in view, in words, at which the sums of squares of a row of that many elements begin.
func (b *begun) squares(elements int) uint32 { return uint32(packedBytes(elements) / 4) }

// blocks reports whether block.comp computes p for all rows of x: single tokens, with a matrix of one part.
func (r *recorder) blocks(x compute.Tensor, p *compute.Product) bool {
	if n := x.Rows; n < 1 || n > blockTokens {
		return false
	}
	s, w := r.spans(p), mem(p.W)
	return w.whole() && w.layout != groups && len(s) == 1 && s[0].by == Ordered && p.W.Cols == x.Cols && p.Out.Cols == p.W.Rows && p.Out.Rows == x.Rows
}

// blockTokens is the largest number of tokens that block.comp computes. With more, matvec.comp's small workgroups gain
// more than block.comp saves in waits.
const blockTokens = 4

// blockShape returns the shape of block.comp for rows of one matrix or two, and n tokens: the invocations of a
// workgroup, the values that a lane sums at a time, and the tokens of a workgroup. Memory is read fastest by some
// thousands of groups of lanes: with fewer, not enough loads are in flight; with more, groups take turns. A dispatch
// that begins a norm has few workgroups, one for each block, so they are large. The figures are the fastest ones on an
// H200.
func (d *Device) blockShape(rows, n int, next bool) (local, each, tokens int) {
	const groups = 4 << 10
	for tokens = 1; tokens < n; {
		tokens *= 2
	}
	if d.turns { // it waits for all of a workgroup at every step
		return vecLocal, max(4/tokens, 1), tokens
	}
	each, local = 1, 512
	switch {
	case tokens == 1:
		for each < 4 && rows >= 2*groups*each {
			each *= 2
		}
		if next || each > 2 {
			local = vecLanes * blockOwn / each
		}
	case next && tokens == 2:
		local = vecLanes * blockOwn
	case next:
		each = 2
	default:
		each, local = 2, 256
	}
	limits := &d.gpu.Limits
	for local > int(limits.MaxComputeWorkGroupInvocations) || blockBytes(local, tokens) > int(limits.MaxComputeSharedMemorySize) {
		local /= 2
	}
	return local, each, tokens
}

// blockBytes bounds the shared memory of a workgroup of block.comp.
func blockBytes(local, tokens int) int {
	return 8<<10 + 8*local + 4*tokens*(2*blockOwn+vecLanes+blockOwn/packPart+1) + 512
}

// block records b.
func (r *recorder) block(b *block) {
	r.about(b.first.W.Name)
	n, out := b.x.Rows, b.first.Out
	results := out.Rows * out.Cols
	w := mem(b.first.W)
	part := &w.parts[0]
	var x driver.View
	var scales, squares, biased uint32
	var act compute.Activation
	weights, norm, residual, eps := part.memory, floats(out), part.memory, float32(0)
	form := norm
	if b.from == nil {
		o := operand{r: r, x: b.x, name: "activations"}
		x, scales = o.of(b.first.W.Type)
	} else {
		of := b.from
		x, scales, squares = of.view, packedScales(b.x.Rows*b.x.Cols), of.squares(b.x.Rows*b.x.Cols)
		weights, residual, eps = elements(of.norm.W), floats(of.norm.X), of.norm.Eps
		if b.writes {
			norm = floats(b.x)
			form, _ = r.packing(b.x)
		}
	}
	packedAs, pack := floats(out), false
	if b.act != nil {
		packedAs, pack = r.packing(out)
		act = b.act.Act
	}
	upWeights, upBias, secondOut := part.memory, part.memory, floats(out) // stand in
	if s := b.second; s != nil {
		upWeights, upBias, secondOut = mem(s.W).parts[0].memory, elementsOr(s.Bias, part.memory), floats(s.Out)
		biased = truth(s.Bias != nil)
	}
	if to := b.next; to != nil {
		packedAs, pack, squares = to.view, true, to.squares(results)
		weights, secondOut = elements(to.norm.W), floats(to.add.Dst)
	}
	rows := part.rows
	if b.second != nil {
		rows *= 2
	}
	local, each, tokens := r.d.blockShape(rows, n, b.next != nil)
	r.dispatch(call{
		shader: r.dotting("block"), local: local,
		spec: []uint32{
			uint32(b.first.W.Type), uint32(each), uint32(tokens), uint32(act.Kind), truth(pack),
			truth(b.second != nil), truth(b.act != nil), truth(b.next != nil), truth(b.from != nil),
		},
		bind: []binding{
			read(part.memory), read(x), read(upWeights), write(floats(out)), update(secondOut), read(elementsOr(b.first.Bias, part.memory)), read(upBias), write(packedAs),
			read(weights), write(form), write(norm), read(residual),
		},
		push: append(w.push(part), uint32(part.rows), uint32(n), scales, packedScales(results), truth(b.first.Bias != nil), biased,
			math.Float32bits(act.Threshold), math.Float32bits(act.Slope), math.Float32bits(act.Limit), squares, math.Float32bits(eps), truth(b.writes), packedScales(b.x.Rows*b.x.Cols)),
		groups: grid(ceil(part.rows, blockOwn)),
	})
	r.packed(out, packedAs, b.act != nil && pack)
}

// activeFusion fuses MatMul and Activate: the product with a gate and an up matrix, or with only an up matrix, and the
// activation of the results.
type activeFusion struct{}

func (activeFusion) takes(r *recorder, ops []compute.Op) bool {
	m, ok := ops[0].(*compute.MatMul)
	switch {
	case !ok || len(ops) > 2:
		return false
	case len(ops) == 2:
		return activates(m, ops[1])
	}
	gate, up := &m.Products[0], &m.Products[1]
	return m.Products[2].W == nil && r.blocks(m.X, gate) && (up.W == nil || paired(gate, up) && r.blocks(m.X, up))
}

// paired reports whether one dispatch of block.comp computes both products.
func paired(a, b *compute.Product) bool {
	return a.W.Type == b.W.Type && a.W.Rows == b.W.Rows && a.Out.Mem != b.Out.Mem
}

// activates reports whether op activates the results of m.
func activates(m *compute.MatMul, op compute.Op) bool {
	gate, up := &m.Products[0], &m.Products[1]
	a, ok := op.(*compute.Activate)
	return ok && a.Act.Kind < compute.XIELU && a.Dst == gate.Out && a.Gate == gate.Out && (up.W == nil && a.Up.Mem == nil || up.W != nil && a.Up == up.Out)
}

// secondOf returns m's second product, if there is one.
func secondOf(m *compute.MatMul) *compute.Product {
	if m.Products[1].W == nil {
		return nil
	}
	return &m.Products[1]
}

func (activeFusion) whole(_ *recorder, ops []compute.Op) bool { return len(ops) == 2 }

func (activeFusion) record(r *recorder, ops []compute.Op) {
	m := ops[0].(*compute.MatMul)
	r.block(&block{x: m.X, first: &m.Products[0], second: secondOf(m), act: ops[1].(*compute.Activate)})
}

// nextFusion fuses a product, or a layer's experts, its addition to the residual, the RMSNorm of the sum, and the
// products of the norm, with their activation if one follows: MatMul or Experts, Add, RMSNorm, MatMul and perhaps
// Activate. The norm has no separate dispatch.
type nextFusion struct{}

// added returns what op computes and what from, if its last dispatch can add that to a residual and begin a norm.
func (nextFusion) added(r *recorder, op compute.Op) (out, x compute.Tensor, ok bool) {
	switch o := op.(type) {
	case *compute.MatMul:
		p := &o.Products[0]
		return p.Out, o.X, o.Products[1].W == nil && p.W.Rows%blockOwn == 0 && r.d.quantised && r.blocks(o.X, p)
	case *compute.Experts:
		return o.Out, o.X, r.expertsNext(o)
	}
	return out, x, false
}

func (f nextFusion) takes(r *recorder, ops []compute.Op) bool {
	out, x, ok := f.added(r, ops[0])
	if !ok || len(ops) > 5 {
		return false
	}
	switch len(ops) {
	case 1:
		return true
	case 2:
		a, ok := ops[1].(*compute.Add)
		return ok && a.X == out && a.Dst.Mem != out.Mem && a.Dst.Mem != x.Mem && a.Dst.Rows == out.Rows && a.Dst.Cols == out.Cols
	case 3:
		n, ok := ops[2].(*compute.RMSNorm)
		if local, _ := r.d.chainLocal(out.Cols); local == 0 { // which has the same order, for more tokens
			return false
		}
		return ok && n.X == ops[1].(*compute.Add).Dst && n.Dst.Mem != n.X.Mem && n.Dst.Rows == n.X.Rows && n.Dst.Cols == n.X.Cols && n.W.Len == n.X.Cols
	}
	n := ops[2].(*compute.RMSNorm)
	of, ok := ops[3].(*compute.MatMul)
	if len(ops) == 5 {
		return (of.Products[1].W == nil || paired(&of.Products[0], &of.Products[1])) && of.Products[2].W == nil && activates(of, ops[4])
	}
	if !ok || of.X != n.Dst {
		return false
	}
	for i := range of.Products {
		p := &of.Products[i]
		if p.W == nil {
			break
		}
		if !p.W.Type.Quantised() || !r.blocks(of.X, p) || p.Out.Mem == n.X.Mem || p.Out.Mem == n.Dst.Mem {
			return false
		}
	}
	return true
}

func (nextFusion) whole(_ *recorder, ops []compute.Op) bool { return len(ops) >= 4 }

func (nextFusion) record(r *recorder, ops []compute.Op) {
	of := ops[3].(*compute.MatMul)
	next := &begun{add: ops[1].(*compute.Add), norm: ops[2].(*compute.RMSNorm)}
	n := of.X.Rows * of.X.Cols
	next.view = r.scratch("norms that were begun", packedBytes(n)+4*int64(n/quant.QK))
	if m, ok := ops[0].(*compute.MatMul); ok {
		r.block(&block{x: m.X, first: &m.Products[0], next: next})
	} else {
		r.chosenExperts(ops[0].(*compute.Experts), next)
	}
	if len(ops) == 5 {
		r.block(&block{x: of.X, first: &of.Products[0], second: secondOf(of), act: ops[4].(*compute.Activate), from: next, writes: true})
	} else {
		for i := range of.Products {
			if p := &of.Products[i]; p.W != nil {
				r.block(&block{x: of.X, first: p, from: next, writes: i == 0})
			}
		}
	}
	form, pack := r.packing(of.X)
	r.packed(of.X, form, pack)
}
