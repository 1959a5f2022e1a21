package engine

import (
	"time"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/kvcache"
)

// task is a sequence that the scheduler serves: the positions to evaluate, and those in the cache. Positions that the
// cache loses, because pages ran short or a GPU failed, are evaluated again from their labels. The scheduler's lock
// guards it.
type task struct {
	order     uint64            // number of arrival: older tasks go first
	labels    []kvcache.Label   // all positions in order, evaluated or not
	kv        *kvcache.Sequence // the first kv.Len() of labels
	reuse     Reuse
	taken     int       // most labels that may be taken over from other sequences; 0: all but the last
	whole     bool      // evaluated in one step, with other tasks, and private
	dense     bool      // evaluated with every neuron, by steps of its own, and private
	scales    []float32 // adapters' scales, if it has its own: evaluated by steps of its own and private, too; else nil
	extension Extension // extension of its text, which changes its keys and makes them private
	turned    int       // tokens that share positions in the cache
	served    uint64    // the number of its last step of its own
	inStep    bool      // its rows are in the step that runs

	uses compute.ExpertUse // by its rows, in all steps

	mark int // positions that were evaluated at some time

	draft  taskDrafts
	states draftStates

	// Which positions have logits: those for which wanted is true, given the distance from base, or, if generates, the
	// last one. Positions that are evaluated again have none.
	generates bool
	wanted    func(i int) bool
	base      int

	logits handover

	pictures []shown // among labels, in their order; nil: there are none

	pooled *pooled // receives its hidden states; nil: they are not wanted
	types  []int32 // types of the tokens of a pair of texts, which make its keys private; nil: all have the first type

	gone bool          // it has left the scheduler
	err  error         // why it left
	turn chan struct{} // one signal for rows, progress or the end

	progress bool          // its client wants to know how much was read
	reused   int           // positions taken over from other sequences before it started
	started  bool          // a step has had some of its rows
	began    time.Duration // when it started
}

// kind returns the type of the token at a position.
func (t *task) kind(pos int) int32 {
	if t.types == nil {
		return 0
	}
	return t.types[pos]
}

// whereabouts says who has the task's logits.
type whereabouts int

const (
	idle    whereabouts = iota // no logits: the model must evaluate, or the client has to choose
	offered                    // they wait for the client
	taken                      // the client reads them in place, so no step may run
)

// alone reports whether the task shares no step with others.
func (t *task) alone() bool { return t.dense || t.scales != nil }

// private reports whether no other task may use the task's keys and values: those of a task evaluated in one step
// depend on later tokens, and those of an extended text change as it grows.
func (t *task) private() bool { return t.alone() || t.whole || t.extension.on() }

// taskDrafts are a task's draft tokens, and what it learns from checking them.
type taskDrafts struct {
	labels  []kvcache.Label // draft tokens after the task's labels, for the step that evaluates the last label
	wish    int             // without labels: how many the model's own hot neurons make, if there is time
	fewest  int             // a step that would check fewer drafts checks none
	least   float32         // a draft by the model itself ends before a token with a smaller probability
	drafted int             // draft tokens that the last step evaluated; their keys and values are after kv's end

	// For models with recurrent layers: their states read draft tokens before it is known which are right. tried is the
	// number of labels after kv's end that the state read in a step with drafts. If a draft token was wrong, the state
	// goes back to kv's end, and again is the number of labels to evaluate once more.
	tried, again int

	settled settlement // outcome of the last step
}

// draftStates are the states that a draft program reads: those of the last step's last label and of the draft tokens
// after it.
type draftStates struct {
	rows    [][]float32 // [1+drafts][DraftShape.State]
	at      int         // position of the first
	earlier []float32   // the state before them, needed if all of the last step is evaluated again; empty: unknown
	own     []float32   // the draft program's own state of its last draft token
}

// handover passes the logits of a task's last step to its client.
type handover struct {
	rows      [][]float32 // [wanted rows][n_vocab], in order; valid until the next step, unless copied
	positions []int       // of rows
	where     whereabouts
	copied    bool          // rows are own
	own       [][]float32   // [rows][n_vocab]
	since     time.Duration // time at which they were offered
	awaited   bool          // the scheduler gives the client a moment before the next step
	late      bool          // the client missed that moment the last time
}

