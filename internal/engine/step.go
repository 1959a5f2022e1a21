package engine

import (
	"cmp"
	"errors"
	"slices"
)

// part is a task's part of a step.
type part struct {
	t      *task
	n      int // positions
	drafts int // draft tokens after them
}

// compose chooses the rows of the next step. It reports whether there are any. A step with every neuron serves one task
// alone; the other tasks have every second step.
func (s *scheduler) compose() bool {
	s.step = s.step[:0]
	if s.lone = !s.lone; s.lone {
		s.composeLone()
	}
	if len(s.step) == 0 {
		s.composeShared()
	}
	if len(s.step) == 0 {
		s.composeLone()
	}
	return len(s.step) > 0
}

// composeLone chooses a step for one task with steps of its own: with every neuron, or with its own adapter scales. It
// takes the task that was served longest ago, or the oldest among equals.
func (s *scheduler) composeLone() {
	var waiting []*task
	for _, t := range s.tasks {
		if t.alone() && t.ready() {
			waiting = append(waiting, t)
		}
	}
	slices.SortStableFunc(waiting, func(t, u *task) int { return cmp.Compare(t.served, u.served) })
	for _, t := range waiting { // tasks without a free page wait: an older one has it
		if n, _ := s.admit(t, 0, s.pace.chunk(s.rows), s.outputs); n > 0 {
			s.loneSteps++
			t.served = s.loneSteps
			return
		}
	}
}

// composeShared chooses a step for all other tasks.
func (s *scheduler) composeShared() {
	running, begun, hurry := 0, 0, false
	for _, t := range s.tasks {
		if t.alone() {
			continue
		}
		hurry = hurry || t.expectsTurn(s.now())
		if t.ready() && t.decodes() {
			running++
		}
		if t.started && !t.logits.late && t.pooled == nil {
			begun++
		}
	}
	running = min(running, s.rows, s.outputs)
	rows, outputs, prompts := s.rows-running, s.outputs-running, s.rows-running // without rows reserved for running tasks
	drafts := min(s.drafts, rows)
	if s.crowded {
		drafts, s.crowded = 0, false
	}
	if hurry {
		prompts = min(s.pace.chunk(s.rows), prompts)
	}
	for _, t := range s.tasks {
		switch {
		case !t.ready() || t.alone():
		case t.decodes():
			if running > 0 {
				running--
				n, out := s.admit(t, min(max(len(t.draft.labels), t.draft.wish), drafts), 1+min(t.draft.again, rows), 1)
				more := max(0, n-1) + max(0, out-1)
				rows, prompts = rows-more, max(0, prompts-more)
				drafts = min(drafts-max(0, out-1), rows)
			}
		case t.whole:
			if t.backlog() <= rows {
				n, _ := s.admit(t, 0, rows, 0)
				rows, prompts = rows-n, max(0, prompts-n)
			}
		case t.started || t.pooled != nil || begun < s.outputs: // embeddings need no rows of logits
			if !t.started && t.pooled == nil {
				begun++
			}
			n, out := s.admit(t, 0, min(prompts, rows), outputs)
			rows, prompts, outputs = rows-n, prompts-n, outputs-out
		}
	}
}

// decoding counts the step's parts that decode, and their tokens beyond one each: draft tokens, and tokens that are
// evaluated again after a wrong one.
func (s *scheduler) decoding() (n, drafts int) {
	for i := range s.step {
		if s.step[i].t.decodes() {
			n++
			drafts += s.step[i].drafts + s.step[i].n - 1
		}
	}
	return n, drafts
}

