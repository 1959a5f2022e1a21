package vulkan

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/compute/vulkan/driver"
	"github.com/powerinfer-go/powerinfer/internal/compute/vulkan/vk"
)

// segment is a recorded stretch of a forward pass, to be submitted again with other params.
type segment struct {
	name    string
	legs    []leg
	checks  []func(*compute.Params) error
	inputs  []input
	results []result
	params  paramsLayout // what the recording has room for
	used    uint64       // the number of the run that used it last
	stamps  []stamp      // in the order in which they are passed
	timed   bool         // it has stamps
	copies  []copied     // what the host reads when it has run
	stale   bool         // it read more: the next recording copies that too

	commands uint64 // recorded; they are numbered from 1 on
	copied   uint64 // command buffers on the queue for copies

	pools []vk.DescriptorPool // descriptor pools of its dispatches' sets; none if descriptors are pushed
	sets  int                 // left in the last one
}

// leg is a stretch of a segment up to where the host has its turn.
type leg struct {
	command driver.Command                // the numbers of its Copies, and of those of overlap, count within the segment
	overlap driver.Command                // submitted with command, for the host's turn
	host    func(p *compute.Params) error // called when command has run; nil: nothing
	late    bool                          // the work that ran alongside an earlier turn must be complete, too
	fed     bool                          // host waits for no more than needs and brought
	needs   uint64                        // number of the segment's command that must have run; 0: none
	brought uint64                        // number of the segment's copy that must have run, too
	copies  vk.CommandBuffer              // on the queue for copies, submitted before command; 0: nothing
	after   uint64                        // number of an earlier leg's command that must have run before copies

	idle func(ready, done func() bool) // called while host's turn is waited for; nil: nothing
}

// copied is a part of a tensor that a segment copies to the host at its end.
type copied struct {
	place
	driver.View
}

// input is memory that the host fills before every run.
type input struct {
	driver.View
	fill func(p *compute.Params, dst []byte)
}

// result is memory that the host clears before every run and reads after it.
type result struct {
	driver.View
	done func(p *compute.Params, data []byte)
}

// newSegment returns a segment to be recorded with p.
func (d *Device) newSegment(seg compute.Segment, p *compute.Params) *segment {
	s := &segment{name: seg.Name, params: layoutFor(seg, p, d.tables)}
	d.tables = s.params.tables
	return s
}

// maxSegments is the most recorded segments; the least recently used one makes room for another.
const maxSegments = 64

// Run executes body's verbs with p: it records them the first time, and later only writes p and submits. A body that
// calls Host is not kept: it runs every time.
func (d *Device) Run(seg compute.Segment, p *compute.Params, body func(compute.Verbs)) error {
	d.runs++
	d.seen.restart()
	if err := fits(seg, p); err != nil {
		return fmt.Errorf("segment %q: %w", seg.Name, err)
	}
	s := d.segments[seg]
	if s != nil && (s.stale || s.timed != d.stamping() || !s.params.holds(p)) {
		d.forget(seg)
		s = nil
	}
	if s == nil {
		r := &recorder{d: d, now: p, seg: d.newSegment(seg, p)}
		r.wanted = d.seen.wanted(r.seg)
		if err := r.record(body); err != nil {
			return fmt.Errorf("segment %q: %w", seg.Name, err)
		}
		s = r.seg
		if !r.live {
			d.keep(seg, s)
		}
	}
	s.used = d.runs
	err := d.play(s, p)
	if d.segments[seg] != s { // it called Host
		d.free(s)
	}
	if err != nil {
		return fmt.Errorf("segment %q: %w", seg.Name, err)
	}
	return nil
}

// record runs body once, writing its verbs to command buffers.
func (r *recorder) record(body func(compute.Verbs)) error {
	r.d.inputs.restart()
	r.d.results.restart()
	r.timed = r.d.stamping()
	r.seg.timed = r.timed
	r.begin()
	if r.err == nil {
		body(compute.NewVerbs(r))
		r.collect()
		r.copyWanted()
	}
	r.leg(nil, nil)
	if r.err != nil {
		r.d.free(r.seg)
	}
	return r.err
}

