package grammar

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/bits"
	"sync"
	"sync/atomic"
)

// Bounds of the caches of one Compiled, in bytes. Beyond them, contents are dropped and computed again when needed.
const (
	arenaBytes = 16 << 20
	localsSize = 8 << 20
)

// Compiled is a grammar joined with a vocabulary. It is safe for concurrent use; sequences share its caches.
type Compiled struct {
	vocabulary *Vocabulary
	literals   []int32 // the tokens of the automaton's literals, without those that the vocabulary lacks; nil if it lacks all

	size atomic.Int64 // see Bytes

	mu         sync.Mutex             // guards the fields below; leave unlocks it
	arena      *arena                 // replaced by an empty one when it is full; states of old ones are adopted
	locals     [2]map[position]*local // of each trie
	localBytes int
	path       []int32 // [trie depth + 1] states along a walk
	ids        []int32 // scratch
}

// Compile joins g with a vocabulary. It is an error if a token literal names no token of it.
func (g *Grammar) Compile(v *Vocabulary) (*Compiled, error) {
	c := &Compiled{vocabulary: v, arena: newArena(g.a, newClasses(g.a)), path: make([]int32, max(v.tries[0].deep, v.tries[1].deep)+1)}
	c.forget()
	any := false
	for _, l := range g.a.literals {
		id, err := v.resolve(l)
		if err != nil {
			return nil, err
		}
		c.literals = append(c.literals, id)
		any = any || id != none
	}
	if !any {
		c.literals = nil
	}
	c.mu.Lock()
	c.leave()
	return c, nil
}

// Bytes returns roughly what c took of memory when it was last used; it grows with use, up to bounds.
func (c *Compiled) Bytes() int { return int(c.size.Load()) }

// leave ends a piece of work: it drops an arena that is too large, updates size and unlocks mu, which must be held.
func (c *Compiled) leave() {
	if c.arena.bytes > arenaBytes { // states in use keep the old one
		c.arena = newArena(c.arena.a, c.arena.classes)
	}
	a := c.arena.a
	c.size.Store(int64(nodeBytes*len(a.nodes) + procedureBytes*len(a.procedures) + c.arena.bytes + c.localBytes + 4*(cap(c.ids)+len(c.path))))
	c.mu.Unlock()
}

// Approximate bytes of an automaton's node and procedure.
const (
	nodeBytes      = 144
	procedureBytes = 384
)

// NewState returns the state of a sequence at its beginning. Its methods return errors when ctx has ended.
func (c *Compiled) NewState(ctx context.Context) *State {
	c.mu.Lock()
	defer c.leave()
	c.enter(context.WithoutCancel(ctx))
	p := c.arena.a.procedures[c.arena.a.root]
	c.arena.begin()
	if p.nullable {
		c.arena.top(bottom)
	}
	c.arena.top(c.arena.push(frame{p.start, 0, bottom}))
	s := &State{c: c, ctx: ctx, arena: c.arena}
	s.moveTo(c.arena.intern())
	return s
}

// enter makes room and begins a piece of work; mu is held.
func (c *Compiled) enter(ctx context.Context) {
	if c.arena.bytes > arenaBytes {
		c.arena = newArena(c.arena.a, c.arena.classes)
	}
	if c.localBytes > localsSize {
		c.forget()
	}
	c.arena.begins(ctx)
}

// forget drops the cache of positions.
func (c *Compiled) forget() {
	c.locals, c.localBytes = [2]map[position]*local{{}, {}}, 0
}

// State follows the text of one sequence. It is not safe for concurrent use; Clone makes one for another sequence, or
// for a later rollback.
type State struct {
	c     *Compiled
	ctx   context.Context // the request's
	arena *arena
	id    int32 // of a state in arena
	end   bool  // the text may end here
	done  bool  // it can only end here
	ended bool  // an end token was accepted
	lazy  *lazy // nil if the grammar holds from the beginning
	now   *mask // of the state, once it was needed
}

// Clone returns an independent copy; to roll back, keep one. It costs an allocation.
func (s *State) Clone() *State {
	c := *s
	if s.lazy != nil {
		c.lazy = s.lazy.clone()
	}
	return &c
}

// enter moves the state into the compiled grammar's present arena; its mu is held.
func (s *State) enter() error {
	s.c.enter(s.ctx)
	if s.arena != s.c.arena && s.id != dead {
		s.id = s.c.arena.adopt(s.arena, s.id)
	}
	s.arena = s.c.arena
	if s.id == dead { // making the state has failed: it was too large
		return cmp.Or(s.arena.err, errAmbiguous)
	}
	return nil
}

