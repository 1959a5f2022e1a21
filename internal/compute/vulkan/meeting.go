package vulkan

import (
	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/compute/vulkan/driver"
)

// Other methods of a recorder, for a layer that two processors share. The functions that they return are valid in every
// replay.

// Overlap waits for what was recorded so far and calls host. Meanwhile the device computes what during records; during
// may be nil. Both are submitted at once. Later operations see what host wrote. An error of host ends the run.
func (r *recorder) Overlap(host func(p *compute.Params) error, during func()) {
	if r.overlap {
		panic("vulkan: Overlap within what runs overlap")
	}
	r.flush()
	r.overlap = true
	r.leg(host, during)
	r.overlap = false
	r.begin()
}

// Idles reports whether the host has time and memory bandwidth to spare while it waits. It has not if the device
// computes with the host's cores or in its memory.
func (r *recorder) Idles() bool {
	k := r.d.gpu.Info.Kind
	return k == Discrete || k == Virtual
}

// Meanwhile makes the host call f while it waits in the next Overlap. done reports whether the wait is over. ready
// reports whether the work that ran alongside the previous turn is complete, so that its results can be read.
func (r *recorder) Meanwhile(f func(ready, done func() bool)) { r.idle = f }

// Download copies t for the host, which finds it in the next Overlap, and only there; or, if none follows, when the
// segment has run, until the next one runs. [t.Rows·t.Cols]
func (r *recorder) Download(t compute.Tensor) func() []float32 {
	v := r.show(floats(t))
	return func() []float32 { return numbers(v.Host()) }
}

// DownloadSet copies a set's bits for the host: token i's are words[i·perRow:].
func (r *recorder) DownloadSet(s compute.Set) func() (words []uint32, perRow int) {
	v := r.show(bits(s))
	return setWords(s, v)
}

// Upload makes t, here, what the host of the last Overlap writes to the returned memory. [t.Rows·t.Cols]
func (r *recorder) Upload(t compute.Tensor) func() []float32 {
	v := r.take(floats(t))
	return func() []float32 { return numbers(v.Host()) }
}

// UploadSet does so with a set's bits.
func (r *recorder) UploadSet(s compute.Set) func() (words []uint32, perRow int) {
	v := r.take(bits(s))
	return setWords(s, v)
}

// DownloadChoice copies a choice for the host.
func (r *recorder) DownloadChoice(c compute.Choice) func() []float32 { return r.Download(choices(c)) }

// UploadChoice makes c, here, what the host of the last Overlap writes to the returned memory.
func (r *recorder) UploadChoice(c compute.Choice) func() []float32 { return r.Upload(choices(c)) }

func setWords(s compute.Set, v driver.View) func() ([]uint32, int) {
	perRow := s.Mem.(*set).words
	return func() ([]uint32, int) { return words(v.Host()), perRow }
}

func (r *recorder) show(from driver.View) driver.View {
	v, err := r.swap(&r.d.results, from.Size)
	if err != nil {
		r.fail(err)
		return v
	}
	r.copy(v, from)
	r.late = r.late || r.overlap
	return v
}

func (r *recorder) take(to driver.View) driver.View {
	v, err := r.swap(&r.d.inputs, to.Size)
	if err != nil {
		r.fail(err)
		return v
	}
	r.copy(to, v)
	return v
}

// swapped is memory that the host shares with the device in one turn, until it may in the next one.
type swapped struct {
	driver.View
	of   *exchange
	turn int // the last one to use it
}

// swap returns size bytes of e for the host's next turn. An earlier turn's memory is free again by then, so a layer's
// activations reuse the memory of the layer before.
func (r *recorder) swap(e *exchange, size int64) (driver.View, error) {
	if !r.overlap {
		for i := range r.swaps {
			if s := &r.swaps[i]; s.of == e && s.Size == size && s.turn < r.hosts {
				s.turn = r.hosts
				return s.View, nil
			}
		}
	}
	v, err := e.take(size)
	if err == nil && !r.overlap {
		r.swaps = append(r.swaps, swapped{v, e, r.hosts})
	}
	return v, err
}
