package vulkan

import "github.com/powerinfer-go/powerinfer/internal/compute"

// What a recorder can do besides verbs, for a layer that two processors share. The functions that it returns are valid in every replay.

// Beside waits for what was recorded so far and calls host, while the device computes what during, which may be nil, records. Both are
// submitted at once. What is recorded behind it sees what host wrote; an error of host's ends the run.
func (r *recorder) Beside(host func(p *compute.Params) error, during func()) {
	if r.beside {
		panic("vulkan: Beside within what runs beside")
	}
	r.beside = true
	r.leg(host, during)
	r.beside = false
	r.begin()
}

// Idles says whether the host has time, and its memory bandwidth, to spare while it waits: not beside a device that computes with its
// cores or in its memory.
func (r *recorder) Idles() bool {
	k := r.d.gpu.info.Kind
	return k == Discrete || k == Virtual
}

// Meanwhile has the host call f while it waits in the next Beside. done says whether the wait is over, ready whether what ran beside the
// turn before has run: what that showed is there.
func (r *recorder) Meanwhile(f func(ready, done func() bool)) { r.idle = f }

// Show copies t for the host, which finds it in the next Beside, and only there; or, if none follows, when the segment has run, until
// the next one runs. [t.Rows·t.Cols]
func (r *recorder) Show(t compute.Tensor) func() []float32 {
	v := r.show(floats(t))
	return func() []float32 { return numbers(v.host()) }
}

// ShowSet copies a set's bits for the host: token i's are words[i·perRow:].
func (r *recorder) ShowSet(s compute.Set) func() (words []uint32, perRow int) {
	v := r.show(bits(s))
	return setWords(s, v)
}

// Take makes t, here, what the host of the last Beside writes to the returned memory. [t.Rows·t.Cols]
func (r *recorder) Take(t compute.Tensor) func() []float32 {
	v := r.take(floats(t))
	return func() []float32 { return numbers(v.host()) }
}

// TakeSet does so with a set's bits.
func (r *recorder) TakeSet(s compute.Set) func() (words []uint32, perRow int) {
	v := r.take(bits(s))
	return setWords(s, v)
}

func setWords(s compute.Set, v view) func() ([]uint32, int) {
	perRow := s.Mem.(*set).words
	return func() ([]uint32, int) { return words(v.host()), perRow }
}

func (r *recorder) show(from view) view {
	v, err := r.swap(&r.d.results, from.size)
	if err != nil {
		r.fail(err)
		return v
	}
	r.copy(v, from)
	r.late = r.late || r.beside
	return v
}

func (r *recorder) take(to view) view {
	v, err := r.swap(&r.d.inputs, to.size)
	if err != nil {
		r.fail(err)
		return v
	}
	r.copy(to, v)
	return v
}

// swapped is memory that one leg's host shares with the device, until the next one's may.
type swapped struct {
	view
	of  *exchange
	leg int // the last one to use it
}

// swap is size bytes of e for this leg. What an earlier leg passed is through when this leg's host has its turn, so a layer's
// activations lie where those of the layer before lay.
func (r *recorder) swap(e *exchange, size int64) (view, error) {
	leg := len(r.seg.legs)
	if !r.beside {
		for i := range r.swaps {
			if s := &r.swaps[i]; s.of == e && s.size == size && s.leg < leg {
				s.leg = leg
				return s.view, nil
			}
		}
	}
	v, err := e.take(size)
	if err == nil && !r.beside {
		r.swaps = append(r.swaps, swapped{v, e, leg})
	}
	return v, err
}
