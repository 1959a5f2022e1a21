package vulkan

import (
	"errors"
	"fmt"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/compute/vulkan/driver"
)

// Record records seg for params as large as p without running it, unless it is recorded already: what later runs need
// is compiled and allocated now, and an error of theirs is this one's. Of p only the lengths matter. A body that calls
// Host runs up to there. Read then returns whatever is in memory; later recordings copy to the host what was read.
func (d *Device) Record(seg compute.Segment, p *compute.Params, body func(compute.Verbs)) error {
	if s := d.segments[seg]; s != nil {
		if s.params.holds(p) && !s.stale {
			d.played = s
			return nil
		}
		d.forget(seg)
	}
	d.runs++
	if err := fits(seg, p); err != nil {
		return fmt.Errorf("segment %q: %w", seg.Name, err)
	}
	d.size(seg, p, body)
	if d.gpu.Counts() {
		d.count(seg, p, body)
		return nil
	}
	r := &recorder{d: d, now: p, seg: d.newSegment(seg, p)}
	r.wanted = d.seen.wanted(r.seg)
	r.seg.used = d.runs
	if err := r.record(body); err != nil {
		return fmt.Errorf("segment %q: %w", seg.Name, err)
	}
	if r.live {
		d.free(r.seg)
	} else {
		d.keep(seg, r.seg)
	}
	d.played, d.lead, d.leadOut = r.seg, 0, 0
	d.pipelines.Save() // a process that is ended by a signal does not come to Close
	return nil
}

// RehearsesEarly implements compute.Device. A software device would take the cores from other programs, and while
// shaders are compiled a recording would wait for some.
func (d *Device) RehearsesEarly() bool {
	return d.gpu.Info.Kind != driver.CPU && (d.pipelines == nil || !d.pipelines.Busy())
}

// errSizing keeps a recorder from recording.
var errSizing = errors.New("only sizes are asked for")

// foresee has the pipeline of a dispatch that is not recorded compiled in the background, where only sizes are asked
// for: the recording follows.
func (r *recorder) foresee(c call) {
	if r.err != errSizing || r.d.pipelines == nil {
		return
	}
	r.d.pipelines.Want(c.variant())
	for _, b := range c.bind {
		if b.writes {
			r.forms.forget(b.View) // what is packed later is known by that
		}
	}
}

// Unforeseen returns how many shaders had to be compiled when they were needed, because nothing asked for them before.
func (d *Device) Unforeseen() int { return d.pipelines.Unforeseen() }

// Foresight returns a device that counts for the GPU of d, as Counter's does for one that is not open: what Record is
// given, d has compiled in the background. It does so until d is closed.
func (d *Device) Foresight() *Device {
	f := counting(d.gpu.Twin())
	f.pipelines, f.maxBinding, f.long.asked = d.pipelines, d.maxBinding, d.long.asked
	return f
}

// size runs body for what its scratch takes at most, so that none is allocated twice where a later layer asks for more
// than an earlier one.
func (d *Device) size(seg compute.Segment, p *compute.Params, body func(compute.Verbs)) {
	d.inputs.restart()
	d.results.restart()
	r := &recorder{d: d, now: p, seg: d.newSegment(seg, p), sizing: true, err: errSizing}
	body(compute.NewVerbs(r))
	r.flush()
	d.free(r.seg)
}
