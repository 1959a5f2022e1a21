package hybrid

import (
	"cmp"
	"slices"
	"sync/atomic"
	"time"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/residency"
)

// Slots says how the experts in the GPU's slots follow the text.
type Slots struct {
	Speeds residency.Speeds
	Tuning residency.Tuning
	// AtOnce makes every copy that pays between two steps, on the goroutine that computes. Tests set it to get the same
	// copies in each run.
	AtOnce bool
	// Watch is called after each step with its uses in a layer with slots; layers are numbered in the model's order:
	// uses[e] of tokens used expert e. It may be nil.
	Watch func(layer, tokens int, uses []int32)
}

// slots are all layers' slots, and the copies that are under way. But for fill, it belongs to the goroutine that runs
// steps.
type slots struct {
	Slots
	policy *residency.Policy
	layers []*slotted
	use    compute.SlotUse

	copies  []*copying         // under way, in the order of their beginnings: at most residency.Copies
	stages  []compute.RowStage // that no copy uses
	unknown int                // matrices with slots in layers that were not recorded yet
	size    int64              // bytes of a stage: the largest expert's
	unit    int64              // bytes of the largest expert on disk, as the file has it; 0: all are in RAM
	borrows bool               // the host has RAM for experts on disk that are copied
	unread  error              // the first error of reading an expert that was to be copied
	scratch []byte             // scratch of fill
	closing atomic.Bool        // fill is to end early
}

// copying is an expert on its way to the GPU. Its rows are staged, one expert after the other, and then sent.
type copying struct {
	residency.Move
	stage  compute.RowStage
	unit   compute.UnitFetch // of an expert on disk, until it is staged; or nil
	filled chan struct{}     // is closed when the rows are in the stage, or failed is set
	failed error             // of reading the expert from disk
	begun  bool              // the slot is being overwritten
}

// staged reports whether the rows are in the stage.
func (c *copying) staged() bool {
	select {
	case <-c.filled:
		return true
	default:
		return false
	}
}

// slotted is a layer with slots on the GPU for its experts.
type slotted struct {
	gpu, host compute.ExpertTable
	bins      compute.NeuronBins  // the experts that each row of the step used
	model     *compute.NeuronBins // the model's bins, which bins is added to; or nil
	weights   []*compute.Matrix   // the device's own: gate, if there is one, up, down
	used      int                 // experts of a token
	uses      []int32             // scratch

	// For steps of prompts, which send the experts that are in no slot:
	absent []int32                // the experts in no slot, in ascending order
	chunks []*compute.ExpertTable // which of absent each chunk brings, and where
}

// FollowUse makes the experts of layers with slots (compute.Split.Slots) follow the text. It is called before weights
// are loaded.
func (d *Device) FollowUse(s Slots) { d.slots.Slots = s }

// slotsOf returns the layer's slots, and makes them when the layer is first recorded. It returns nil if the layer's
// experts do not move.
func (r *router) slotsOf(w *compute.ExpertWeights, c compute.Choice) *slotted {
	m := mem(w.Down)
	if !m.slots || m.known {
		return m.slotted
	}
	for _, m := range []*compute.Matrix{w.Gate, w.Up, w.Down} {
		if m != nil {
			r.d.slots.unknown--
		}
	}
	var err error
	m.known = true
	if m.slotted, err = r.d.slots.add(r.d, w, c); err != nil {
		r.fail(err)
	}
	return m.slotted
}

