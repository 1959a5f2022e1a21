package vulkan

import (
	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/compute/vulkan/driver"
)

// product is the last dispatch of a product, which is held back: if an Add of its output follows, the shader adds to
// the sum itself, which saves a dispatch and the wait for it.
type product struct {
	call
	out  driver.View
	spec int // the constant that says whether the shader adds; it adds to the last binding
}

// dispatchProduct records a product's dispatch: what is the whole of out now or, if nothing comes between, together
// with an Add, a part at once. The constant spec is still zero, and the last binding stands in.
func (r *recorder) dispatchProduct(c call, spec int, out compute.Tensor, whole bool) {
	if !whole {
		r.dispatch(c)
		return
	}
	r.flush()
	r.held = &product{call: c, out: floats(out), spec: spec}
	r.forms.forget(floats(out))
}

// flush records what is held back. Everything that records commands calls it first.
func (r *recorder) flush() {
	if p := r.held; p != nil {
		r.held = nil
		r.dispatch(p.call)
	}
}

// join has the product that is held back, if its output is x and it does not read dst, add to dst.
func (r *recorder) join(dst, x compute.Tensor) bool {
	p := r.held
	if p == nil || p.out != floats(x) {
		return false
	}
	to, sum := floats(dst), len(p.bind)-1
	for i, b := range p.bind {
		if i != sum && overlap(b.View, to) {
			return false
		}
	}
	p.call.spec[p.spec], p.call.bind[sum] = 1, update(to)
	r.flush()
	return true
}