// mask returns the state's mask.
func (s *State) mask() (*mask, error) {
	if s.now == nil {
		s.c.mu.Lock()
		defer s.c.leave()
		if err := s.enter(); err != nil {
			return nil, err
		}
		m, err := s.c.mask(s.id)
		if err != nil {
			return nil, err
		}
		if m.none && !m.end {
			return nil, fmt.Errorf("no token of the vocabulary continues the text as the grammar asks")
		}
		s.now = m
	}
	return s.now, nil
}

// Mask sets set [(n_vocab+31)/32] to the tokens that may come next, token id at bit id%32 of word id/32.
func (s *State) Mask(set []uint32) error {
	if s.free() {
		for i := range set {
			set[i] = ^uint32(0)
		}
		if over := len(set)*32 - s.c.vocabulary.size; over > 0 {
			set[len(set)-1] >>= over
		}
		return nil
	}
	clear(set)
	if s.ended {
		return nil
	}
	m, err := s.mask()
	if err != nil {
		return err
	}
	copy(set, m.bits)
	setBits(set, m.ids)
	return nil
}

// Apply sets the logits [n_vocab] of tokens that may not come next to -Inf.
func (s *State) Apply(logits []float32) error {
	if s.free() {
		return nil
	}
	if len(logits) != s.c.vocabulary.size {
		return fmt.Errorf("%d logits for a grammar over %d tokens", len(logits), s.c.vocabulary.size)
	}
	if s.ended {
		return nil
	}
	m, err := s.mask()
	if err != nil {
		return err
	}
	banned := float32(math.Inf(-1))
	if m.bits == nil {
		kept := make([]float32, len(m.ids))
		for i, id := range m.ids {
			kept[i] = logits[id]
		}
		for i := range logits {
			logits[i] = banned
		}
		for i, id := range m.ids {
			logits[id] = kept[i]
		}
		return nil
	}
	for w, word := range m.bits {
		if word == ^uint32(0) {
			continue
		}
		part := logits[w*32 : min(w*32+32, len(logits))]
		if word == 0 {
			for i := range part {
				part[i] = banned
			}
			continue
		}
		for not := ^word; not != 0; not &= not - 1 {
			if i := bits.TrailingZeros32(not); i < len(part) {
				part[i] = banned
			}
		}
	}
	return nil
}

// Accept continues with a token, or returns an error and stays in place if the grammar does not allow it there.
func (s *State) Accept(id int32) error {
	v := s.c.vocabulary
	if id < 0 || int(id) >= v.size {
		return fmt.Errorf("token %d is outside the vocabulary of %d", id, v.size)
	}
	if s.free() {
		return s.await(id)
	}
	ok, err := s.advance(id)
	if ok || err != nil {
		return err
	}
	return fmt.Errorf("token %d (%q) is not what the grammar allows here", id, v.pieces[id])
}

// advance reads a token and reports whether it is allowed.
func (s *State) advance(id int32) (bool, error) {
	if s.ended {
		return false, nil
	}
	s.c.mu.Lock()
	defer s.c.leave()
	if err := s.enter(); err != nil {
		return false, err
	}
	r, v := s.arena, s.c.vocabulary
	if v.isEnd[id] && s.end {
		s.ended = true
		return true, nil
	}
	to := int32(dead)
	if !v.isEnd[id] && len(v.pieces[id]) > 0 {
		to = s.read(v.pieces[id])
	}
	if len(s.c.literals) > 0 {
		to = s.join(to, id)
	}
	if to == dead || r.err != nil {
		return false, r.err
	}
	s.moveTo(to)
	return true, nil
}

// moveTo sets the state; the compiled grammar's mu is held.
func (s *State) moveTo(id int32) {
	s.id, s.now, s.end, s.done = id, nil, false, false
	if id == dead {
		return
	}
	s.end = s.arena.returned[id]
	s.done = s.end && len(s.arena.states[id]) == 1
}

// read returns the state after text, or dead; the compiled grammar's mu is held.
func (s *State) read(text []byte) int32 {
	to := s.id
	for _, b := range text {
		if to = s.arena.step(to, int32(s.arena.classes.of[b])); to == dead {
			break
		}
	}
	return to
}

// join returns the state of to's stacks and those after token literals that match id.
func (s *State) join(to, id int32) int32 {
	r := s.arena
	var tops []int32
	if to != dead {
		tops = append(tops, r.states[to]...)
	}
	for _, i := range r.states[s.id] {
		if i != bottom {
			r.tokens(r.frames[i], func(literal, after int32) {
				if s.c.matches(literal, id) {
					tops = append(tops, after)
				}
			})
		}
	}
	r.begin()
	for _, i := range tops {
		r.top(i)
	}
	return r.intern()
}

// CanEnd reports whether the text so far is complete.
func (s *State) CanEnd() bool {
	return s.free() || s.end
}

// Done reports whether the text is complete and nothing but its end can follow.
func (s *State) Done() bool {
	return !s.free() && (s.ended || s.done)
}