func newTask() *task { return &task{turn: make(chan struct{}, 1)} }

// wants reports whether the logits of position i are wanted.
func (t *task) wants(i int) bool {
	if t.generates {
		return i >= len(t.labels)-1
	}
	return t.wanted != nil && i >= t.mark && t.wanted(i-t.base)
}

// pools reports whether the hidden state of position i is wanted. Positions that are evaluated again were pooled
// before.
func (t *task) pools(i int) bool {
	return t.pooled != nil && i >= t.mark && t.pooled.wants(i, len(t.labels))
}

// accept records that the first n evaluated draft tokens were right. Their keys and values are in the cache, unless the
// sequence lost its pages meanwhile.
func (t *task) accept(n int) {
	right := t.draft.labels[:min(n, t.draft.drafted)]
	switch at := len(t.labels) - t.draft.tried; {
	case t.kv == nil || t.kv.Len() != at:
	case len(right) == t.draft.drafted:
		t.kv.Append(t.labels[at:]...)
		t.kv.Append(right...)
		t.kv.Settle()
	case t.draft.tried > 0:
		t.kv.TakeBack()
		t.draft.again = t.draft.tried + len(right)
	default:
		t.kv.Append(right...)
	}
	t.draft.tried = 0
	t.labels = append(t.labels, right...)
	t.mark += len(right)
	t.draft.labels, t.draft.drafted, t.draft.wish = t.draft.labels[:0], 0, 0
}

// keep keeps the i-th state of a step, for position pos.
func (d *draftStates) keep(i, pos int, state []float32) {
	if i == 0 {
		d.earlier = append(d.earlier[:0], d.before(pos)...)
		d.rows, d.at = d.rows[:0], pos
	}
	if i < cap(d.rows) {
		d.rows = d.rows[:i+1]
	} else {
		d.rows = append(d.rows, nil)
	}
	d.rows[i] = append(d.rows[i][:0], state...)
}

// before returns the state of the position before pos, or nil if it is not known.
func (d *draftStates) before(pos int) []float32 {
	if i := pos - 1 - d.at; i >= 0 && i < len(d.rows) {
		return d.rows[i]
	}
	if pos == d.at && len(d.earlier) > 0 {
		return d.earlier
	}
	return nil
}

// label returns the label of a position, drafts included.
func (t *task) label(i int) kvcache.Label {
	if i < len(t.labels) {
		return t.labels[i]
	}
	return t.draft.labels[i-len(t.labels)]
}

// takeable returns the labels after those in the cache that other sequences' keys and values may serve.
func (t *task) takeable() []kvcache.Label {
	if t.reuse == ReuseNone {
		return nil
	}
	end := len(t.labels) - 1
	if t.taken > 0 {
		end = min(end, t.taken)
	}
	return t.labels[min(t.kv.Len(), max(0, end)):max(0, end)]
}

// backlog returns the number of positions to evaluate.
func (t *task) backlog() int { return len(t.labels) - t.kv.Len() }

// ready reports whether the model can continue t.
func (t *task) ready() bool { return !t.gone && t.logits.where == idle && t.mark < len(t.labels) }

// shorten evaluates the rest of a prompt with the arithmetic of short prompts if it has fewer than short tokens:
// rounding then depends on the length of the rest, as ReuseAny allows.
func (t *task) shorten(short int) {
	at := t.kv.Len()
	if len(t.labels)-at >= short {
		return
	}
	for i, l := range t.labels[at:] {
		t.labels[at+i] = l.As(true)
	}
}

// decodes reports whether t needs only one step of a single token, apart from tokens before it that are evaluated again
// because a draft token was wrong.
func (t *task) decodes() bool {
	return t.backlog() == 1+t.draft.again && t.labels[len(t.labels)-1].Decoded()
}

// forgotten is the time after which a client that does not take its logits no longer holds up prompts.
const forgotten = 250 * time.Millisecond

// expectsTurn reports whether t generates, so that a step should be short: its next token waits for the model, or is
// being chosen.
func (t *task) expectsTurn(now time.Duration) bool {
	return t.generates && !t.gone && (t.decodes() || t.logits.where != idle && now-t.logits.since < forgotten)
}

// signal wakes t's client.
func (t *task) signal() {
	select {
	case t.turn <- struct{}{}:
	default:
	}
}
