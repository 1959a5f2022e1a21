package engine

import (
	"cmp"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/kvcache"
	"github.com/powerinfer-go/powerinfer/internal/speculate"
)

// runner computes steps: a model, or what stands for one in tests.
type runner interface {
	// run computes a step, with the hidden states of the rows that hidden lists. The error errLost says that the keys and values of all
	// sequences are lost: a new cache is to be filled.
	run(p *compute.Params, hidden []int32) error
	// turn turns keys between steps, by p.Turns. Its errors are run's.
	turn(p *compute.Params) error
	// logits returns row i of the last step's logits [n_vocab], valid until the next step.
	logits(i int) []float32
	// hidden returns the i-th of the last step's hidden states [n_embd], valid until the next step.
	hidden(i int) []float32
	// cache returns an empty cache over the runner's pages, and what those hold.
	cache() (*kvcache.Cache, contents)
}

// contents reads and writes pages between steps, as compute.Device does. It fails once the cache was given up for another.
type contents interface {
	readPage(page kvcache.Page, layers [][]byte) error
	writePage(page kvcache.Page, layers [][]byte) error
}

// errLost is a runner's error after which everything is evaluated again.
var errLost = errors.New("keys and values are lost")

// limits are the sizes of the largest step, and of a sequence.
type limits struct {
	rows    int // tokens of a step
	outputs int // sequences that generate at a time, which have a row of logits each
	drafts  int // rows of logits of a step besides, for tokens that are checked
	context int // tokens of a sequence
	short   int // tokens of a prompt below which it is evaluated by the arithmetic of single tokens

	leastHot float32 // guesses by the model itself end before a token that has a smaller probability
	further  bool    // the file's further layer makes them: it reads the hidden states of the positions before
}

// scheduler gives the model's turns to tasks. One goroutine runs the steps; tasks join and leave between them. A step holds the next
// token of every running sequence and a bounded part of the prompts that wait. Older tasks go first: where pages run short, the youngest
// loses its pages and is evaluated again later, so that the oldest always goes on.
type scheduler struct {
	limits
	runner runner
	now    func() time.Duration

	mu      sync.Mutex
	kv      *kvcache.Cache
	pages   contents // of kv
	tasks   []*task  // those that have work for the model or will have, oldest first
	held    []*task  // of clients' sequences that have no work now
	arrived uint64
	awaited int // tasks whose clients are given a moment
	taken   int // tasks whose clients read logits in place
	closed  error
	wake    chan struct{}
	asleep  bool          // the goroutine waits for wake alone
	done    chan struct{} // closed when the goroutine has ended
	timer   *time.Timer

	pace     pace
	costs    stepCosts
	guessing stepCosts     // the steps that guess by hot neurons
	guessed  time.Duration // what those before the step took
	last     time.Duration // the last step's
	params   compute.Params
	turns    compute.Params // of turnKeys
	rotated  []int32        // the step's positions where some are not those in the cache
	hidden   []int32        // rows of the step whose hidden states are wanted
	step     []part
	counts   counts
	stepping bool // the runner has the step
	stale    bool // what it computes is to be forgotten
	lone     bool // tasks with steps of their own had the first choice of the last step

	loneSteps uint64 // how many there were
}

// part is a task's part of a step.
type part struct {
	t      *task
	n      int // positions
	drafts int // positions behind them that are checked
}

func newScheduler(r runner, l limits, now func() time.Duration) *scheduler {
	s := &scheduler{rotated: make([]int32, 0, l.rows), limits: l, runner: r, now: now, wake: make(chan struct{}, 1), done: make(chan struct{}), timer: time.NewTimer(time.Hour)}
	s.kv, s.pages = r.cache()
	go s.serve()
	return s
}

// notify wakes the goroutine.
func (s *scheduler) notify() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// join hands t, with what is to be evaluated behind its labels, to the model.
func (s *scheduler) join(t *task, more ...kvcache.Label) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.admitTask(t, more...)
}

// joinAll hands tasks to the model at once, so that they share its next step.
func (s *scheduler) joinAll(tasks []*task) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range tasks {
		if err := s.admitTask(t); err != nil {
			return err
		}
	}
	return nil
}

// admitTask is join with the lock held.
func (s *scheduler) admitTask(t *task, more ...kvcache.Label) error {
	if s.closed != nil {
		return s.closed
	}
	if t.kv == nil {
		t.kv = s.sequence(t)
	}
	t.order, t.gone, t.err = s.arrived, false, nil
	s.arrived++
	t.labels = append(t.labels, more...)
	s.held = slices.DeleteFunc(s.held, func(o *task) bool { return o == t })
	s.tasks = append(s.tasks, t)
	s.notify()
	return nil
}