// leg ends a leg. If host is not nil the host has its turn then, while the device computes what meanwhile records.
func (r *recorder) leg(host func(*compute.Params) error, meanwhile func()) {
	l := leg{command: r.command(), host: host, brought: r.seg.copied}
	if r.copies != 0 {
		l.brought++
	}
	if host != nil {
		l.late, l.idle = r.late, r.idle
		r.late, r.idle = false, nil
		r.hosts++
	}
	if meanwhile != nil {
		r.begin()
		meanwhile()
		l.overlap = r.command()
	}
	l.copies, l.after = r.endCopies()
	r.earlier = r.seg.commands
	r.seg.legs = append(r.seg.legs, l)
}

// command ends the command buffer, as end does, and numbers it.
func (r *recorder) command() driver.Command {
	c := driver.Command{Buffer: r.end()}
	if c.Buffer != 0 {
		c.Copies = r.awaits
		r.seg.commands++
	}
	return c
}

// copyWanted records copies of the tensors that the host read after earlier runs, because it is likely to read them
// again.
func (r *recorder) copyWanted() {
	for _, w := range r.wanted {
		v, err := r.d.results.take(w.size)
		if err != nil {
			r.fail(err)
			return
		}
		r.copy(v, w.t.Slice(w.at, w.size))
		r.seg.copies = append(r.seg.copies, copied{w, v})
	}
}

// Host submits what was recorded, waits for it and calls f. The rest is recorded afresh.
func (r *recorder) Host(f func() error) {
	r.live = true
	r.collect()
	r.leg(nil, nil)
	if r.err == nil {
		r.fail(r.d.play(r.seg, r.now))
	}
	if r.err == nil {
		r.fail(f())
	}
	r.d.free(r.seg)
	r.seg.checks, r.seg.inputs, r.seg.results, r.seg.stamps = nil, nil, nil, nil // the inputs stay in the memory where they were filled in
	r.seg.commands, r.seg.copied, r.earlier, r.awaits, r.passed, r.rooms = 0, 0, 0, 0, 0, nil
	r.begin()
}

// play fills s's inputs, submits it, waits, and hands its results out.
func (d *Device) play(s *segment, p *compute.Params) error {
	for _, check := range s.checks {
		if err := check(p); err != nil {
			return err
		}
	}
	for _, in := range s.inputs {
		in.fill(p, in.Host())
	}
	for _, r := range s.results {
		clear(r.Host())
	}
	clear(d.seen.rows)
	from := d.stamps.begin(len(s.stamps))
	err := s.play(d.gpu, p)
	d.stamps.end(s.stamps, from, err == nil, d.watch)
	if err != nil {
		return err
	}
	for _, r := range s.results {
		r.done(p, r.Host())
	}
	for _, c := range s.copies {
		d.seen.rows[c.place] = c.View
	}
	d.played, d.lead = s, s.params.lead(p)
	d.leadOut, _ = s.params.rowsOf(p, true)
	return nil
}

// play submits s leg by leg and waits.
func (s *segment) play(g *driver.GPU, p *compute.Params) error {
	commands, copies := g.Last, g.Copies.Last()
	for i := range s.legs {
		if err := s.legs[i].play(g, p, commands, copies); err != nil {
			if g.Lost == nil { // what runs may not be disturbed
				err = errors.Join(err, g.Wait(g.Last), g.Copies.Wait(g.Copies.Last()))
			}
			return err
		}
	}
	if s.copied > 0 {
		if err := g.Copies.Wait(g.Copies.Last()); err != nil {
			return err
		}
	}
	return g.Wait(g.Last)
}

// play submits l and lets the host do its part. Work that runs alongside may still run when play returns. The segment's
// commands and copies are numbered from the given numbers on.
func (l *leg) play(g *driver.GPU, p *compute.Params, commands, copies uint64) error {
	before := g.Last
	if l.copies != 0 {
		if _, err := g.Copies.Submit(l.copies, commands+l.after); err != nil {
			return err
		}
	}
	command, overlap := l.command.From(copies), l.overlap.From(copies)
	awaited, err := uint64(0), error(nil)
	if l.late {
		awaited = before
	}
	switch {
	case command.Buffer != 0 && overlap.Buffer != 0:
		awaited, err = g.Submit(command, overlap)
	case command.Buffer != 0:
		awaited, err = g.Submit(command)
	case overlap.Buffer != 0:
		_, err = g.Submit(overlap)
	}
	if err != nil || l.host == nil {
		return err
	}
	if l.fed {
		if awaited = 0; l.needs > 0 {
			awaited = commands + l.needs
		}
	}
	if l.idle != nil {
		g.Glance.Ready, g.Glance.Done = before, awaited
		l.idle(g.Glance.ReadyFn, g.Glance.DoneFn)
	}
	if err := g.Wait(awaited); err != nil {
		return err
	}
	if l.brought > 0 {
		if err := g.Copies.Wait(copies + l.brought); err != nil {
			return err
		}
	}
	return l.host(p)
}

