package vulkan

import (
	"slices"

	"github.com/powerinfer-go/powerinfer/internal/compute"
)

// queue holds operations that are not recorded yet, because together with later ones they may make one dispatch: each
// dispatch that waits for another costs microseconds in which the device is idle. The results in memory are the same
// either way.
type queue struct {
	ops  []compute.Op
	open []fusion // that took all of ops
	best fusion   // a fusion that can record the first n operations
	n    int
}

// fusion is a kind of sequences of operations that one dispatch computes.
type fusion interface {
	// takes reports whether ops, all but the last one taken, are one of its sequences or the beginning of one.
	takes(r *recorder, ops []compute.Op) bool
	// whole reports whether ops, which it took, can be recorded together.
	whole(r *recorder, ops []compute.Op) bool
	record(r *recorder, ops []compute.Op)
}

func fusions() []fusion {
	return []fusion{nextFusion{}, activeFusion{}, headsFusion{}, chainFusion{}, copiesFusion{}}
}

// Do implements compute.Executor.
func (r *recorder) Do(op compute.Op) {
	for !r.enqueue(op) {
		if len(r.queue.ops) == 0 {
			op.On(r)
			return
		}
		r.advance()
	}
}

// enqueue adds op to the queue if a fusion can take it after the operations there. It reports whether it did.
func (r *recorder) enqueue(op compute.Op) bool {
	q := &r.queue
	if len(q.ops) == 0 {
		q.open = fusions()
	}
	ops := append(q.ops, op)
	open := slices.DeleteFunc(slices.Clone(q.open), func(f fusion) bool { return !f.takes(r, ops) })
	if len(open) == 0 {
		return false
	}
	ops[len(ops)-1] = compute.Clone(op)
	q.ops, q.open = ops, open
	for _, f := range open {
		if f.whole(r, ops) {
			q.best, q.n = f, len(ops)
			break
		}
	}
	return true
}

// settle records all that is in the queue.
func (r *recorder) settle() {
	for len(r.queue.ops) > 0 {
		r.advance()
	}
}

// advance records the first operations in the queue, as many as a fusion can record together, and takes the others up
// anew.
func (r *recorder) advance() {
	q := r.queue
	r.queue = queue{}
	if q.best == nil {
		q.n = 1
		q.ops[0].On(r)
	} else {
		q.best.record(r, q.ops[:q.n])
	}
	for _, op := range q.ops[q.n:] {
		r.Do(op)
	}
}
