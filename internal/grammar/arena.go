package grammar

import (
	"context"
	"encoding/binary"
	"errors"
	"runtime"
	"slices"
)

// errAmbiguous ends the use of grammars that have too many ways to read a text.
var errAmbiguous = errors.New("the grammar is too ambiguous: it has too many ways to read the same text; give each text one")

// frame is a stack: a node to continue from, and the frame to return to. Equal frames are one, so a frame is known by
// its index.
type frame struct {
	node   int32
	count  int32 // at a counted repetition's start: how often its body was read
	parent int32 // index; bottom at the end
}

// bottom is the index of the frame under every stack: when only it is left, the text is complete.
const bottom = 0

// Values of arena.next other than states.
const (
	unknown = 0
	dead    = -1
)

// arena holds the stacks and states that texts have reached so far. A state is a set of stacks; their tops read the
// text's continuation. States and the transitions between them are made when they are first reached: a deterministic
// automaton, built on demand.
type arena struct {
	a       *automaton
	classes *classes

	frames []frame
	depth  []int32 // [frames]
	frame  map[frame]int32
	stamp  []uint32 // [frames] epoch in which the frame came into set

	states [][]int32 // frame indices, sorted; state 0 is not used
	state  map[string]int32
	next   []int32 // [states, classes]
	masks  []*mask // [states] nil until asked for
	// by state: whether the bottom is in it, so that the text may be complete.
	returned []bool
	loops    []*byteSet // [states] bytes that lead back to it; nil until asked for
	flats    map[int32]*node

	// Of the current transition.
	set   []int32
	epoch uint32
	seen  map[uint64]struct{}
	key   []byte

	bytes int // of all this, roughly
	ctx   context.Context
	work  int // done since the last call from outside
	look  int // work at which the context is checked next
	err   error
}

// begins starts a call from outside. The call ends with ctx.
func (r *arena) begins(ctx context.Context) { r.ctx, r.work, r.look, r.err = ctx, 0, breath, nil }

// works counts n pieces of work, and reports whether to go on.
func (r *arena) works(n int) bool {
	if r.work += n; r.work >= r.look && r.err == nil {
		r.look = r.work + breath
		runtime.Gosched()
		if r.err = context.Cause(r.ctx); r.err == nil && (r.work > maxWork || r.bytes > 2*arenaBytes) {
			r.err = errAmbiguous
		}
	}
	return r.err == nil
}

func newArena(a *automaton, c *classes) *arena {
	r := &arena{ctx: context.Background(), a: a, classes: c, frame: map[frame]int32{}, state: map[string]int32{}, flats: map[int32]*node{}, seen: map[uint64]struct{}{}}
	r.frames = append(r.frames, frame{node: -1, parent: -1})
	r.depth, r.stamp = append(r.depth, 0), append(r.stamp, 0)
	r.states = append(r.states, nil)
	r.masks, r.loops, r.returned = append(r.masks, nil), append(r.loops, nil), append(r.returned, false)
	r.next = make([]int32, c.n)
	return r
}

// flat returns a node with the edges of all that empty edges lead to.
func (r *arena) flat(n int32) *node {
	at := &r.a.nodes[n]
	if len(at.empty) == 0 {
		return at
	}
	f, ok := r.flats[n]
	if !ok {
		f = &node{accept: at.accept}
		r.a.reachable(n, func(m int32) bool {
			if !r.works(1) {
				return false
			}
			x := &r.a.nodes[m]
			f.bytes = append(f.bytes, x.bytes...)
			f.calls = append(f.calls, x.calls...)
			f.tokens = append(f.tokens, x.tokens...)
			return true
		})
		if r.err != nil {
			return &node{}
		}
		r.flats[n] = f
		r.bytes += 240 + 16*len(f.bytes) + 8*len(f.calls) + 8*len(f.tokens)
	}
	return f
}

// counted returns the repetition that f's node is the start of, nil for others.
func (r *arena) counted(f frame) *procedure {
	if c := r.a.counter[f.node]; c >= 0 {
		return &r.a.procedures[c]
	}
	return nil
}