// keep remembers a recording.
func (d *Device) keep(seg compute.Segment, s *segment) {
	if len(d.segments) >= maxSegments {
		d.forget(slices.MinFunc(slices.Collect(maps.Keys(d.segments)), func(a, b compute.Segment) int {
			return int(d.segments[a].used) - int(d.segments[b].used)
		}))
	}
	d.segments[seg] = s
}

// forget frees a recording, which is not running.
func (d *Device) forget(seg compute.Segment) {
	d.free(d.segments[seg])
	delete(d.segments, seg)
}

// free gives up s's command buffers, which are not running.
func (d *Device) free(s *segment) {
	for _, l := range s.legs {
		for _, c := range [...]driver.Command{l.command, l.overlap} {
			if c.Buffer != 0 {
				d.gpu.VK.FreeCommandBuffer(d.gpu.Pool, c.Buffer)
			}
		}
		if l.copies != 0 {
			d.gpu.VK.FreeCommandBuffer(d.gpu.Copies.Pool, l.copies)
		}
	}
	for _, p := range s.pools {
		d.gpu.VK.DestroyDescriptorPool(p)
	}
	s.legs, s.pools, s.sets = nil, nil, 0
}

// params returns the memory of the step's compute.Params, for shaders/params.glsl.
func (r *recorder) params() driver.View {
	if r.param.Slab == nil {
		l := r.seg.params
		r.param = r.hostData(int64(4*l.words()), l.write)
	}
	return r.param
}

// paramsOf returns the memory of the step's compute.Params for shaders that ask which rows of tensors are padding: of
// tensors of all tokens or of outputs. The latter has no more than a header.
func (r *recorder) paramsOf(outputs bool) driver.View {
	if !outputs {
		return r.params()
	}
	if r.paramOut.Slab == nil {
		r.paramOut = r.hostData(4*paramsHeader, r.seg.params.writeOutputs)
	}
	return r.paramOut
}

// hostData is memory that fill writes before every run.
func (r *recorder) hostData(size int64, fill func(p *compute.Params, dst []byte)) driver.View {
	v, err := r.d.inputs.take(size)
	if err != nil {
		r.fail(err)
		return v
	}
	r.seg.inputs = append(r.seg.inputs, input{v, fill})
	return v
}

// result is memory that is zero before every run, and given to done when the segment has run.
func (r *recorder) result(size int64, done func(p *compute.Params, data []byte)) driver.View {
	v, err := r.d.results.take(size)
	if err != nil {
		r.fail(err)
		return v
	}
	r.seg.results = append(r.seg.results, result{v, done})
	return v
}

// check has f look at the params before every run.
func (r *recorder) check(f func(*compute.Params) error) { r.seg.checks = append(r.seg.checks, f) }

// exchange is memory that host and device both see. Segments share it, because only one runs at a time and everything
// in it is rewritten for every run; each recording cuts its parts from the start.
type exchange struct {
	memory  *driver.Memory
	purpose driver.Purpose
	blocks  []driver.View
	block   int   // in use
	at      int64 // within it
}

const exchangeBlock = 256 << 10

func (e *exchange) restart() { e.block, e.at = 0, 0 }

// take cuts off size bytes.
func (e *exchange) take(size int64) (driver.View, error) {
	for ; e.block < len(e.blocks); e.block, e.at = e.block+1, 0 {
		if b := e.blocks[e.block]; size <= b.Size-e.at {
			v := b.Slice(e.at, size)
			e.at = min(b.Size, driver.Align(e.at+size, e.memory.GPU.Alignment()))
			return v, nil
		}
	}
	b, err := e.memory.Alloc(e.purpose, max(size, exchangeBlock))
	if err != nil {
		return driver.View{}, err
	}
	e.blocks, e.at = append(e.blocks, b), 0
	return e.take(size)
}
