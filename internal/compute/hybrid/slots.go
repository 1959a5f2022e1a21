package hybrid

import (
	"sync/atomic"
	"time"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/residency"
)

// Slots says how the experts in the GPU's slots follow the text.
type Slots struct {
	Speeds residency.Speeds
	Tuning residency.Tuning
	// AtOnce has every copy that pays made between two steps, by the goroutine that computes: for tests, which want the same copies in each run.
	AtOnce bool
	// Watch is told of each step what it used in a layer with slots, numbered in the order of the model: uses[e] of tokens used expert e. It may be nil.
	Watch func(layer, tokens int, uses []int32)
}

// slots are all layers' slots, and the copy that is under way. But for fill, it belongs to the goroutine that runs steps.
type slots struct {
	Slots
	policy *residency.Policy
	layers []*slotted
	use    compute.SlotUse
	stage  compute.RowStage
	size   int64 // bytes of stage

	now     residency.Move
	phase   phase
	filled  chan struct{} // is closed when the stage is filled
	closing atomic.Bool   // fill is to end early
	scratch []byte        // fill's
}

// phase says which part of a copy is under way.
type phase int

const (
	idle    phase = iota // there is none
	filling              // fill stages its rows
	sending              // they go to the GPU
)

// slotted is a layer whose experts lie on the GPU by turns.
type slotted struct {
	gpu, host compute.ExpertTable
	bins      compute.NeuronBins  // of the step: the experts that each row used
	model     *compute.NeuronBins // the model's, to which they are added; or nil
	weights   []*compute.Matrix   // the device's own: gate, if there is one, up, down
	used      int                 // experts of a token
	uses      []int32             // scratch

	// Of prompts' steps, which have the experts that are in no slot sent.
	absent []int32                // those, in the order of their numbers
	chunks []*compute.ExpertTable // which of absent each chunk brings, and where
}

// FollowUse has the experts of layers whose weights say so (compute.Split.Slots) follow the text. It is called before weights are taken in.
func (d *Device) FollowUse(s Slots) { d.slots.Slots = s }

// SlotUse returns what slots did until now.
func (d *Device) SlotUse() compute.SlotUse { return d.slots.use }

// slotsOf returns the layer's slots, which are made when it is first recorded; nil if its experts stay where they are.
func (r *router) slotsOf(w *compute.ExpertWeights, c compute.Choice) *slotted {
	m := mem(w.Down)
	if !m.slots || m.slotted != nil {
		return m.slotted
	}
	y, err := r.d.slots.add(r.d, w, c)
	if err != nil {
		r.fail(err)
	}
	m.slotted = y
	return y
}

// add makes slots for a layer, or returns nil where the devices cannot move its experts.
func (s *slots) add(d *Device, w *compute.ExpertWeights, c compute.Choice) (*slotted, error) {
	gpu, movable := d.gpu.(compute.RowReplacer)
	keeper, keeps := d.host.(compute.RowKeeper)
	if !movable || !keeps {
		return nil, nil
	}
	held := mem(w.Down).hot / (w.Down.Rows / c.N)
	y := &slotted{
		gpu: *compute.NewExpertTable(c.N, 0, held), host: *compute.NewExpertTable(c.N, 0, c.N), model: w.Bins, used: c.Used, uses: make([]int32, c.N),
		bins: compute.NeuronBins{On: true, Neurons: c.N, Listing: true},
	}
	bytes, staged, scratch := int64(0), int64(0), 0
	for _, m := range []*compute.Matrix{w.Gate, w.Up, w.Down} {
		if m == nil {
			continue
		}
		if !keeper.KeepsRows(mem(m).host) {
			return nil, nil
		}
		rows := m.Rows / c.N
		y.weights = append(y.weights, m)
		bytes += int64(rows) * int64(m.Type.RowBytes(m.Cols))
		staged += gpu.StagedBytes(mem(m).gpu, rows)
		scratch = max(scratch, fillBytes+m.Type.RowBytes(m.Cols))
	}
	first := make([]int32, held)
	for e := range first {
		first[e], y.host.At[e] = int32(e), compute.Absent
	}
	if err := s.reserve(gpu, staged, scratch); err != nil {
		return nil, d.ofGPU(err)
	}
	if s.policy == nil {
		var err error
		if s.policy, err = residency.New(nil, s.Speeds, s.Tuning); err != nil {
			return nil, err
		}
	}
	var prior []float64
	if w.Prior != nil {
		prior = w.Prior.Shares
	}
	if err := s.policy.Add(residency.Layer{Experts: c.N, Slots: held, Bytes: bytes, Prior: prior}); err != nil {
		return nil, err
	}
	s.policy.Fill(len(s.layers), first)
	s.layers = append(s.layers, y)
	return y, nil
}

// reserve makes room for an expert on its way. Layers are recorded before any of them computes, so no copy is under way.
func (s *slots) reserve(gpu compute.RowReplacer, staged int64, scratch int) (err error) {
	if staged > s.size {
		s.stage, err = gpu.RowStage(staged)
		s.size = staged
	}
	if scratch > len(s.scratch) {
		s.scratch = make([]byte, scratch)
	}
	return err
}

