package vulkan

import (
	"math"

	"github.com/powerinfer-go/powerinfer/internal/compute"
)

// chainFusion fuses a sequence of operations on the same rows, each with the result of the previous one: an addition to
// the residual, norms before and after it, and sums and products with vectors or with the activation of gates.
type chainFusion struct{}

// Shapes of chain.comp. Its constants must be equal.
const (
	chainMost    = 4  // operations
	chainQuads   = 8  // groups of four elements of an invocation
	chainLeast   = 64 // invocations of a workgroup
	chainLargest = 1024
	chainTurns   = 256 // turns of a compute unit
	chainBytes   = 20  // shared memory of an invocation, in bytes
)

// The kinds of operations in chain.comp.
const (
	chainAdd = iota + 1
	chainRMS
	chainLayer
	chainScale
	chainMultiply
	chainGate
	chainShift
)

// link is an operation of a chain.
type link struct {
	kind    uint32 // 0: it is none of a chain's
	dst, x  compute.Tensor
	other   compute.Tensor // the other operand of a sum, or gates
	w, bias *compute.Vector
	number  float32 // of a chainGate the bits of its compute.Nonlinearity, of a chainMultiply those of the rows that w has
}

// linkOf returns op as a link that follows the one with result cur. Its Mem is nil if op cannot follow.
func linkOf(op compute.Op, cur compute.Tensor) (l link) {
	switch o := op.(type) {
	case *compute.Add:
		l = link{kind: chainAdd, dst: o.Dst, x: o.X, other: o.Dst}
		if o.Dst == cur {
			l.x, l.other = o.Dst, o.X
		}
	case *compute.RMSNorm:
		l = link{kind: chainRMS, dst: o.Dst, x: o.X, w: o.W, number: o.Eps}
	case *compute.LayerNorm:
		l = link{kind: chainLayer, dst: o.Dst, x: o.X, w: o.W, bias: o.B, number: o.Eps}
	case *compute.Scale:
		l = link{kind: chainScale, dst: o.X, x: o.X, number: o.Factor}
	case *compute.Multiply:
		l = link{kind: chainMultiply, dst: o.Dst, x: o.X, w: o.W}
		if cur.Mem != nil && cur.Mem == o.X.Mem && o.X == o.Dst && o.X.Cols%cur.Cols == 0 { // cur is groups of the rows
			l.dst, l.x = o.X.Split(cur.Cols), o.X.Split(cur.Cols)
		}
		l.number = math.Float32frombits(uint32(o.W.Len / max(1, l.x.Cols)))
	case *compute.Shift:
		l = link{kind: chainShift, dst: o.X, x: o.X, w: o.B}
	case *compute.Activate:
		if cur.Mem == nil || o.Up.Mem != cur.Mem || o.Up.Rows*o.Up.Cols != cur.Rows*cur.Cols || o.Dst != o.Gate || o.Act.Kind >= compute.XIELU || o.Act != (compute.Activation{Kind: o.Act.Kind}) {
			return link{}
		}
		gates := o.Gate.Split(cur.Cols)
		l = link{kind: chainGate, dst: gates, x: cur, other: gates, number: math.Float32frombits(uint32(o.Act.Kind))}
	default:
		return link{}
	}
	if l.dst.Rows != l.x.Rows || l.dst.Cols != l.x.Cols || l.w != nil && l.w.Len != l.x.Cols*l.weightRows() || l.bias != nil && l.bias.Len != l.x.Cols ||
		l.ofRows() && (l.other.Rows != l.x.Rows || l.other.Cols != l.x.Cols || l.other.Mem == l.x.Mem) || cur.Mem != nil && l.x != cur {
		return link{}
	}
	return l
}

