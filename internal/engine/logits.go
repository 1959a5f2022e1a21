package engine

import (
	"github.com/powerinfer-go/powerinfer/internal/kvcache"
	"github.com/powerinfer-go/powerinfer/internal/speculate"
)

// take gives t's client the logits, if there are any, and returns how many positions were read. If there are other
// tasks, take copies the logits, so that the next step need not wait for the client. Otherwise the client reads them in
// place and must call back.
func (s *scheduler) take(t *task) (rows [][]float32, read int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case t.gone || t.logits.where != offered:
		return nil, t.mark, t.err
	case t.logits.copied:
		return t.logits.rows, t.mark, nil
	}
	t.logits.where = taken
	s.taken++
	if len(s.tasks) == 1 || t.inPlace() {
		return t.logits.rows, t.mark, nil
	}
	s.mu.Unlock()
	t.copy()
	s.mu.Lock()
	s.untake(t)
	return t.logits.rows, t.mark, nil
}

// inPlace reports whether the task's logits are never copied. That holds for an evaluation: it may have many rows, and
// its client reads them at once.
func (t *task) inPlace() bool { return !t.generates && len(t.logits.rows) > 1 }

// copy brings the rows of logits to the task's own memory.
func (t *task) copy() {
	for i, row := range t.logits.rows {
		if i == len(t.logits.own) {
			t.logits.own = append(t.logits.own, make([]float32, len(row)))
		}
		copy(t.logits.own[i], row)
		t.logits.rows[i] = t.logits.own[i]
	}
	t.logits.copied = true
}

// untake ends the reading of logits in place.
func (s *scheduler) untake(t *task) {
	if t.logits.where != taken {
		return
	}
	t.logits.where = offered
	if s.taken--; s.taken == 0 {
		s.notify()
	}
}

// unawait lets the next step run without t.
func (s *scheduler) unawait(t *task) {
	if t.logits.awaited {
		t.logits.awaited = false
		s.awaited--
	}
}

// back gives the logits back. The first accepted of the evaluated draft tokens were right. If next is not nil, it is
// evaluated next, followed by drafts.
func (s *scheduler) back(t *task, accepted int, next *kvcache.Label, drafts ...int32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.takeBack(t, accepted)
	if next != nil {
		t.labels = append(t.labels, *next)
		for _, id := range drafts {
			t.draft.labels = append(t.draft.labels, kvcache.LabelOf(id, true))
		}
	}
	if s.asleep || s.awaited == 0 {
		s.notify()
	}
}

// backHot is back with at most wish draft tokens, which the model's own hot neurons make.
func (s *scheduler) backHot(t *task, accepted int, next kvcache.Label, wish int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.takeBack(t, accepted)
	t.labels = append(t.labels, next)
	t.draft.wish = wish
	if s.asleep || s.awaited == 0 {
		s.notify()
	}
}

// takeBack ends the use of t's logits, with the lock held.
func (s *scheduler) takeBack(t *task, accepted int) {
	s.untake(t)
	s.unawait(t)
	t.logits.where, t.logits.copied = idle, false
	t.logits.rows, t.logits.positions = t.logits.rows[:0], t.logits.positions[:0]
	t.logits.late = s.now()-t.logits.since > s.patience()
	s.counts.drafted += int64(t.draft.drafted)
	s.counts.accepted += int64(accepted)
	if t.accept(accepted); t.kv != nil && t.backlog() == 0 {
		s.checkpoint(t)
	}
}

// firstDrafts is the most drafts that are checked before the time of a step with drafts is known. Later the bound is
// twice the most that was observed.
const firstDrafts = 2

// checking returns the cost of checking up to most drafts of t, or of fewer if the cost of more is not known yet. It
// uses the memory of times if that has room.
func (s *scheduler) checking(t *task, most int, times []float64) speculate.Cost {
	s.mu.Lock()
	defer s.mu.Unlock()
	others := 0
	for _, o := range s.tasks {
		if o != t && o.generates && o.started && !o.logits.late {
			others++
		}
	}
	step := s.costs.time(others + 1)
	known := 0
	if s.costs.near(others+1, -1) > 0 {
		known = s.costs.widest() - others - 1
	}
	most = min(most, max(firstDrafts, t.draft.fewest, 2*known))
	times = times[:0]
	for n := range most + 1 {
		times = append(times, s.costs.time(others+1+n)/step)
	}
	cost := speculate.Cost{Others: others, Times: times, Fewest: t.draft.fewest, Again: s.kv.States > 0}
	if s.costs.widest() > 0 { // else times are none in nanoseconds
		cost.Step, cost.Once = step, s.keep/step
	}
	return cost
}
