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
	r.matMul(x, compute.Products{{Out: hidden, W: fc1}})
	o := operand{r: r, x: hidden, relu: true, name: "hidden"}
	p := compute.Product{Out: logits, W: fc2}
	for _, s := range r.spans(&p) {
		r.multiply(s.by, &o, s.first, s.n, s.first, p)
	}
	r.dispatch(call{
		shader: "choose", local: elementwise,
		bind:   []binding{read(floats(logits)), write(bits(s)), read(r.params())},
		push:   []uint32{uint32(s.N), uint32(always), uint32(r.seg.params.rows), uint32(r.seg.params.out)},
		groups: [3]int{ceil(s.N, elementwise), s.Rows, 1},
	})
}