// links returns ops as a chain; ok is false if they are none.
func links(ops []compute.Op) (all [chainMost]link, ok bool) {
	if len(ops) > chainMost {
		return all, false
	}
	cur, biased := compute.Tensor{}, false
	for i, op := range ops {
		l := linkOf(op, cur)
		if l.kind == 0 {
			return all, false
		}
		if l.bias != nil && biased { // the shader takes one
			return all, false
		}
		biased = biased || l.bias != nil
		for _, before := range all[:i] {
			if l.ofRows() && overlap(floats(before.dst), floats(l.other)) {
				return all, false
			}
		}
		all[i], cur = l, l.dst
	}
	return all, true
}

// ofRows reports whether the other operand is rows.
func (l *link) ofRows() bool { return l.kind == chainAdd || l.kind == chainGate }

// weightRows returns how many rows w has: the rows of x take them in turn.
func (l *link) weightRows() int {
	if l.kind == chainMultiply {
		return int(math.Float32bits(l.number))
	}
	return 1
}

func (l *link) norm() bool { return l.kind == chainRMS || l.kind == chainLayer }

// chainLocal returns the invocations of a workgroup of chain.comp for rows of this many columns, and the groups of four
// elements of an invocation. It returns 0 if the shader does not compute such rows. Both depend only on the columns, so
// that a row's sums do not depend on other rows.
func (d *Device) chainLocal(cols int) (local, quads int) {
	most := min(int(d.gpu.Limits.MaxComputeWorkGroupInvocations), int(d.gpu.Limits.MaxComputeSharedMemorySize)/chainBytes, chainLargest)
	if d.turns {
		most = chainTurns
	}
	for local = chainLeast; 2*local <= most && local < cols/4; {
		local *= 2
	}
	if quads = ceil(cols/4, local); cols%4 != 0 || quads > chainQuads {
		return 0, 0
	}
	return local, quads
}

func (chainFusion) takes(r *recorder, ops []compute.Op) bool {
	all, ok := links(ops)
	if !ok || all[0].x.Rows < 1 {
		return false
	}
	if a, sum := ops[0].(*compute.Add); sum && len(ops) == 1 && r.joins(a.Dst, a.X) {
		return false
	}
	local, _ := r.d.chainLocal(all[0].x.Cols)
	return local > 0
}

// A single norm is a chain, too. Elementwise operations have a shader that spreads over the whole device.
func (chainFusion) whole(_ *recorder, ops []compute.Op) bool {
	all, _ := links(ops)
	return len(ops) > 1 || all[0].norm()
}

func (chainFusion) record(r *recorder, ops []compute.Op) {
	all, _ := links(ops)
	x, last := all[0].x, &all[len(ops)-1]
	for i := range ops {
		if w := all[i].w; w != nil {
			r.about(w.Name)
			break
		}
	}
	local, quads := r.d.chainLocal(x.Cols)
	form, pack := floats(last.dst), false // stands in
	// Every norm is packed here, one in place too: packing an RMSNorm's result later rounds another way.
	if last.norm() || len(ops) > 1 && (last.ofRows() || last.w != nil) {
		form, pack = r.packing(last.dst)
	}
	c := call{
		shader: "chain", local: local, bind: []binding{read(floats(x))},
		push:   []uint32{uint32(x.Rows), uint32(x.Cols / 4), packedScales(x.Rows * x.Cols), 0},
		groups: r.rowGroups(x),
	}
	steps, biases := uint32(0), floats(x) // stands in
	for i := range all {
		l := &all[i]
		if l.kind == 0 { // its bindings stand in
			l.dst = last.dst
		}
		steps |= l.kind << (4 * i)
		operand := elementsOr(l.w, floats(x))
		if l.ofRows() {
			operand = floats(l.other)
		}
		if l.bias != nil {
			biases = elements(l.bias)
		}
		c.bind = append(c.bind, write(floats(l.dst)), read(operand))
		c.push = append(c.push, math.Float32bits(l.number))
		c.push[3] |= truth(l.bias != nil) << i
	}
	c.spec = []uint32{uint32(quads), steps, truth(pack)}
	c.bind = append(c.bind, read(biases), write(form))
	r.dispatch(c)
	r.packed(last.dst, form, pack)
}
