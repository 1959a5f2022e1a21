package engine

import (
	"github.com/powerinfer-go/powerinfer/internal/kvcache"
)

// Sequence is a run of tokens that a caller evaluates in parts. Between parts its keys and values stay in the cache
// until others need the room. Lost ones are computed again. One goroutine at a time uses it.
type Sequence struct{ t *task }

// Len returns the number of tokens evaluated.
func (s *Sequence) Len() int { return len(s.t.labels) }

// NewSequence returns an empty sequence; Release gives its pages back.
func (e *Engine) NewSequence() *Sequence {
	t := newTask()
	t.reuse = ReuseNone
	return &Sequence{t}
}

// NewBranch returns an empty sequence. It takes over keys and values of its first n tokens that another sequence has
// left in the cache, instead of evaluating the tokens again, and leaves them there for others. In a recurrent model a
// checkpoint must follow them. Their logits are not known.
func (e *Engine) NewBranch(n int) *Sequence {
	t := newTask()
	t.reuse, t.taken = ReuseSame, n
	return &Sequence{t}
}

// Release forgets s's tokens and gives its pages back.
func (e *Engine) Release(s *Sequence) {
	e.sched.leave(s.t, nil)
	e.sched.cut(s.t, 0)
}

// Evaluate appends tokens to s: one as a single token of a running sequence, several as a part of a prompt. wanted(i)
// says whether tokens[i]'s logits [n_vocab] are wanted; nil: none are. each gets them in order, while no step can run.
func (e *Engine) Evaluate(s *Sequence, tokens []int32, wanted func(i int) bool, each func(i int, logits []float32)) error {
	if err := e.checkHead(); err != nil {
		return err
	}
	t := s.t
	if len(t.labels)+len(tokens) > e.context {
		return &ContextError{Context: e.context}
	}
	if err := e.checkTokens(tokens); err != nil || len(tokens) == 0 {
		return err
	}
	t.base, t.wanted = len(t.labels), wanted
	for _, id := range tokens {
		t.labels = append(t.labels, kvcache.LabelOf(id, len(tokens) < e.sched.short))
	}
	err := e.sched.join(t)
	for read := 0; err == nil && read < len(t.labels); {
		<-t.turn
		var rows [][]float32
		if rows, read, err = e.sched.take(t); len(rows) > 0 {
			for i, row := range rows {
				each(t.logits.positions[i]-t.base, row)
			}
			e.sched.back(t, 0, nil)
		}
	}
	if err != nil {
		e.sched.leave(t, nil)
		e.sched.cut(t, t.base)
		return err
	}
	e.sched.park(t)
	return nil
}
