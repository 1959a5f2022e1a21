package engine

import (
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/kvcache"
	"github.com/powerinfer-go/powerinfer/internal/model"
)

// runner computes steps. It is a model, or a fake one in tests.
type runner interface {
	// run computes a step, with the hidden states and draft states of the rows in w. The error errLost says that the
	// keys and values of all sequences are lost, and that there is a new cache to fill.
	run(p *compute.Params, w wanted) error
	// turn rotates keys between steps, by p.Turns. Its errors are run's.
	turn(p *compute.Params) error
	// prepare makes ready for one of the usual steps, and reports whether it should be called again.
	prepare() (more bool)
	// logits returns row i of the last step's logits [n_vocab], valid until the next step.
	logits(i int) []float32
	// hidden returns the i-th of the last step's hidden states [n_embd], valid until the next step.
	hidden(i int) []float32
	// state returns the i-th of the last step's states for drafts, valid until the next step.
	state(i int) []float32
	// cache returns an empty cache over the runner's pages, and the contents of these.
	cache() (*kvcache.Cache, contents)
}

// contents reads and writes pages between steps, as compute.Device does. It fails once the cache has been given up.
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
	drafts  int // additional rows of logits of a step, for draft tokens
	context int // tokens of a sequence
	behind  int // positions before a row that the model's rotations look back to, see model.Pictures
	short   int // tokens of a prompt below which it is evaluated by the arithmetic of single tokens

	further *model.DraftShape   // how a draft program makes draft tokens; nil: there is none
	drafted func(i int32) int32 // the token for number i of its logits
}

// wanted lists rows of a step in ascending order.
type wanted struct {
	hidden []int32 // rows with hidden states that are wanted
	states []int32 // rows with states that a draft program reads later
}

// scheduler runs the model's steps for tasks. One goroutine runs the steps; tasks join and leave between them. A step
// holds the next token of every running sequence and a bounded part of the waiting prompts. Older tasks go first: if
// pages run short, the youngest loses its pages and is evaluated again later, so that the oldest always continues.
type scheduler struct {
	limits
	runner runner
	now    func() time.Duration

	mu      sync.Mutex
	kv      *kvcache.Cache
	pages   contents // contents of kv's pages
	tasks   []*task  // tasks with work for the model, now or later, oldest first
	held    []*task  // clients' sequences without work
	arrived uint64
	awaited int // tasks with clients for which the next step waits briefly
	taken   int // tasks with clients that read logits in place
	closed  error
	wake    chan struct{}
	asleep  bool          // the goroutine waits only for wake
	done    chan struct{} // closed when the goroutine has ended
	timer   *time.Timer

	pace     pace
	costs    stepCosts
	guessing stepCosts     // steps in which hot neurons draft tokens
	guessed  time.Duration // time of the drafting steps before the step
	keep     float64       // nanoseconds that copying a recurrent state takes, averaged; 0: none was copied
	keeping  time.Duration // time of the copies before the step
	last     time.Duration // the last step's
	params   compute.Params
	turns    compute.Params // params of turnKeys
	rotated  []int32        // the step's positions, if some differ from those in the cache
	types    []int32        // the step's types of tokens, if some are not the first
	pictures pictureParams
	wanted   wanted
	step     []part
	counts   counts
	stepping bool // the runner computes the step
	stale    bool // the cache must forget the results of the running step
	crowded  bool // the last step had no room for a picture, so the next one checks no drafts
	lone     bool // the last step served tasks with steps of their own first

	loneSteps uint64 // number of steps of a single task
}

func newScheduler(r runner, l limits, now func() time.Duration) *scheduler {
	s := &scheduler{rotated: make([]int32, 0, l.rows), types: make([]int32, 0, l.rows), limits: l, runner: r, now: now, wake: make(chan struct{}, 1), done: make(chan struct{}), timer: time.NewTimer(time.Hour)}
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

// join makes t run, with more labels to evaluate after its own.
func (s *scheduler) join(t *task, more ...kvcache.Label) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.admitTask(t, more...)
}

// joinAll makes tasks run at once, so that they share the next step.
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

// forget calls change, which changes what is computed. Keys and values that were computed before, or by the running
// step, then serve no later request.
func (s *scheduler) forget(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
	if s.stale = s.stepping; !s.stale {
		s.kv.Forget()
	}
}

// park removes t from the tasks with work. It keeps its pages until others need them.
func (s *scheduler) park(t *task) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tasks = slices.DeleteFunc(s.tasks, func(o *task) bool { return o == t })
	s.held = append(s.held, t)
	s.notify()
}

// leave removes t from the scheduler, because of err or, if it is nil, because t is done. t's pages are freed at once,
// or after the step that uses them.
func (s *scheduler) leave(t *task, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.remove(t, err)
}

// cut removes t's labels from n on, after t has left. A step may still use it.
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

// close ends the goroutine. Unfinished tasks fail with err.
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
			if s.closed == nil { // else await has read the signal of close
				s.rest()
			}
			continue
		}
		s.stepping = true
		err := s.turnKeys()
		if err == nil {
			err = s.guess()
		}
		if err == nil {
			s.keepStates()
		}
		begin := s.now()
		if err == nil {
			s.fill()
			s.mu.Unlock()
			err = s.runner.run(&s.params, s.wanted)
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

// calm is the time without a task after which the runner prepares usual steps: the first request after the model was
// loaded should not wait for that.
const calm = 100 * time.Millisecond

// rest waits until something has changed. If there is no task for a while the runner prepares usual steps until there
// is one.
func (s *scheduler) rest() {
	if len(s.tasks) == 0 {
		if !s.sleep(calm) {
			return
		}
		for more := true; more && len(s.tasks) == 0 && s.closed == nil; {
			s.mu.Unlock()
			more = s.runner.prepare()
			s.mu.Lock()
		}
	}
	s.sleep(-1) // a task that came meanwhile has left a message in wake
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

// A client gets a share of the last step's time, within bounds, to choose its next token and take part in the next
// step.
const (
	patienceShare = 8
	leastPatience = 200 * time.Microsecond
	mostPatience  = 5 * time.Millisecond
)

func (s *scheduler) patience() time.Duration {
	return min(max(s.last/patienceShare, leastPatience), mostPatience)
}

// await waits briefly for clients, and until logits that the next step would overwrite have been copied. It reports
// whether a step may run.
func (s *scheduler) await() bool {
	until := s.now() + s.patience()
	for s.awaited > 0 && s.closed == nil && slices.ContainsFunc(s.tasks, (*task).ready) {
		left := until - s.now()
		if left > 0 && !s.sleep(left) {
			continue
		}
		for _, t := range s.tasks {
			if t.logits.awaited {
				s.unawait(t)
				t.logits.late = true
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
		if t.logits.where == offered && !t.logits.copied {
			if t.inPlace() {
				return false
			}
			t.copy()
		}
	}
	return s.closed == nil
}

// restart begins with an empty cache: everything is evaluated again.
func (s *scheduler) restart() {
	s.kv, s.pages = s.runner.cache()
	for _, t := range slices.Concat(s.tasks, s.held) {
		t.kv, t.inStep, t.draft.wish = s.sequence(t), false, 0 // the source of drafts may be gone
	}
}
