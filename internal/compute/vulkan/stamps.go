package vulkan

import (
	"strings"
	"time"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/compute/vulkan/driver"
	"github.com/powerinfer-go/powerinfer/internal/compute/vulkan/vk"
	"github.com/powerinfer-go/powerinfer/internal/monotime"
	"github.com/powerinfer-go/powerinfer/internal/trace"
)

// stamps are the times at which the device passes places of a recording. They exist only once somebody traces or
// watches, and if the device has them. A nil one does nothing. Recordings share them, because only one runs at a time:
// the host resets them before each run and reads them afterwards.
type stamps struct {
	g          *driver.GPU
	pool       vk.QueryPool
	ticks      []uint64 // [maxStamps] as they were read last
	calibrated bool     // the driver says what the device's clock shows now
	common     moment
}

// moment is a time for which the readings of both clocks are known.
type moment struct {
	tick uint64        // the device's clock
	time time.Duration // monotime
}

// maxStamps bounds the stamps of a recording; later operations are not timed.
const maxStamps = 1 << 14

// stamp is a place of a recording.
type stamp struct {
	name string // name of what begins here; empty until something has a name
	part compute.Part
	ends bool // nothing begins: a command buffer ends
}

// Watch has what the device computes added to w as long as it is on, where the device has a clock.
func (d *Device) Watch(w *compute.Watch) { d.watch = w }

// stamping reports whether recordings are to have stamps.
func (d *Device) stamping() bool {
	if d.gpu.Trace == nil && (d.watch == nil || !d.watch.On) {
		return false
	}
	if !d.clocked {
		d.clocked = true
		d.stamps, _ = newStamps(d.gpu) // what they would tell is not known without them
	}
	return d.stamps != nil
}

// newStamps makes the stamps of g. It returns nil if g has none.
func newStamps(g *driver.GPU) (*stamps, error) {
	if g.StampBits == 0 || !g.Resets {
		return nil, nil
	}
	s := &stamps{g: g, ticks: make([]uint64, maxStamps), calibrated: g.Has(driver.CalibratedExtension)}
	var err error
	s.pool, err = g.VK.CreateQueryPool(&vk.QueryPoolCreateInfo{SType: vk.StructureTypeQueryPoolCreateInfo, QueryType: vk.QueryTypeTimestamp, QueryCount: maxStamps})
	return s, err
}

func (s *stamps) destroy() {
	if s != nil {
		s.g.VK.DestroyQueryPool(s.pool)
	}
}

// about sets the weight of the next commands. Neighbours of the same part of a layer are timed together.
func (r *recorder) about(weight string) {
	r.weight = weight
	if !r.timed {
		return
	}
	all, name := r.seg.stamps, layerPart(weight)
	switch n := len(all); {
	case n == 0 || all[n-1].ends || all[n-1].name == name:
	case all[n-1].name == "":
		all[n-1].name, all[n-1].part = name, compute.PartNamed(name)
	default:
		r.stamp(stamp{name: name, part: compute.PartNamed(name)})
	}
}

// sent is said of a weight that is copied, not computed with.
const sent = " sent"

// layerPart returns the part of a model that a weight belongs to: blk.3.ffn of blk.3.ffn_up.weight.
func layerPart(weight string) string {
	if sending, ok := strings.CutSuffix(weight, sent); ok {
		return layerPart(sending) + sent
	}
	weight = strings.TrimSuffix(strings.TrimSuffix(weight, ".weight"), ".bias")
	layer := strings.LastIndexByte(weight, '.') + 1
	if end := strings.IndexByte(weight[layer:], '_'); layer > 0 && end > 0 {
		return weight[:layer+end]
	}
	return weight
}

// stamp records that the time is kept at which everything recorded so far has run.
func (r *recorder) stamp(s stamp) {
	if !r.timed || r.err != nil || len(r.seg.stamps) == maxStamps {
		return
	}
	r.flush()
	r.d.gpu.VK.CmdWriteTimestamp(r.buffer, vk.PipelineStageBottomOfPipe, r.d.stamps.pool, uint32(len(r.seg.stamps)))
	r.seg.stamps = append(r.seg.stamps, s)
}

// stampBegin is the first stamp of a command buffer.
func (r *recorder) stampBegin() {
	if r.timed {
		r.first = len(r.seg.stamps)
		r.stamp(stamp{part: compute.PartRest})
	}
}

// stampEnd adds the last stamp of a command buffer. It takes back the stamps of an empty buffer, which is not run.
func (r *recorder) stampEnd() {
	switch {
	case !r.timed:
	case r.filled:
		r.stamp(stamp{ends: true})
	default:
		r.seg.stamps = r.seg.stamps[:r.first]
	}
}

// begin prepares a run of a recording with n stamps, and returns the time.
func (s *stamps) begin(n int) time.Duration {
	if s == nil || n == 0 {
		return 0
	}
	s.g.Timed = true
	s.g.VK.ResetQueryPool(s.pool, uint32(n))
	return monotime.Now()
}

// end reports the times between the stamps of a run that began at from to the trace and w, if the run is done.
func (s *stamps) end(all []stamp, from time.Duration, done bool, w *compute.Watch) {
	if s == nil || len(all) == 0 {
		return
	}
	s.g.Timed = false
	if !done || s.g.VK.QueryResults(s.pool, s.ticks[:len(all)]) != nil {
		return
	}
	s.align(from, s.ticks[0], s.ticks[len(all)-1])
	last, begin := from, monotime.Now()-s.g.Trace.Now() // times of the trace
	for i := range all[:len(all)-1] {
		begun, ended := max(last, s.when(s.ticks[i])), s.when(s.ticks[i+1])
		if all[i].ends || ended < begun {
			continue
		}
		name := all[i].name
		if name == "" {
			name = "run"
		}
		s.g.Trace.Between(trace.GPU, name, begun-begin, ended-begin)
		w.Ran(all[i].part, begun, ended)
		last = ended
	}
}

// align finds a common moment of both clocks: the driver's, or an estimate. The run was submitted at from and has ended
// by now, so its first and last stamps are between the two.
func (s *stamps) align(from time.Duration, first, last uint64) {
	before := monotime.Now()
	if s.calibrated {
		tick, err := s.g.VK.CalibratedTimestamp()
		if err == nil {
			s.common = moment{tick, (before + monotime.Now()) / 2}
			return
		}
		s.calibrated = false
	}
	if s.common == (moment{}) {
		s.common = moment{last, before}
	}
	s.common = moment{last, s.when(last)} // clocks drift apart, and the device's restarts when its bits are used up
	s.common.time += max(0, from-s.when(first))
	s.common.time -= max(0, s.common.time-before)
}

// when returns the time of a tick within half of the device's range from the common moment.
func (s *stamps) when(tick uint64) time.Duration {
	unused := 64 - s.g.StampBits
	ticks := int64((tick-s.common.tick)<<unused) >> unused
	return s.common.time + time.Duration(float64(ticks)*float64(s.g.Limits.TimestampPeriod))
}