// sequence returns an empty sequence for t.
func (s *scheduler) sequence(t *task) *kvcache.Sequence {
	if t.private() {
		return s.kv.NewPrivate()
	}
	return s.kv.NewSequence()
}

// forget calls change, which changes what is computed, and has no keys and values serve later requests that were computed before, or are by the
// step that runs.
func (s *scheduler) forget(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
	if s.stale = s.stepping; !s.stale {
		s.kv.Forget()
	}
}

// park takes t from those that have work, and keeps its pages as long as nobody else needs them.
func (s *scheduler) park(t *task) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tasks = slices.DeleteFunc(s.tasks, func(o *task) bool { return o == t })
	s.held = append(s.held, t)
	s.notify()
}

// leave takes t out of the scheduler, because of err or, if it is nil, because it has all it wanted. Its pages are given back at once
// or, if a step is using them, when that has ended.
func (s *scheduler) leave(t *task, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.remove(t, err)
}

// cut forgets t's labels from n on, when it has left. A step may still hold it.
func (s *scheduler) cut(t *task, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t.labels, t.mark = t.labels[:n], min(t.mark, n)
}

func (s *scheduler) remove(t *task, err error) {
	if t.gone {
		return
	}
	t.gone, t.err = true, err
	s.unawait(t)
	s.tasks = slices.DeleteFunc(s.tasks, func(o *task) bool { return o == t })
	s.held = slices.DeleteFunc(s.held, func(o *task) bool { return o == t })
	if !t.inStep && t.kv != nil {
		t.kv.Release()
	}
	t.signal()
	s.notify()
}

// take gives t's client the logits, if there are any, and says how many positions were read. If others are served too, the logits are
// copied first, so that the next step need not wait for what the client does with them; else they are read where they lie, and
// back must follow.
func (s *scheduler) take(t *task) (rows [][]float32, read int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case t.gone || t.where != offered:
		return nil, t.mark, t.err
	case t.copied:
		return t.rows, t.mark, nil
	}
	t.where = taken
	s.taken++
	if len(s.tasks) == 1 || t.inPlace() {
		return t.rows, t.mark, nil
	}
	s.mu.Unlock()
	t.copy()
	s.mu.Lock()
	s.untake(t)
	return t.rows, t.mark, nil
}

// inPlace reports whether the task's logits are always read where they lie: an evaluation's, which may be many and are taken at once.
func (t *task) inPlace() bool { return !t.generates && len(t.rows) > 1 }

// copy brings the rows of logits to the task's own memory.
func (t *task) copy() {
	for i, row := range t.rows {
		if i == len(t.own) {
			t.own = append(t.own, make([]float32, len(row)))
		}
		copy(t.own[i], row)
		t.rows[i] = t.own[i]
	}
	t.copied = true
}

// untake ends the reading of logits in place.
func (s *scheduler) untake(t *task) {
	if t.where != taken {
		return
	}
	t.where = offered
	if s.taken--; s.taken == 0 {
		s.notify()
	}
}

// unawait lets the next step run without t.
func (s *scheduler) unawait(t *task) {
	if t.awaited {
		t.awaited = false
		s.awaited--
	}
}

// back gives the logits back: the first accepted of the drafts that were evaluated were right, and label next is to be evaluated if there is one, with drafts
// behind it.
func (s *scheduler) back(t *task, accepted int, next *kvcache.Label, drafts ...int32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.takeBack(t, accepted)
	if next != nil {
		t.labels = append(t.labels, *next)
		for _, id := range drafts {
			t.drafts = append(t.drafts, kvcache.LabelOf(id, true))
		}
	}
	if s.asleep || s.awaited == 0 {
		s.notify()
	}
}

// backHot is back with at most so many drafts that the model's own hot neurons are to make.
func (s *scheduler) backHot(t *task, accepted int, next kvcache.Label, wish int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.takeBack(t, accepted)
	t.labels = append(t.labels, next)
	t.wish = wish
	if s.asleep || s.awaited == 0 {
		s.notify()
	}
}

// takeBack ends the use of t's logits, with the lock held.
func (s *scheduler) takeBack(t *task, accepted int) {
	s.untake(t)
	s.unawait(t)
	t.where, t.copied = idle, false
	t.rows, t.first = t.rows[:0], t.first[:0]
	t.late = s.now()-t.since > s.patience()
	s.counts.drafted += int64(t.drafted)
	s.counts.accepted += int64(accepted)
	t.accept(accepted)
}