// admit adds t's next positions to the step, at most most with at most outputs rows of logits, if there are pages for
// them. It adds drafts draft tokens after them if there are pages for these, too. It returns the numbers of positions
// and of rows of logits.
func (s *scheduler) admit(t *task, drafts, most, outputs int) (n, out int) {
	if most == 0 {
		return 0, 0
	}
	oldest := len(s.step) == 0
	if t.kv.Len() == 0 && !oldest && t.kv.Needs(len(t.labels))+1 > s.kv.Available() {
		return 0, 0 // it would only lose its pages again
	}
	if rest := t.takeable(); len(rest) > 0 {
		gained := t.kv.Follow(rest, t.reuse == ReuseAny)
		if !t.started {
			t.reused += gained
			if t.reuse == ReuseAny {
				t.shorten(s.short)
			}
		}
	}
	at := t.kv.Len()
	if at == 0 {
		t.turned = 0
	}
	most = min(most, t.extension.room(at))
	for n < min(most, t.backlog()) {
		if want := t.wants(at + n); want && out == outputs {
			break
		} else if want {
			out++
		}
		n++
	}
	if s.kv.States > 0 {
		n, out = s.upToCheckpoint(t, n, out)
	}
	if t.pictures != nil {
		if n, out = s.upToPicture(t, n, out); n == 0 {
			return 0, 0
		}
	}
	drafts = min(drafts, t.extension.room(at)-n)
	if drafts < t.draft.fewest || !t.kv.Reserve(s.reach(n, drafts, t.draft.wish > 0)) {
		drafts = 0
	}
	for n > 0 && drafts == 0 && !t.kv.Reserve(n) {
		if v := s.victim(t); v != nil {
			v.kv.Release()
			s.counts.evicted++
			continue
		}
		return 0, 0
	}
	if n > 0 {
		if !t.started {
			t.started, t.began = true, s.now()
		}
		t.inStep = true
		s.step = append(s.step, part{t, n, drafts})
	}
	return n, out + drafts
}

// reach returns how many positions after those in the cache a text needs for a step of n of its tokens and drafts draft
// tokens. made: the draft tokens are still to be made, and a block of them needs all of its positions.
func (s *scheduler) reach(n, drafts int, made bool) int {
	if drafts > 0 && made && s.further != nil {
		return max(n+drafts, n-1+s.further.Block)
	}
	return n + drafts
}

// victim returns the task that gives its pages to t: a sequence without work, one with a client that does not take its
// logits, or the youngest task that is younger than t and not in the step.
func (s *scheduler) victim(t *task) *task {
	for _, v := range s.held {
		if len(v.kv.Pages()) > 0 {
			return v
		}
	}
	var youngest *task
	for _, v := range s.tasks {
		if v == t || v.inStep || len(v.kv.Pages()) == 0 {
			continue
		}
		if v.logits.late && !v.ready() {
			return v
		}
		if v.order > t.order {
			youngest = v
		}
	}
	return youngest
}

// fill writes the step's params: rows that are computed as single tokens lead.
func (s *scheduler) fill() {
	p := &s.params
	p.Tokens, p.Pos, p.Seq, p.Out, p.Pages, p.Near, p.States, p.Decode = p.Tokens[:0], p.Pos[:0], p.Seq[:0], p.Out[:0], p.Pages[:0], p.Near[:0], p.States[:0], 0
	s.wanted.begin()
	p.Before = p.Before[:0]
	if p.Turns = nil; slices.ContainsFunc(s.step, func(c part) bool { return c.t.extension.on() }) {
		p.Turns = s.rotated[:0]
	}
	if p.Types = nil; slices.ContainsFunc(s.step, func(c part) bool { return c.t.types != nil }) {
		p.Types = s.types[:0]
	}
	s.fillPictures()
	p.Uses = slices.Grow(p.Uses[:0], len(s.step))[:len(s.step)]
	clear(p.Uses)
	p.Draft, p.Everything, p.Scales = false, s.step[0].t.dense, s.step[0].t.scales
	for _, decoded := range []bool{true, false} {
		for i := range s.step {
			s.fillPart(i, decoded)
		}
		if decoded {
			p.Decode = len(p.Tokens)
		}
	}
	if p.Turns != nil && p.Axes == nil {
		s.rotated = p.Turns
	}
	if p.Types != nil {
		s.types = p.Types
	}
}

