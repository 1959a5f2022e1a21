package vulkan

import "github.com/powerinfer-go/powerinfer/internal/compute"

// product is the last dispatch of a product, which is held back: if an Add of its output follows, the shader adds to the sum
// itself, which saves a dispatch and the wait for it.
type product struct {
	call
	out  view
	spec int // the constant that says whether the shader adds
	sum  int // the binding it adds to
}

// dispatchProduct records p now or, if nothing comes between, together with an Add. Its constant is still zero, and its binding stands in.
func (r *recorder) dispatchProduct(p product) {
	r.flush()
	r.held = &p
	r.forms.forget(p.out)
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
	to := floats(dst)
	for i, b := range p.bind {
		if i != p.sum && overlap(b.view, to) {
			return false
		}
	}
	p.call.spec[p.spec], p.call.bind[p.sum] = 1, update(to)
	r.flush()
	return true
}
