package vulkan

import (
	"errors"
	"fmt"

	"github.com/powerinfer-go/powerinfer/internal/compute"
)

// Record records seg for params as large as p without running it, unless it is recorded already: what later runs need
// is compiled and allocated now, and an error of theirs is this one's. Of p only the lengths matter. A body that calls
// Host runs up to there.
func (d *Device) Record(seg compute.Segment, p *compute.Params, body func(compute.Verbs)) error {
	if s := d.segments[seg]; s != nil {
		if s.params.holds(p) {
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
	r.seg.used = d.runs
	if err := r.record(body); err != nil {
		return fmt.Errorf("segment %q: %w", seg.Name, err)
	}
	if r.live {
		d.free(r.seg)
	} else {
		d.keep(seg, r.seg)
	}
	d.pipelines.Save() // a process that is ended by a signal does not come to Close
	return nil
}

// errSizing keeps a recorder from recording.
var errSizing = errors.New("only sizes are asked for")

// size runs body for what its scratch takes at most, so that none is allocated twice where a later layer asks for more
// than an earlier one.
func (d *Device) size(seg compute.Segment, p *compute.Params, body func(compute.Verbs)) {
	d.inputs.restart()
	d.results.restart()
	r := &recorder{d: d, now: p, seg: d.newSegment(seg, p), sizing: true, err: errSizing}
	body(compute.NewVerbs(r))
	r.settle()
	d.free(r.seg)
}
