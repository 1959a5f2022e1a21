package engine

import (
	"slices"
	"time"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/model"
	"github.com/powerinfer-go/powerinfer/internal/monotime"
)

// Spent holds the time that steps took.
type Spent struct {
	Steps  int64
	Tokens int64 // rows of the steps
	Chosen int64 // rows of logits: tokens that were chosen
	Time   time.Duration
	Work   compute.Work // the parts of Time; the remainder is waiting for the processor or a GPU
	Read   model.Read
	Units  compute.UnitUse
}

// workCounts counts what an engine's steps take and compute. Engine.mu guards it.
type workCounts struct {
	watchers int
	loads    int               // how often the model was loaded; each time its own counts begin again
	past     []model.NeuronUse // [layers] subtracted from the model's counts: minus those of earlier loads; nil: nothing
	spent    [2]Spent          // while somebody watched: steps of single tokens, and steps with prompts
}

// add adds o to s, or subtracts it if sign is -1.
func (s *Spent) add(o *Spent, sign int64) {
	s.Steps += sign * o.Steps
	s.Tokens += sign * o.Tokens
	s.Chosen += sign * o.Chosen
	s.Time += time.Duration(sign) * o.Time
	s.Work = s.Work.Plus(o.Work, time.Duration(sign))
	s.Read.All += sign * o.Read.All
	s.Read.RAM += sign * o.Read.RAM
	s.Read.Dense += sign * o.Read.Dense
	if sign < 0 {
		s.Units = s.Units.Since(o.Units)
	} else {
		s.Units.Add(o.Units)
	}
}

// Activity sums up an engine's steps over some time.
type Activity struct {
	Single  Spent             // on steps of single tokens: generations
	Prompts Spent             // on steps with parts of prompts
	Neurons []model.NeuronUse // [layers]
	Bins    [][]uint32        // [layers][bins] see compute.NeuronBins
}

// A Watch observes an engine's steps. While there is one, steps measure times and count neurons; otherwise they do not.
// One goroutine uses it.
type Watch struct {
	e     *Engine
	loads int // workCounts.loads of last
	last  Activity
	bins  [][]uint32 // [layers] the model's counts at last
}

// Watch returns a Watch that observes from now on. Close ends it.
func (e *Engine) Watch() *Watch {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.work.watchers++; e.broken == nil {
		e.model.Watch(true, true)
	}
	w := &Watch{e: e, bins: make([][]uint32, e.config.Layers)}
	w.last.Bins = make([][]uint32, e.config.Layers)
	w.begin()
	return w
}

// begin makes the next Read count from now on.
func (w *Watch) begin() {
	w.loads = w.e.work.loads
	w.last.Single, w.last.Prompts, w.last.Neurons = w.e.work.spent[0], w.e.work.spent[1], w.e.neurons()
	for l := range w.bins {
		w.bins[l] = append(w.bins[l][:0], w.e.model.Bins(l)...)
	}
}

// Read returns the activity since the last Read. Its Bins are valid until the next Read. It waits for the step that
// runs.
func (w *Watch) Read() Activity {
	w.e.mu.Lock()
	defer w.e.mu.Unlock()
	if w.loads != w.e.work.loads {
		w.begin() // the counts began anew
	}
	a, before := Activity{Single: w.e.work.spent[0], Prompts: w.e.work.spent[1], Neurons: w.e.neurons(), Bins: w.last.Bins}, w.last
	w.last = a
	a.Single.add(&before.Single, -1)
	a.Prompts.add(&before.Prompts, -1)
	a.Neurons = slices.Clone(a.Neurons)
	for l := range a.Neurons {
		a.Neurons[l] = a.Neurons[l].Since(before.Neurons[l])
		now := w.e.model.Bins(l)
		a.Bins[l] = slices.Grow(a.Bins[l][:0], len(now))[:len(now)]
		for i, n := range now {
			a.Bins[l][i] = n - w.bins[l][i]
		}
		copy(w.bins[l], now)
	}
	return a
}

// Close ends the watch.
func (w *Watch) Close() {
	w.e.mu.Lock()
	defer w.e.mu.Unlock()
	if w.e.work.watchers--; w.e.work.watchers == 0 && w.e.broken == nil {
		w.e.model.Watch(w.e.options.Work, false)
	}
}

// forward makes run compute a step, and adds up its costs while somebody watches. It does not count steps that
// evaluate tokens a second time: comparisons with every neuron, and drafting steps.
func (e *Engine) forward(p *compute.Params, run func(*compute.Params) error) error {
	switch {
	case p.Everything || p.Draft:
		before, work := e.model.Neurons(), e.model.Work()
		if p.Everything { // a change makes a GPU record steps again
			e.model.Watch(e.options.Work || e.work.watchers > 0, false)
		}
		err := run(p)
		e.model.SetWork(work)
		if p.Everything {
			e.model.Watch(e.options.Work || e.work.watchers > 0, e.work.watchers > 0)
		}
		if e.work.past == nil {
			e.work.past = make([]model.NeuronUse, len(before))
		}
		for l, now := range e.model.Neurons() {
			e.work.past[l] = e.work.past[l].Since(before[l].Since(now)) // adds now less before
		}
		return err
	case e.work.watchers == 0 && !e.options.Work:
		return run(p)
	}
	begin, work, read, units := monotime.Now(), e.model.Work(), e.model.Read(), e.dev.Usage().Units
	err := run(p)
	step, before := Spent{Steps: 1, Tokens: int64(len(p.Tokens)), Chosen: int64(len(p.Out)), Time: monotime.Since(begin), Work: e.model.Work(), Read: e.model.Read(), Units: e.dev.Usage().Units.Since(units)}, Spent{Work: work, Read: read}
	step.add(&before, -1)
	kind := &e.work.spent[1]
	if p.Decode == len(p.Tokens) && len(p.Out) == len(p.Tokens) {
		kind = &e.work.spent[0]
	}
	kind.add(&step, 1)
	return err
}

// Spent returns the time of steps since the engine was opened, if its options ask for Work: steps of single tokens, and
// steps with parts of prompts. It waits for the step that runs.
func (e *Engine) Spent() (single, prompts Spent) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.work.spent[0], e.work.spent[1]
}

// Threshold returns the logit from which neurons of a predictor are computed.
func (e *Engine) Threshold() float32 {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.model.Threshold
}

// SetThreshold changes the threshold for later steps. No later request reuses earlier keys and values.
func (e *Engine) SetThreshold(t float32) {
	e.sched.forget(func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.model.Threshold, e.options.Threshold = t, &t
	})
}

// Placed returns which parts of layer l are on a GPU.
func (e *Engine) Placed(l int) compute.Place {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.model.Placed(l)
}