// checking returns what it costs to check up to most drafts of t: times[n] is of a step with n drafts, over one without. times is used if it has room.
func (s *scheduler) checking(t *task, most int, times []float64) speculate.Cost {
	s.mu.Lock()
	defer s.mu.Unlock()
	others := 0
	for _, o := range s.tasks {
		if o != t && o.generates && o.started && !o.late {
			others++
		}
	}
	step := s.costs.time(others + 1)
	times = times[:0]
	for n := range most + 1 {
		times = append(times, s.costs.time(others+1+n)/step)
	}
	return speculate.Cost{Others: others, Times: times, Step: step}
}

// close ends the goroutine; what has not ended fails with err.
func (s *scheduler) close(err error) {
	s.mu.Lock()
	if s.closed == nil {
		s.closed = err
	}
	s.notify()
	s.mu.Unlock()
	<-s.done
}

// serve runs steps until close.
func (s *scheduler) serve() {
	defer close(s.done)
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.closed == nil {
		if !s.await() || !s.compose() {
			if s.closed == nil { // else await has read what close sent to wake
				s.sleep(-1)
			}
			continue
		}
		s.stepping = true
		err := s.turnKeys()
		if err == nil {
			err = s.guess()
		}
		begin := s.now()
		if err == nil {
			s.fill()
			s.mu.Unlock()
			err = s.runner.run(&s.params, s.hidden)
			s.mu.Lock()
		}
		s.stepping = false
		s.last = s.now() - begin
		s.deliver(err)
		if s.stale {
			s.stale = false
			s.kv.Forget()
		}
	}
	for _, t := range slices.Concat(s.tasks, s.held) {
		s.remove(t, s.closed)
	}
}

// sleep waits, without the lock, until something has changed or, unless it is negative, for d.
func (s *scheduler) sleep(d time.Duration) (late bool) {
	s.asleep = d < 0
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		s.asleep = false
	}()
	if d < 0 {
		<-s.wake
		return false
	}
	s.timer.Reset(d)
	defer s.timer.Stop()
	select {
	case <-s.wake:
		return false
	case <-s.timer.C:
		return true
	}
}

// A client gets a share of the last step's time, within bounds, to choose its next token and take part in the next step.
const (
	patienceShare = 8
	leastPatience = 200 * time.Microsecond
	mostPatience  = 5 * time.Millisecond
)

func (s *scheduler) patience() time.Duration {
	return min(max(s.last/patienceShare, leastPatience), mostPatience)
}

// await waits until the clients have had their moment, and logits that lie where the next step would write have been copied. It reports
// whether a step may run.
func (s *scheduler) await() bool {
	until := s.now() + s.patience()
	for s.awaited > 0 && s.closed == nil && slices.ContainsFunc(s.tasks, (*task).ready) {
		left := until - s.now()
		if left > 0 && !s.sleep(left) {
			continue
		}
		for _, t := range s.tasks {
			if t.awaited {
				s.unawait(t)
				t.late = true
			}
		}
	}
	if s.awaited > 0 || s.closed != nil || !slices.ContainsFunc(s.tasks, (*task).ready) {
		return false
	}
	if s.taken > 0 {
		return false
	}
	for _, t := range s.tasks {
		if t.where == offered && !t.copied {
			if t.inPlace() {
				return false
			}
			t.copy()
		}
	}
	return s.closed == nil
}

// compose chooses the rows of the next step. It reports whether there are any. A step of every neuron is one task's alone; the other tasks have
// every second step.
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