// accepts reports whether f may return.
func (r *arena) accepts(f frame) bool {
	if p := r.counted(f); p != nil {
		return f.count > 0 && int(f.count) >= p.min
	}
	return r.a.nodes[f.node].accept
}

// finished reports whether f can only return.
func (r *arena) finished(f frame) bool {
	if p := r.counted(f); p != nil {
		return p.max != unbounded && int(f.count) >= p.max
	}
	if !r.a.nodes[f.node].accept {
		return false
	}
	n := r.flat(f.node)
	return len(n.bytes)+len(n.calls)+len(n.tokens) == 0
}

// push returns the index of the stack f, or, if f can only return, of the stack that it returns to; dead if the stack
// is too deep, and after an error.
func (r *arena) push(f frame) int32 {
	if r.err != nil {
		return dead
	}
	if r.finished(f) {
		return f.parent
	}
	if i, ok := r.frame[f]; ok {
		return i
	}
	d := r.depth[f.parent] + 1
	if d > maxDepth {
		return dead
	}
	i := int32(len(r.frames))
	r.frames, r.depth, r.stamp = append(r.frames, f), append(r.depth, d), append(r.stamp, 0)
	r.frame[f] = i
	r.bytes += 90 // slices grow by more than they need, here and below
	return i
}

// begin starts a new set of stacks.
func (r *arena) begin() {
	r.set = r.set[:0]
	r.epoch++
	clear(r.seen)
}

// top adds stack i and the stacks it may return to to the set.
func (r *arena) top(i int32) {
	for i >= 0 && r.err == nil && r.stamp[i] != r.epoch {
		r.stamp[i] = r.epoch
		r.set = append(r.set, i)
		if len(r.set) > maxStacks {
			r.err = errAmbiguous
			return
		}
		if i == bottom || !r.accepts(r.frames[i]) {
			return
		}
		i = r.frames[i].parent
	}
}

// intern returns the state of the set, dead for the empty set.
func (r *arena) intern() int32 {
	if len(r.set) == 0 {
		return dead
	}
	slices.Sort(r.set)
	r.key = r.key[:0]
	for _, i := range r.set {
		r.key = binary.LittleEndian.AppendUint32(r.key, uint32(i))
	}
	if s, ok := r.state[string(r.key)]; ok {
		return s
	}
	s := int32(len(r.states))
	r.states = append(r.states, slices.Clone(r.set))
	r.masks, r.loops, r.returned = append(r.masks, nil), append(r.loops, nil), append(r.returned, r.set[0] == bottom)
	r.state[string(r.key)] = s
	r.next = append(r.next, make([]int32, r.classes.n)...)
	r.bytes += 180 + 10*len(r.set) + 5*r.classes.n
	return s
}

// single returns the state of stack i with the stacks it may return to.
func (r *arena) single(i int32) int32 {
	r.begin()
	r.top(i)
	return r.intern()
}

// initial returns the state of position f before any input: its stack has nothing below.
func (r *arena) initial(node, count int32) int32 {
	f := frame{node, count, bottom}
	if r.finished(f) {
		return r.single(bottom)
	}
	return r.single(r.push(f))
}

// step returns the state after a byte of class c, or dead.
func (r *arena) step(s int32, c int32) int32 {
	at := int(s)*r.classes.n + int(c)
	if t := r.next[at]; t != unknown {
		return t
	}
	r.begin()
	for _, i := range r.states[s] {
		if i != bottom {
			r.leaves(r.frames[i], r.classes.sample[c])
		}
	}
	t := r.intern()
	if r.err != nil {
		return dead
	}
	r.next[at] = t
	return t
}

// repeats returns the bytes that lead from state s back to it.
func (r *arena) repeats(s int32) *byteSet {
	if r.loops[s] == nil {
		var set byteSet
		for b := range 256 {
			if r.step(s, int32(r.classes.of[b])) == s {
				set.add(byte(b), byte(b))
			}
		}
		if r.err != nil {
			return &byteSet{} // it contains nothing, so nothing is concluded from it
		}
		r.loops[s] = &set
		r.bytes += 32
	}
	return r.loops[s]
}