// fillPart writes the rows of one kind that part i has.
func (s *scheduler) fillPart(i int, decoded bool) {
	c, p := &s.step[i], &s.params
	if decoded {
		p.Pages = append(p.Pages, c.t.kv.Pages())
		if near := c.t.kv.Near(); near != nil {
			p.Near = append(p.Near, near)
		}
		s.fillBehind(c.t)
		if s.kv.States > 0 {
			p.States = append(p.States, c.t.kv.State())
		}
	}
	at := c.t.kv.Len()
	if decoded && s.carries() {
		p.Before = append(p.Before, c.t.states.before(at))
	}
	for pos := at; pos < at+c.n+c.drafts; pos++ {
		l := c.t.label(pos)
		if l.Decoded() != decoded {
			continue
		}
		if c.t.wants(pos) {
			p.Out = append(p.Out, int32(len(p.Tokens)))
		}
		switch {
		case c.t.pools(pos):
			s.wanted.hidden = append(s.wanted.hidden, int32(len(p.Tokens)))
		case s.carries() && c.t.pooled == nil && pos >= at+c.n-1 && (!s.further.Last || c.t.wants(pos)):
			s.wanted.states = append(s.wanted.states, int32(len(p.Tokens)))
		}
		if p.Given != nil || p.Axes != nil || p.Bounds != nil {
			s.fillPicture(c.t, pos)
		}
		if p.Turns != nil && p.Axes == nil {
			p.Turns = append(p.Turns, c.t.extension.position(pos, c.t.turned))
		}
		if p.Types != nil {
			p.Types = append(p.Types, c.t.kind(pos))
		}
		p.Tokens, p.Pos, p.Seq = append(p.Tokens, l.Token()), append(p.Pos, int32(pos)), append(p.Seq, int32(i))
	}
}

// deliver hands the step's results, or its error, to its tasks.
func (s *scheduler) deliver(err error) {
	if errors.Is(err, errLost) {
		s.restart()
		return
	}
	p := &s.params
	if n, drafts := s.decoding(); err == nil {
		s.pace.observe(n+drafts, len(p.Tokens)-n-drafts, s.last)
		if n+drafts == len(p.Tokens) { // the first step of an engine is slow, and often a short prompt's
			s.costs.observe(len(p.Tokens), s.last)
		}
		s.settle(n)
		s.count(n, drafts)
	}
	for i := range s.step {
		c := &s.step[i]
		t := c.t
		t.inStep = false
		if t.gone || err != nil {
			t.kv.Spoil()
		}
		switch {
		case t.gone:
			t.kv.Release()
			continue
		case err != nil:
			s.remove(t, err)
			continue
		}
		s.pool(i)
		t.uses.Add(p.Uses[i])
		at := t.kv.Len()
		if t.draft.drafted = c.drafts; c.drafts > 0 && s.kv.States > 0 {
			t.draft.tried = c.n
		} else {
			t.kv.Append(t.labels[at : at+c.n]...)
			t.draft.again = min(max(0, t.draft.again-c.n), t.backlog())
			s.checkpoint(t)
		}
		t.mark = max(t.mark, at+c.n)
		for out, row := range p.Out {
			if int(p.Seq[row]) == i {
				t.logits.rows, t.logits.positions = append(t.logits.rows, s.runner.logits(out)), append(t.logits.positions, int(p.Pos[row]))
			}
		}
		if len(t.logits.rows) > 0 {
			t.logits.where = offered
			t.logits.since = s.now()
			if !t.logits.late {
				t.logits.awaited = true
				s.awaited++
			}
		}
		if t.pooled != nil && t.mark == len(t.labels) {
			s.remove(t, nil) // its states are gathered, so others may have its pages
		}
		if len(t.logits.rows) > 0 || t.progress || t.mark == len(t.labels) {
			t.signal()
		}
	}
}

// pool hands the hidden states of part i to its task, which pools them, and the states that it keeps for drafts.
func (s *scheduler) pool(i int) {
	p, c := &s.params, &s.step[i]
	for n, row := range s.wanted.hidden {
		if int(p.Seq[row]) == i {
			c.t.pooled.add(s.runner.hidden(n))
		}
	}
	known := 0
	for n, row := range s.wanted.states {
		if int(p.Seq[row]) == i {
			c.t.states.keep(known, int(p.Pos[row]), s.runner.state(n))
			known++
		}
	}
}

// begin empties the lists.
func (w *wanted) begin() { w.hidden, w.states = w.hidden[:0], w.states[:0] }

// carries reports whether drafts read states of the positions before.
func (s *scheduler) carries() bool { return s.further != nil && s.further.State > 0 }
