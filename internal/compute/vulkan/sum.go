package vulkan

import (
	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/compute/vulkan/driver"
)

// product is the last dispatch of a product, which is held back: if an Add of its output follows, the shader adds to
// the sum itself, which saves a dispatch and a wait.
type product struct {
	call
	weight string // that it is about
	out    driver.View
	spec   int // the constant that says whether the shader adds; it adds to the last binding
}

// dispatchProduct records a product's dispatch: if it writes all of out, now or together with a following Add, and if
// it writes a part, at once. The constant spec is still zero, and the last binding is a placeholder.
func (r *recorder) dispatchProduct(c call, spec int, out compute.Tensor, whole bool) {
	if !whole {
		r.dispatch(c)
		return
	}
	r.flush()
	r.held = &product{call: c, weight: r.weight, out: floats(out), spec: spec}
	r.forms.forget(floats(out))
}

// flush records the held product. Everything that records commands calls it first.
func (r *recorder) flush() {
	r.settle()
	if p := r.held; p != nil {
		now := r.weight
		r.held, r.weight = nil, p.weight
		r.dispatch(p.call)
		r.weight = now
	}
	if e := r.elected; e != nil {
		r.elected = nil
		r.elect(e)
	}
}

// joins reports whether the held product can add to dst in place of an Add of x: its output is x, and it does not read
// dst.
func (r *recorder) joins(dst, x compute.Tensor) bool {
	p := r.held
	if p == nil || p.out != floats(x) {
		return false
	}
	for _, b := range p.bind[:len(p.bind)-1] {
		if overlap(b.View, floats(dst)) {
			return false
		}
	}
	return true
}

// join makes the held product add to dst, if it can.
func (r *recorder) join(dst, x compute.Tensor) bool {
	if !r.joins(dst, x) {
		return false
	}
	p := r.held
	p.call.spec[p.spec], p.call.bind[len(p.bind)-1] = 1, update(floats(dst))
	r.flush()
	return true
}
