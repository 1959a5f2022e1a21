package vulkan

import (
	"fmt"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/compute/vulkan/driver"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// packedForms lists the tensors that are also in memory in eight bits while a segment is recorded. Operations with a
// result that a product is likely to take also write that form, which saves a dispatch and the wait for it.
type packedForms struct{ all []packedForm }

type packedForm struct{ of, as driver.View }

// add says that as is the form of of.
func (f *packedForms) add(of, as driver.View) { f.all = append(f.all, packedForm{of, as}) }

// find returns the form of a tensor's memory, if there is one.
func (f *packedForms) find(of driver.View) (driver.View, bool) {
	for _, form := range f.all {
		if form.of == of {
			return form.as, true
		}
	}
	return driver.View{}, false
}

// forget drops what written memory was a part of.
func (f *packedForms) forget(written driver.View) {
	kept := f.all[:0]
	for _, form := range f.all {
		if !overlap(form.of, written) && !overlap(form.as, written) {
			kept = append(kept, form)
		}
	}
	f.all = kept
}

// packedBytes returns what n elements take in eight bits: the quants, then a scale and a sum for each 32.
func packedBytes(n int) int64 { return int64(n + n/quant.QK*8) }

// packedScales returns where the scales of n elements begin, in pairs of words.
func packedScales(n int) uint32 { return uint32(n / 8) }

// packing returns the memory for the eight-bit form that a shader writes in addition to t, and whether it should write
// it. If not, the memory is t's own, as a stand-in.
func (r *recorder) packing(t compute.Tensor) (as driver.View, pack bool) {
	of := floats(t)
	if !r.d.quantised || t.Cols%quant.QK != 0 {
		return of, false
	}
	return r.scratch(fmt.Sprintf("eight bits of %p at %d", of.Slab, of.At), packedBytes(t.Rows*t.Cols)), true
}

// packed says that as is now t's form, if it was packed.
func (r *recorder) packed(t compute.Tensor, as driver.View, pack bool) {
	if pack {
		r.forms.add(floats(t), as)
	}
}
