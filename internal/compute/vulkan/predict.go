package vulkan

import (
	"fmt"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/compute/vulkan/driver"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// set is the memory of a compute.Set: a bit for every neuron of every token. [rows, words]
type set struct {
	driver.View
	words int
}

// Set allocates an empty set of n neurons for each of rows tokens.
func (d *Device) Set(rows, n int) (compute.Set, error) {
	s := &set{words: ceil(n, 32)}
	var err error
	if s.View, err = d.zeros(4 * int64(rows) * int64(s.words)); err != nil {
		return compute.Set{}, fmt.Errorf("sets of %d neurons for %d tokens: %w", n, rows, err)
	}
	return compute.Set{Rows: rows, N: n, Mem: s}, nil
}

// bits returns the memory of s's rows.
func bits(s compute.Set) driver.View {
	m := s.Mem.(*set)
	return m.Slice(0, 4*int64(s.Rows)*int64(m.words))
}

// predict chooses the neurons that are always on and those with a logit that reaches the threshold.
func (r *recorder) predict(s compute.Set, x, hidden, logits compute.Tensor, fc1, fc2 *compute.Matrix) {
	always := s.N - fc2.Rows
	if fc2.Cols != hidden.Cols || logits.Cols != fc2.Rows || logits.Rows != x.Rows || s.Rows != x.Rows || always < 0 {
		panic("vulkan: Predict of shapes that do not fit: " + fc2.Name)
	}
	if x.Rows == 0 {
		return
	}
	if n := r.single(x); n == x.Rows && n <= compute.FewTokens && len(mem(fc1).parts) == 1 && len(mem(fc2).parts) == 1 {
		r.about(fc1.Name)
		in, o := operand{r: r, x: x, name: "activations"}, operand{r: r, x: hidden, relu: true, name: "hidden"}
		first := election{x: &in, n: n, w: fc1, neurons: fc1.Rows, values: hidden}
		if n <= packedTokens {
			first.packed = o.written(fc2.Type)
		}
		r.elect(&first)
		second := &election{test: testLogit, x: &o, n: n, w: fc2, neurons: s.N, values: logits, bits: bits(s)}
		o.of(fc2.Type)
		r.flush()
		r.elected = second
		return
	}
	r.matMul(x, compute.Products{{Out: hidden, W: fc1}})
	o := operand{r: r, x: hidden, relu: true, name: "hidden"}
	p := compute.Product{Out: logits, W: fc2}
	for _, s := range r.spans(&p) {
		r.multiply(s.by, &o, s.first, s.n, s.first, p)
	}
	r.choose(&election{test: testLogit, n: s.Rows, neurons: s.N, values: logits, bits: bits(s)}, logits, compute.Tensor{})
}

// written returns memory for the operand's form in eight bits, which a shader that computes the operand is to write, if
// products of type t take that.
func (o *operand) written(t quant.Type) driver.View {
	if formOf(t) != eightBit {
		return driver.View{}
	}
	o.made[eightBit] = o.r.scratch(fmt.Sprintf("%s %d", o.name, eightBit), packedBytes(o.x.Rows*o.x.Cols))
	return o.made[eightBit]
}

// The tests of test.glsl.
const (
	testNone uint32 = iota
	testLogit
	testOpen
)

// election is a product of n of x's rows, from first on, that chooses neurons: those that pass the test, and the first
// ones, for which w has no rows. Results begin at their first row.
type election struct {
	test     uint32
	x        *operand
	first, n int
	w        *compute.Matrix
	and      added
	neurons  int
	values   compute.Tensor     // what the test makes of the products
	bits     driver.View        // bits of the chosen neurons, except with testNone
	packed   driver.View        // with testNone: the values above zero in eight bits, or nothing
	act      compute.Activation // for testOpen and marks
	marks    bool               // values are a of neurons, as neurons.glsl has them
	rows     *memberRows        // that are computed with it, or nil
}

// memberRows are the rows of gate and up of an election's members, of the first neurons that have some.
type memberRows struct {
	x        *operand
	gate, up *compute.Matrix // gate: only for testLogit
	gates    added
	ups      added
	first    int // row of the step that belongs to the first token
}

// memberGroup is the shape of the workgroups of members.comp and memberrows.comp: invocations, rows that the lanes sum
// at a time, and units of each that they load at a time. A workgroup writes whole bytes of bits, at most 32 bits.
type memberGroup struct{ local, rows, ahead int }

// shape returns e's. All give the same bytes.
func (e *election) shape() memberGroup {
	switch {
	case e.packed.Slab != nil:
		return memberGroup{256, 4, 2} // 32 rows, which share a scale
	case e.test == testNone:
		return memberGroup{64, 1, 4}
	case e.rows != nil && e.test == testLogit: // members that are neighbours wait for one another
		return memberGroup{128, 2, 1}
	}
	return memberGroup{64, 4, 1}
}

// packedTokens is the most tokens with products that elect packs. The workgroup has 32 products of each token in shared
// memory.
const packedTokens = 2

// elect holds e.
func (r *recorder) elect(e *election) {
	x, scales := e.x.of(e.w.Type)
	m := mem(e.w)
	p := &m.parts[0]
	adds, sums := e.and.binding(p.memory)
	tokens := 1
	for tokens < e.n {
		tokens *= 2
	}
	params := r.paramsOf(e.x.x.Outputs)
	if e.rows != nil {
		params = r.paramsOf(e.rows.x.x.Outputs)
	}
	c := call{
		shader: "members",
		bind:   []binding{read(p.memory), read(x), write(floats(e.values)), read(sums), write(e.bits), read(params), read(p.memory)}, // the last stands in
		push: append(append(m.push(p), uint32(e.neurons), uint32(e.neurons-e.w.Rows), uint32(e.n), uint32(e.first), 0, scales, adds),
			append(nonlinearity(e.act), packedScales(e.x.x.Rows*e.neurons))...),
	}
	if e.packed.Slab != nil {
		c.bind[6] = write(e.packed)
	}
	if e.test == testNone {
		c.bind[4] = read(p.memory) // stands in
	}
	if y := e.rows; y != nil {
		c.shader = "memberrows"
		up := &mem(y.up).parts[0]
		gate := up
		if y.gate != nil {
			gate = &mem(y.gate).parts[0]
		}
		x, scales := y.x.of(y.up.Type)
		gateAdds, gates := y.gates.binding(up.memory)
		upAdds, ups := y.ups.binding(up.memory)
		c.bind = append(c.bind, read(gate.memory), read(up.memory), read(x), read(gates), read(ups))
		c.push = append(append(c.push, mem(y.up).push(up)...), uint32(y.up.Rows), uint32(y.first), scales, gateAdds, upAdds)
	}
	shape := e.shape()
	c.shader, c.local = r.dotting(c.shader), shape.local
	c.spec = []uint32{uint32(e.w.Type), uint32(shape.rows), uint32(tokens), truth(e.x.relu && !e.w.Type.Quantised()), e.test, uint32(shape.ahead), truth(e.packed.Slab != nil)}
	c.groups = grid(ceil(32*ceil(e.neurons, 32), shape.local/vecLanes*shape.rows))
	r.dispatch(c)
}

// The marks of choose.comp.
const (
	marksNothing uint32 = iota
	marksUngated
	marksGated
)

// choose is elect by products that were computed before. They are of the last neurons, if not of all. With marks they
// are gates, or ups where ups has no memory.
func (r *recorder) choose(e *election, products, ups compute.Tensor) {
	to, chosen, second, mark := write(floats(e.values)), write(e.bits), floats(products), marksNothing
	if e.test == testLogit {
		to = read(floats(e.values)) // stands in
	}
	if e.test == testNone {
		chosen = read(e.bits) // likewise
	}
	if e.marks {
		mark = marksUngated
	}
	if ups.Mem != nil {
		second, mark = floats(ups), marksGated
	}
	r.dispatch(call{
		shader: "choose", local: elementwise, spec: []uint32{e.test, mark},
		bind:   []binding{read(floats(products)), chosen, to, read(r.params()), read(second)},
		push:   append([]uint32{uint32(e.neurons), uint32(e.neurons - products.Cols)}, nonlinearity(e.act)...),
		groups: [3]int{ceil(e.neurons, elementwise), e.n, 1},
	})
}
