package engine

import (
	"fmt"
	"math"

	"github.com/powerinfer-go/powerinfer/internal/compute"
)

// Extension is self-extension (Jin et al. 2024, "LLM Maybe LongLM: Self-Extend LLM Context Window Without Tuning"): a
// text may be longer than the trained context, because distant tokens share positions. Whenever there are Width more
// tokens, each Group of them gets one position, and the next token gets the position after it. The zero value extends
// nothing.
//
// llama.cpp intends to do the same before each part of a prompt: docs/context.md says how its results differ.
type Extension struct {
	Group int // tokens that share a position
	Width int // tokens that have positions of their own before they are grouped; a multiple of Group
}

// Check returns why x is impossible, or nil.
func (x Extension) Check() error {
	switch {
	case x == Extension{}:
		return nil
	case x.Group < 1 || x.Group > math.MaxInt32:
		return fmt.Errorf("self-extension by groups of %d tokens: give 1 or more", x.Group)
	case x.Width < 1 || x.Width > math.MaxInt32 || x.Width%x.Group != 0:
		return fmt.Errorf("self-extension with %d tokens that have positions of their own: give a multiple of the group, which is %d", x.Width, x.Group)
	}
	return nil
}

// on reports whether tokens share positions.
func (x Extension) on() bool { return x.Group > 1 }

// room returns how many more tokens fit after the first n before positions change.
func (x Extension) room(n int) int {
	if !x.on() {
		return math.MaxInt
	}
	return x.Width - n%x.Width
}

// shared returns how many of a text's first n tokens share positions.
func (x Extension) shared(n int) int {
	if !x.on() {
		return 0
	}
	return n - n%x.Width
}

// position returns the position that the key of token i is rotated to while the first shared tokens share positions.
// Token i is not one of them.
func (x Extension) position(i, shared int) int32 {
	if !x.on() {
		return int32(i)
	}
	return int32(shared/x.Group + i - shared)
}

// turn returns by how much the key of token i is rotated when the token begins to share its position.
func (x Extension) turn(i int) int32 {
	in := i % x.Width
	return int32(in/x.Group - in)
}

// turnKeys rotates the keys of texts in which tokens begin to share positions with this step.
func (s *scheduler) turnKeys() error {
	for i := range s.step {
		t := s.step[i].t
		for end := t.extension.shared(t.kv.Len()); t.turned < end; {
			n := min(s.rows, end-t.turned)
			s.fillTurns(t, n)
			s.mu.Unlock()
			err := s.runner.turn(&s.turns)
			s.mu.Lock()
			if err != nil {
				return err
			}
			t.turned += n
		}
	}
	return nil
}

// fillTurns writes the params that rotate the keys of t's next n tokens.
func (s *scheduler) fillTurns(t *task, n int) {
	p := &s.turns
	*p = compute.Params{Tokens: p.Tokens[:0], Pos: p.Pos[:0], Turns: p.Turns[:0], Seq: p.Seq[:0], Pages: append(p.Pages[:0], t.kv.Pages())}
	for pos := t.turned; pos < t.turned+n; pos++ {
		p.Tokens, p.Pos, p.Turns, p.Seq = append(p.Tokens, 0), append(p.Pos, int32(pos)), append(p.Turns, t.extension.turn(pos)), append(p.Seq, 0)
	}
}

// turn rotates keys, as model.Model.TurnKeys does. If a GPU fails, it does the same as run.
func (e *Engine) turn(p *compute.Params) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.broken != nil {
		return e.broken
	}
	if err := e.model.TurnKeys(p); err != nil {
		return e.recover(err)
	}
	return nil
}
