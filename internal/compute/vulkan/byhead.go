package vulkan

import (
	"fmt"

	"github.com/powerinfer-go/powerinfer/internal/compute"
)

// matMulByHead computes the product of every head, always in the order of single tokens' sums: prompts have no other
// arithmetic here, and a row's bytes depend on nothing but its own numbers.
func (r *recorder) matMulByHead(h *compute.MatMulByHead) {
	if !h.Fits() {
		panic("vulkan: MatMulByHead of shapes that do not fit: " + h.W.Name)
	}
	n := h.X.Rows
	if n == 0 {
		return
	}
	r.about(h.W.Name)
	m := mem(h.W)
	if len(m.parts) != 1 {
		r.fail(fmt.Errorf("tensor %q: its heads take more than the %d bytes that the GPU can bind at once", h.W.Name, r.d.maxBinding))
		return
	}
	heads, rows := h.Heads()
	o := operand{r: r, x: h.X.Split(h.W.Cols), name: "activations by head"}
	x, scales := o.of(h.W.Type)
	part := &m.parts[0]
	c := call{
		bind: []binding{read(part.memory), read(x), update(floats(h.Out)), read(part.memory), read(part.memory)},
		push: append(m.push(part), uint32(rows), 0, uint32(h.Out.Cols), uint32(n), 0, 0, scales, 0, uint32(heads), uint32(h.To.First), uint32(h.To.Step)),
	}
	c.shader = r.dotting("matvec_heads")
	vectorsFor(h.W.Type, rows, n).with(&c, h.W.Type, 0, rows, n)
	c.groups[2] = heads
	r.dispatch(c)
}
