package vulkan

import (
	"slices"
	"time"

	"github.com/powerinfer-go/powerinfer/internal/compute"
)

// What a device reaches, as placement wants to know it. A device that was measured holds the memory of it until it is closed.

const (
	probeBytes   = 1 << 30   // read by a pass: several times the largest caches
	probeTime    = 50e6      // nanoseconds that passes take at least, together
	probeRepeats = 5         // of which the best counts, or of latencies the median
	handOffs     = 64        // in a recording
	handOffCols  = 4096      // of the row that passes each way
	layerKernels = 20        // dispatches of a layer, each of which waits for the one before
	launchLayers = 32        // in a recording
	copyBytes    = 128 << 20 // of a transfer
)

// ReadBandwidth is what the memory gives to a kernel that only reads, bytes per second.
func (d *Device) ReadBandwidth() (float64, error) {
	total := min(probeBytes, d.gpu.info.Free/4)
	part := min(total, d.gpu.span()) / 16 * 16
	sum, err := d.alloc(4)
	if err != nil {
		return 0, err
	}
	var parts []view
	for read := int64(0); read+part <= total; read += part {
		v, err := d.zeros(part)
		if err != nil {
			return 0, err
		}
		parts = append(parts, v)
	}
	return d.rate(part*int64(len(parts)), func(r *recorder) {
		for _, v := range parts {
			r.dispatch(call{
				shader: "read", local: elementwise, bind: []binding{read(v), update(sum)},
				push: []uint32{uint32(v.size / 16)}, groups: [3]int{readGroups, 1, 1},
			})
		}
	})
}

// readGroups are the workgroups of a pass: enough for every processor of the largest cards, several times.
const readGroups = 4096

// TransferBandwidth is what the bus gives to copies from host memory to the device and back, bytes per second.
func (d *Device) TransferBandwidth() (up, down float64, err error) {
	size := min(copyBytes, d.gpu.info.Free/8)
	var local_, from, to view
	for p, v := range map[purpose]*view{local: &local_, staged: &from, toHost: &to} {
		if *v, err = d.mem.alloc(p, size); err != nil {
			return 0, 0, err
		}
	}
	clear(from.host()) // pages that nobody touched are one page
	clear(to.host())
	if up, err = d.rate(size, func(r *recorder) { r.copy(local_, from) }); err != nil {
		return 0, 0, err
	}
	down, err = d.rate(size, func(r *recorder) { r.copy(to, local_) })
	return up, down, err
}

// rate is how many bytes per second the best of several submissions moved, each of as many passes of f, which move bytes, as take long
// enough to be timed.
func (d *Device) rate(bytes int64, f func(r *recorder)) (float64, error) {
	passes, best := 1, 0.0
	for range probeRepeats {
		var took time.Duration
		for {
			var err error
			if took, err = d.timed(passes, f); err != nil {
				return 0, err
			}
			if took > probeTime || passes > 1<<12 {
				break
			}
			passes = 1 + int(float64(passes)*probeTime*1.2/float64(took+1))
		}
		best = max(best, float64(passes)*float64(bytes)/took.Seconds())
	}
	return best, nil
}

// timed records passes of f and times from their submission to the end.
func (d *Device) timed(passes int, f func(r *recorder)) (time.Duration, error) {
	r := &recorder{d: d, seg: &segment{}}
	r.begin()
	for range passes {
		f(r)
	}
	r.leg(nil, nil)
	defer d.free(r.seg)
	if r.err != nil {
		return 0, r.err
	}
	start := time.Now()
	if err := d.play(r.seg, nil); err != nil {
		return 0, err
	}
	return time.Since(start), nil
}

// HandOff is the time that a row of activations takes from host memory through a kernel to the host again, as in a layer that both
// compute, in seconds.
func (d *Device) HandOff() (float64, error) {
	x, err := d.Tensor(1, handOffCols)
	if err != nil {
		return 0, err
	}
	row := make([]float32, handOffCols)
	body := func(v compute.Verbs) {
		r := v.(*recorder)
		for range handOffs {
			sent := r.Take(x)
			v.Add(x, x)
			seen := r.Show(x)
			r.Beside(func(*compute.Params) error { copy(row, seen()); copy(sent(), row); return nil }, nil)
		}
	}
	times := make([]time.Duration, probeRepeats)
	for i := range times {
		start := time.Now()
		if err := d.Run(compute.Segment{Name: "hand-off", Rows: 1}, &compute.Params{}, body); err != nil {
			return 0, err
		}
		times[i] = time.Since(start)
	}
	slices.Sort(times) // the first, which records, is the longest
	return times[len(times)/2].Seconds() / handOffs, nil
}

// Launch is the time that the kernels of a layer take to start, one after the other, in seconds.
func (d *Device) Launch() (float64, error) {
	x, err := d.Tensor(1, 64)
	if err != nil {
		return 0, err
	}
	layers := func(n int) (time.Duration, error) {
		return d.timed(n, func(r *recorder) {
			for range layerKernels {
				r.Add(x, x)
			}
		})
	}
	best := 0.0
	for i := range probeRepeats {
		one, err := layers(1)
		if err != nil {
			return 0, err
		}
		many, err := layers(1 + launchLayers)
		if err != nil {
			return 0, err
		}
		if took := max(0, many-one).Seconds() / launchLayers; i == 0 || took < best {
			best = took
		}
	}
	return best, nil
}