// chunked has chunks of so many experts each, at most, bring those that are in no slot. There is room for one more than slots leave out, because the slot
// that is being filled holds none.
func (y *slotted) chunked(most int) {
	if y.chunks != nil {
		return
	}
	n := len(y.gpu.At)
	for out := min(n, n-y.gpu.Held+1); out > 0; out -= most {
		y.chunks = append(y.chunks, compute.NewExpertTable(n, 0, min(most, out)))
	}
	y.sort()
}

// sort has chunks bring what is in no slot now.
func (y *slotted) sort() {
	if y.chunks == nil {
		return
	}
	y.absent = y.absent[:0]
	for e, at := range y.gpu.At {
		if at == compute.Absent {
			y.absent = append(y.absent, int32(e))
		}
	}
	most := y.chunks[0].Held
	for c, t := range y.chunks {
		for e := range t.At {
			t.At[e] = compute.Absent
		}
		for i, e := range y.chunk(c, most) {
			t.At[e] = int32(i)
		}
	}
}

// chunk returns the experts of chunk c, of at most so many each.
func (y *slotted) chunk(c, most int) []int32 {
	from := min(c*most, len(y.absent))
	return y.absent[from:min(from+most, len(y.absent))]
}

// step counts what a step used, and brings copies forward. Nothing runs.
func (s *slots) step(d *Device, p *compute.Params) error {
	used := false
	for i, y := range s.layers {
		used = s.count(i, y, p) || used
	}
	for used {
		err := s.advance(d)
		if err != nil || s.phase == idle || !s.AtOnce {
			return err
		}
	}
	return nil
}

// count takes the uses of a layer in the step, and reports whether it was part of it.
func (s *slots) count(i int, y *slotted, p *compute.Params) bool {
	list := y.bins.List
	if len(list) == 0 {
		return false
	}
	clear(y.uses)
	for k, e := range list {
		y.uses[e]++
		use := compute.ExpertUse{Hits: 1}
		if y.gpu.At[e] == compute.Absent {
			use = compute.ExpertUse{Misses: 1}
		}
		s.use.ExpertUse.Add(use)
		if len(p.Uses) > 0 {
			p.Uses[p.Seq[k/y.used]].Add(use)
		}
	}
	if b := y.model; b != nil && b.On {
		b.Add(0, list)
	}
	y.bins.List = list[:0]
	tokens := len(list) / y.used
	s.policy.Used(i, tokens, y.uses)
	if s.Watch != nil {
		s.Watch(i, tokens, y.uses)
	}
	return true
}

// advance begins a copy, or takes the one under way a step further, without waiting for it.
func (s *slots) advance(d *Device) error {
	if s.phase == filling {
		select {
		case <-s.filled:
			s.phase = sending
		default:
			return nil
		}
	}
	if s.phase == sending {
		arrived, err := s.stage.Send()
		if err != nil || !arrived {
			return d.ofGPU(err)
		}
		s.arrive()
	}
	move, ok := s.policy.Next()
	if !ok {
		return nil
	}
	s.now, s.phase, s.filled = move, filling, make(chan struct{})
	y := s.layers[move.Layer]
	for e, at := range y.gpu.At {
		if at == move.Slot {
			y.gpu.At[e], y.host.At[e] = compute.Absent, int32(e)
		}
	}
	y.sort()
	if s.AtOnce {
		s.fill(d.host.(compute.RowKeeper))
	} else {
		go s.fill(d.host.(compute.RowKeeper))
	}
	return nil
}

// arrive has the GPU compute the expert that has come.
func (s *slots) arrive() {
	y := s.layers[s.now.Layer]
	y.gpu.At[s.now.Expert], y.host.At[s.now.Expert] = s.now.Slot, compute.Absent
	y.sort()
	s.policy.Done(s.now)
	s.use.Promotions++
	s.use.Bytes += s.now.Bytes
	s.phase = idle
}

// Rows are staged in parts of about fillBytes, behind each of which the goroutine rests fillRest times as long as that took: the cores and the bandwidth
// are the steps'.
const (
	fillBytes = 64 << 10
	fillRest  = 3
)

// fill stages the rows of the expert to come.
func (s *slots) fill(host compute.RowKeeper) {
	defer close(s.filled)
	y := s.layers[s.now.Layer]
	for _, m := range y.weights {
		rows := m.Rows / len(y.gpu.At)
		part := max(1, fillBytes/m.Type.RowBytes(m.Cols))
		for r := 0; r < rows; r += part {
			if s.closing.Load() {
				return
			}
			begun := time.Now()
			n := min(part, rows-r)
			from := int(s.now.Expert)*rows + r
			s.stage.Put(mem(m).gpu, int(s.now.Slot)*rows+r, host.Rows(mem(m).host, from, from+n, s.scratch))
			if !s.AtOnce {
				time.Sleep(fillRest * time.Since(begun))
			}
		}
	}
}

// close ends the copy under way, so that nobody reads or writes weights any more.
func (s *slots) close() {
	s.closing.Store(true)
	if s.phase == filling {
		<-s.filled
	}
}
