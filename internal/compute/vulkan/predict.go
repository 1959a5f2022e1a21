package vulkan

import (
	"fmt"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/compute/vulkan/driver"
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

// predict chooses the neurons that are always on and those whose logit reaches the threshold.
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
		in := operand{r: r, x: x, name: "activations"}
		r.members(testNone, &in, 0, n, 0, fc1.Rows, fc1, added{}, hidden, floats(hidden), 0, 0)
		o := operand{r: r, x: hidden, relu: true, name: "hidden"}
		r.members(testLogit, &o, 0, n, always, s.N, fc2, added{}, logits, bits(s), 0, 0)
		return
	}
	r.matMul(x, compute.Products{{Out: hidden, W: fc1}})
	o := operand{r: r, x: hidden, relu: true, name: "hidden"}
	p := compute.Product{Out: logits, W: fc2}
	for _, s := range r.spans(&p) {
		r.multiply(s.by, &o, s.first, s.n, s.first, p)
	}
	r.choose(testLogit, s.Rows, s.N, fc2.Rows, logits, logits, bits(s), 0, 0)
}

// The tests of test.glsl.
const (
	testNone uint32 = iota
	testLogit
	testOpen
)

// members computes w's products with n of the operand's rows, those from first on, and which neurons pass the test: the
// first always do, and have no row. Values are the products, or what the test makes of them. All results begin at their
// first row.
func (r *recorder) members(test uint32, o *operand, first, n, always, neurons int, w *compute.Matrix, and added, values compute.Tensor, bits driver.View, kind, threshold uint32) {
	x, scales := o.of(w.Type)
	m := mem(w)
	p := &m.parts[0]
	adds, sums := and.binding(p.memory)
	tokens := 1
	for tokens < n {
		tokens *= 2
	}
	t := r.d.tuned
	local, rows, ahead := t.MembersLocal, t.MembersRows, t.MembersAhead
	if test == testNone {
		local, rows, ahead = t.FirstLocal, t.FirstRows, t.FirstAhead
	}
	own := local / vecLanes * rows
	bitBinding := write(bits)
	r.dispatch(call{
		shader: r.dotting("members"), local: local,
		spec:   []uint32{uint32(w.Type), uint32(rows), uint32(tokens), truth(o.relu && !w.Type.Quantised()), test, uint32(ahead)},
		bind:   []binding{read(p.memory), read(x), write(floats(values)), read(sums), bitBinding, read(r.params())},
		push:   append(m.push(p), uint32(neurons), uint32(always), uint32(n), uint32(first), 0, scales, adds, kind, threshold),
		groups: grid(ceil(32*ceil(neurons, 32), own)),
	})
}

// choose makes a set's bits of n tokens' products, which have so many columns, of the last neurons, as members does.
func (r *recorder) choose(test uint32, n, neurons, columns int, products, values compute.Tensor, bits driver.View, kind, threshold uint32) {
	to := write(floats(values))
	if test == testLogit {
		to = read(floats(values)) // stands in
	}
	r.dispatch(call{
		shader: "choose", local: elementwise, spec: []uint32{test},
		bind:   []binding{read(floats(products)), write(bits), to, read(r.params())},
		push:   []uint32{uint32(neurons), uint32(neurons - columns), kind, threshold},
		groups: [3]int{ceil(neurons, elementwise), n, 1},
	})
}