// add makes slots for a layer, or returns nil where the host does not give its rows.
func (s *slots) add(d *Device, w *compute.ExpertWeights, c compute.Choice) (*slotted, error) {
	held := mem(w.Down).hot / (w.Down.Rows / c.N)
	y := &slotted{
		gpu: *compute.NewExpertTable(c.N, 0, held), host: *compute.NewExpertTable(c.N, 0, c.N), model: w.Bins, used: c.Used, uses: make([]int32, c.N),
		bins: compute.NeuronBins{On: true, Neurons: c.N, Listing: true},
	}
	bytes, staged := int64(0), int64(0)
	for _, m := range []*compute.Matrix{w.Gate, w.Up, w.Down} {
		if m == nil {
			continue
		}
		if cold := mem(m).host; !d.host.KeepsRows(cold) && !(s.borrows && d.host.Lends(cold)) {
			return nil, nil
		}
		rows := m.Rows / c.N
		y.weights = append(y.weights, m)
		bytes += int64(rows) * int64(m.Type.RowBytes(m.Cols))
		staged += d.gpu.StagedBytes(mem(m).gpu, rows)
		if scratch := fillBytes + m.Type.RowBytes(m.Cols); scratch > len(s.scratch) { // no copy begins before all layers are recorded
			s.scratch = make([]byte, scratch)
		}
	}
	s.size = max(s.size, staged)
	first := make([]int32, held)
	for e := range first {
		first[e], y.host.At[e] = int32(e), compute.Absent
	}
	if s.policy == nil {
		s.Speeds.Beside = d.gpu.CopiesBeside()
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

// hasExpert reports whether the GPU now has expert e of the layer with the down matrix m. It has the first held experts
// if they do not move.
func (m *matrix) hasExpert(e, held int) bool {
	if m.slotted != nil {
		return m.slotted.gpu.At[e] != compute.Absent
	}
	return e < held
}

// chunked divides the experts that are in no slot into chunks of at most most. Slots that are being filled hold no
// expert, so there may be residency.Copies more experts than the slots leave out.
func (y *slotted) chunked(most int) {
	if y.chunks != nil {
		return
	}
	n := len(y.gpu.At)
	for out := min(n, n-y.gpu.Held+residency.Copies); out > 0; out -= most {
		y.chunks = append(y.chunks, compute.NewExpertTable(n, 0, min(most, out)))
	}
	y.sort()
}

// sort lists the experts that are in no slot now, and has the chunks bring them.
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

// chunk returns the experts of chunk c; a chunk has at most most.
func (y *slotted) chunk(c, most int) []int32 {
	from := min(c*most, len(y.absent))
	return y.absent[from:min(from+most, len(y.absent))]
}

// step counts what a step of p has used, and brings copies forward by a share of the time that it took. It is called
// between steps.
func (s *slots) step(d *Device, p *compute.Params, took time.Duration) error {
	used := false
	for i, y := range s.layers {
		used = s.count(i, y, p) || used
	}
	for used && s.unknown == 0 { // steps without logits do not record the last layer's experts
		err := s.advance(d, s.Speeds.Piece(took.Seconds()))
		if err != nil || !s.AtOnce || len(s.copies) == 0 {
			return err
		}
	}
	return nil
}

// forget leaves out what a step has used that failed.
func (s *slots) forget() {
	for _, y := range s.layers {
		y.bins.List = y.bins.List[:0]
	}
}

// count counts the step's uses in a layer, and reports whether the layer was part of the step.
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
			p.Uses[p.Seq[p.Row(k/y.used, y.bins.Outputs)]].Add(use)
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

// advance sends at most piece bytes of the staged copies, makes the GPU compute the experts that have arrived, and
// begins copies that pay off. It does not wait.
func (s *slots) advance(d *Device, piece int64) error {
	for i := 0; i < len(s.copies) && s.copies[i].staged() && piece > 0; {
		c := s.copies[i]
		if c.unit != nil {
			c.unit.Release()
			c.unit = nil
		}
		if c.failed != nil { // a step that needs the expert reads it, too, and returns the error
			s.unread = cmp.Or(s.unread, c.failed)
			s.policy.Fail(c.Move)
			s.copies, s.stages = slices.Delete(s.copies, i, i+1), append(s.stages, c.stage)
			continue
		}
		if !c.begun {
			s.empty(c)
		}
		sent, arrived, err := c.stage.Send(piece)
		if err != nil {
			return d.ofGPU(err)
		}
		if arrived {
			s.arrive(c)
			s.copies, s.stages = slices.Delete(s.copies, i, i+1), append(s.stages, c.stage)
			continue
		}
		piece -= sent
		i++
	}
	for len(s.copies) < residency.Copies {
		move, ok := s.policy.Next()
		if !ok {
			return nil
		}
		if err := s.begin(d, move); err != nil {
			return err
		}
	}
	return nil
}

// begin begins to stage an expert. What its slot holds is computed with there until the expert is sent.
func (s *slots) begin(d *Device, move residency.Move) error {
	if len(s.stages) == 0 {
		stage, err := d.gpu.RowStage(s.size)
		if err != nil {
			return d.ofGPU(err)
		}
		s.stages = append(s.stages, stage)
	}
	last := len(s.stages) - 1
	c := &copying{Move: move, stage: s.stages[last], filled: make(chan struct{})}
	s.stages = s.stages[:last]
	if m := mem(s.layers[move.Layer].weights[0]); m.units > 0 {
		c.unit = d.host.Borrow(m.host, move.Expert)
	}
	var before *copying
	if len(s.copies) > 0 {
		before = s.copies[len(s.copies)-1]
	}
	s.copies = append(s.copies, c)
	if s.AtOnce {
		s.fill(d.host, c, before)
	} else {
		go s.fill(d.host, c, before)
	}
	return nil
}

// empty makes the CPU compute the expert in the slot from now on, because the slot is being overwritten.
func (s *slots) empty(c *copying) {
	c.begun = true
	y := s.layers[c.Layer]
	if e := s.policy.Sending(c.Move); e != residency.Absent {
		y.gpu.At[e], y.host.At[e] = compute.Absent, e
		y.sort()
	}
}

// arrive has the GPU compute the expert that has come.
func (s *slots) arrive(c *copying) {
	y := s.layers[c.Layer]
	y.gpu.At[c.Expert], y.host.At[c.Expert] = c.Slot, compute.Absent
	y.sort()
	s.policy.Done(c.Move)
	s.use.Promotions++
	s.use.Bytes += c.Bytes
}

// Rows are staged in parts of about fillBytes. After each part the goroutine rests fillRest times as long as the part
// took, because steps need the cores and the bandwidth.
const (
	fillBytes = 64 << 10
	fillRest  = 1
)

// fill stages the rows of c after those of the copy before it, which may be nil.
func (s *slots) fill(host compute.RowKeeper, c, before *copying) {
	defer close(c.filled)
	if before != nil {
		<-before.filled
	}
	if c.unit != nil {
		if c.failed = c.unit.Wait(); c.failed != nil {
			return
		}
	}
	y := s.layers[c.Layer]
	for _, m := range y.weights {
		rows := m.Rows / len(y.gpu.At)
		part := max(1, fillBytes/m.Type.RowBytes(m.Cols))
		for r := 0; r < rows; r += part {
			if s.closing.Load() {
				return
			}
			begun := time.Now()
			n := min(part, rows-r)
			c.stage.Put(mem(m).gpu, int(c.Slot)*rows+r, c.rows(host, m, r, n, len(y.gpu.At), s.scratch))
			if !s.AtOnce {
				time.Sleep(fillRest * time.Since(begun))
			}
		}
	}
}

// rows returns rows [first, first+n) of the expert's matrix in m, in scratch or in the host's memory.
func (c *copying) rows(host compute.RowKeeper, m *compute.Matrix, first, n, experts int, scratch []byte) compute.Source {
	cold := mem(m).host
	if c.unit == nil {
		from := int(c.Expert)*(m.Rows/experts) + first
		return host.Rows(cold, from, from+n, scratch)
	}
	size := m.Type.RowBytes(m.Cols)
	src := compute.Source{Name: m.Name, Type: m.Type, Rows: n, Cols: m.Cols, Data: scratch[:n*size]}
	for r := range n {
		row := src.Data[r*size:][:size]
		copy(row, c.unit.Row(cold, 0, first+r, row))
	}
	return src
}

// close ends the copies in progress, so that weights are no longer read or written.
func (s *slots) close() {
	s.closing.Store(true)
	for _, c := range s.copies {
		<-c.filled
	}
}