// leaves adds the stacks after byte b from f, which may call before it reads.
func (r *arena) leaves(f frame, b byte) {
	if !r.works(1) {
		return
	}
	if p := r.counted(f); p != nil {
		if next, ok := again(p, f); ok && r.a.procedures[p.body].first.has(b) {
			r.call(p.body, next, b)
		}
		return
	}
	n := r.flat(f.node)
	r.works((len(n.bytes) + len(n.calls)) / 8)
	for _, e := range n.bytes {
		if e.lo <= b && b <= e.hi {
			r.top(r.push(frame{e.to, 0, f.parent}))
		}
	}
	for _, c := range n.calls {
		if r.a.procedures[c.procedure].first.has(b) {
			r.call(c.procedure, frame{c.to, 0, f.parent}, b)
		}
	}
}

// again returns where a counted repetition at f continues after its body, and whether it may be read again. Equivalent
// counts are the same.
func again(p *procedure, f frame) (frame, bool) {
	if p.max != unbounded && int(f.count) >= p.max {
		return f, false
	}
	if p.max != unbounded || int(f.count) < max(p.min, 1) {
		f.count++
	}
	return f, true
}

// call adds the stacks after byte b from procedure p that returns to next.
func (r *arena) call(p int32, next frame, b byte) {
	parent := r.push(next)
	if parent == dead {
		return
	}
	start := frame{r.a.procedures[p].start, 0, parent}
	key := uint64(uint32(start.node))<<32 | uint64(uint32(parent))
	if _, ok := r.seen[key]; ok {
		return
	}
	r.seen[key] = struct{}{}
	r.leaves(start, b)
}

// tokens calls visit with every token literal that may come next from f and the stack after it.
func (r *arena) tokens(f frame, visit func(literal, after int32)) {
	if !r.works(1) {
		return
	}
	enter := func(p int32, next frame) {
		if !r.a.procedures[p].token {
			return
		}
		if parent := r.push(next); parent != dead {
			r.tokens(frame{r.a.procedures[p].start, 0, parent}, visit)
		}
	}
	if p := r.counted(f); p != nil {
		if next, ok := again(p, f); ok {
			enter(p.body, next)
		}
		return
	}
	n := r.flat(f.node)
	for _, e := range n.tokens {
		if to := r.push(frame{e.to, 0, f.parent}); to != dead {
			visit(e.literal, to)
		}
	}
	for _, c := range n.calls {
		enter(c.procedure, frame{c.to, 0, f.parent})
	}
}

// adopt returns the state of this arena with the stacks of state s of another.
func (r *arena) adopt(o *arena, s int32) int32 {
	tops := make([]int32, 0, len(o.states[s]))
	for _, i := range o.states[s] {
		var path []frame
		for ; i != bottom; i = o.frames[i].parent {
			path = append(path, o.frames[i])
		}
		at := int32(bottom)
		for _, f := range slices.Backward(path) {
			f.parent = at
			at = r.push(f)
		}
		tops = append(tops, at)
	}
	r.begin()
	for _, i := range tops {
		r.top(i)
	}
	return r.intern()
}

// classes divides the 256 bytes into groups that the grammar never distinguishes.
type classes struct {
	of     [256]uint8
	sample []byte // a byte of each class
	n      int
}

func newClasses(a *automaton) *classes {
	var cut [257]bool // a class begins at the byte
	sets := map[byteRange]bool{}
	for i := range a.nodes {
		for _, e := range a.nodes[i].bytes {
			sets[byteRange{e.lo, e.hi}] = true
		}
	}
	for s := range sets {
		cut[s.lo], cut[int(s.hi)+1] = true, true
	}
	c := &classes{}
	for b := range 256 {
		if b == 0 || cut[b] {
			c.sample = append(c.sample, byte(b))
			c.n++
		}
		c.of[b] = uint8(c.n - 1)
	}
	return c
}