// composeLone chooses a step of its own, of every neuron or with scales of adapters that others have not, for the task that was served
// longest ago, the oldest first.
func (s *scheduler) composeLone() {
	var waiting []*task
	for _, t := range s.tasks {
		if t.alone() && t.ready() {
			waiting = append(waiting, t)
		}
	}
	slices.SortStableFunc(waiting, func(t, u *task) int { return cmp.Compare(t.served, u.served) })
	for _, t := range waiting { // those for which there is no page wait: an older one has it
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
		if t.started && !t.late && t.pooled == nil {
			begun++
		}
	}
	running = min(running, s.rows, s.outputs)
	rows, outputs, prompts := s.rows-running, s.outputs-running, s.rows-running // that are not kept for those that run
	drafts := min(s.drafts, rows)
	if hurry {
		prompts = min(s.pace.chunk(s.rows), prompts)
	}
	for _, t := range s.tasks {
		switch {
		case !t.ready() || t.alone():
		case t.decodes():
			if running > 0 {
				running--
				n := min(max(len(t.drafts), t.wish), drafts)
				if _, out := s.admit(t, n, 1, 1); out > 1 {
					drafts, rows, prompts = drafts-n, rows-n, max(0, prompts-n)
				}
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

// decoding counts the step's parts that are single tokens, and the drafts that are checked behind them.
func (s *scheduler) decoding() (n, drafts int) {
	for i := range s.step {
		if s.step[i].t.decodes() {
			n++
			drafts += s.step[i].drafts
		}
	}
	return n, drafts
}

// admit makes t's next positions part of the step, at most so many with at most so many rows of logits, if there are pages for them, and so many
// drafts behind them if there are pages for these, too. It returns how many positions and rows of logits there are.
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
	if s.kv.States > 0 { // which cannot be taken back behind a draft
		drafts = 0
		n, out = s.upToCheckpoint(t, n, out)
	}
	drafts = min(drafts, t.extension.room(at)-n)
	if !t.kv.Reserve(n + drafts) {
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

// victim returns whose pages t may have: a sequence without work, one whose client does not come for its logits, or the youngest
// that is younger than t and not in the step.
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
		if v.late && !v.ready() {
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
	s.hidden, p.Before = s.hidden[:0], p.Before[:0]
	if p.Turns = nil; slices.ContainsFunc(s.step, func(c part) bool { return c.t.extension.on() }) {
		p.Turns = s.rotated[:0]
	}
	p.Draft, p.Everything, p.Scales = false, s.step[0].t.dense, s.step[0].t.scales
	for _, decoded := range []bool{true, false} {
		for i := range s.step {
			s.fillPart(i, decoded)
		}
		if decoded {
			p.Decode = len(p.Tokens)
		}
	}
	if p.Turns != nil {
		s.rotated = p.Turns
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
		if s.kv.States > 0 {
			p.States = append(p.States, c.t.kv.State())
		}
	}
	at := c.t.kv.Len()
	if decoded && s.further {
		p.Before = append(p.Before, c.t.before(at))
	}
	for pos := at; pos < at+c.n+c.drafts; pos++ {
		l := c.t.label(pos)
		if l.Decoded() != decoded {
			continue
		}
		if c.t.wants(pos) {
			p.Out = append(p.Out, int32(len(p.Tokens)))
		}
		if c.t.pools(pos) || s.further && c.t.pooled == nil && pos >= at+c.n-1 {
			s.hidden = append(s.hidden, int32(len(p.Tokens)))
		}
		if p.Turns != nil {
			p.Turns = append(p.Turns, c.t.extension.position(pos, c.t.turned))
		}
		p.Tokens, p.Pos, p.Seq = append(p.Tokens, l.Token()), append(p.Pos, int32(pos)), append(p.Seq, int32(i))
	}
}

// deliver tells the step's tasks how it went.
func (s *scheduler) deliver(err error) {
	if errors.Is(err, errLost) {
		s.restart()
		return
	}
	p := &s.params
	if n, drafts := s.decoding(); err == nil {
		s.pace.observe(n+drafts, len(p.Tokens)-n-drafts, s.last)
		if p.Decode == len(p.Tokens) {
			s.costs.observe(p.Decode, s.last)
		}
		s.settle(n)
		s.count(n, drafts)
	}
	for i := range s.step {
		c := &s.step[i]
		t := c.t
		t.inStep = false
		switch {
		case t.gone:
			t.kv.Release()
			continue
		case err != nil:
			s.remove(t, err)
			continue
		}
		s.pool(i)
		at := t.kv.Len()
		t.kv.Append(t.labels[at : at+c.n]...)
		t.mark, t.drafted = max(t.mark, t.kv.Len()), c.drafts
		s.checkpoint(t)
		for out, row := range p.Out {
			if int(p.Seq[row]) == i {
				t.rows, t.first = append(t.rows, s.runner.logits(out)), append(t.first, int(p.Pos[row]))
			}
		}
		if len(t.rows) > 0 {
			t.where = offered
			t.since = s.now()
			if !t.late {
				t.awaited = true
				s.awaited++
			}
		}
		if t.pooled != nil && t.mark == len(t.labels) {
			s.remove(t, nil) // its states are gathered, and its pages others'
		}
		if len(t.rows) > 0 || t.progress || t.mark == len(t.labels) {
			t.signal()
		}
	}
}

// pool hands the hidden states of part i to its task, which pools them or keeps them for guesses.
func (s *scheduler) pool(i int) {
	p, c := &s.params, &s.step[i]
	known := 0
	for n, row := range s.hidden {
		switch {
		case int(p.Seq[row]) != i:
		case c.t.pooled != nil:
			c.t.pooled.add(s.runner.hidden(n))
		default:
			c.t.keep(known, int(p.Pos[row]), s.runner.hidden(n))
			known++
		}
	}
}

// restart begins with an empty cache: everything is evaluated again.
func (s *scheduler) restart() {
	s.kv, s.pages = s.runner.cache()
	for _, t := range slices.Concat(s.tasks, s.held) {
		t.kv, t.inStep = s.sequence(t), false
	}
}
