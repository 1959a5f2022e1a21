package vulkan

import (
	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/compute/vulkan/driver"
)

// counters are the counts that a recording's dispatches add to. They reside in the device's memory, where adding is
// fast. They are zeroed before the first dispatch and copied to the host at the end of the recording.
type counters struct {
	memory driver.View
	done   []func(p *compute.Params, counts []uint32)
}

const (
	counterBytes = 12  // three counts
	maxCounters  = 256 // of a recording; further ones count in the host's memory
)

// counter is memory for three counts, which done is given when the segment has run.
func (r *recorder) counter(done func(p *compute.Params, counts []uint32)) driver.View {
	c, pitch := &r.counters, driver.Align(counterBytes, r.d.gpu.Alignment())
	if len(c.done) == maxCounters {
		return r.result(counterBytes, func(p *compute.Params, data []byte) { done(p, words(data)) })
	}
	if len(c.done) == 0 {
		c.memory = r.scratch("counters", maxCounters*pitch)
		r.fill(c.memory, 0)
	}
	if r.err != nil {
		return driver.View{}
	}
	c.done = append(c.done, done)
	return c.memory.Slice(int64(len(c.done)-1)*pitch, counterBytes)
}

// collect copies the counts to the host.
func (r *recorder) collect() {
	done, pitch := r.counters.done, driver.Align(counterBytes, r.d.gpu.Alignment())
	r.counters.done = nil
	if len(done) == 0 || r.err != nil {
		return
	}
	size := int64(len(done)) * pitch
	v := r.result(size, func(p *compute.Params, data []byte) {
		for i, f := range done {
			f(p, words(data[int64(i)*pitch:][:counterBytes]))
		}
	})
	if r.err == nil {
		r.copy(v, r.counters.memory.Slice(0, size))
	}
}
