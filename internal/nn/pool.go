package nn

import "github.com/powerinfer-go/powerinfer/internal/compute"

// Pool holds a model's activations on a device. Passes over the largest step that compute nothing first show how many
// activations are in use at a time, and how wide they are; Allocate then makes them. Every pass takes them in the same
// order for the same kind of step. So a device can replay a recording of the step, and a token allocates nothing.
type Pool struct {
	dev     compute.Device
	tokens  int // rows of the largest step
	outputs int // rows of logits of the largest step
	slots   []*slot
	taken   []*slot // in the order in which they were taken; some may have been given back
	made    bool    // Allocate was called
	grown   bool    // a slot is new or wider, since Grown was called
	set     compute.Set
	choice  compute.Choice
	err     error // the first of the device
}

// slot is memory for one activation at a time.
type slot struct {
	cols    int  // columns of the widest activation that it holds
	outputs bool // its rows are those with wanted logits: see compute.Tensor
	used    bool
	memory  compute.Tensor // before Allocate, its Mem is the slot itself
}

// NewPool returns a pool for steps of at most that many tokens and rows of logits.
func NewPool(dev compute.Device, tokens, outputs int) *Pool {
	return &Pool{dev: dev, tokens: tokens, outputs: outputs}
}

// Tokens returns the number of tokens of the largest step.
func (p *Pool) Tokens() int { return p.tokens }

// Grown reports whether passes needed more than before since it was called last.
func (p *Pool) Grown() bool {
	grown := p.grown
	p.grown = false
	return grown
}

// Allocate makes what passes have needed so far.
func (p *Pool) Allocate() error {
	for _, s := range p.slots {
		p.allocate(s)
	}
	p.made = true
	return p.err
}

// Widths returns how many elements the activations have that passes needed so far, for each token and for each row of
// logits.
func (p *Pool) Widths() (token, output int) {
	for _, s := range p.slots {
		if s.outputs {
			output += s.cols
		} else {
			token += s.cols
		}
	}
	return token, output
}

// take returns an activation of cols columns that has as many rows as like, of the same kind.
func (p *Pool) take(like compute.Tensor, cols int) compute.Tensor {
	s := p.find(like.Outputs, cols)
	s.used = true
	p.taken = append(p.taken, s)
	t := s.memory.Like(like)
	t.Cols = cols
	return t
}

// find returns the narrowest free slot that is wide enough. Where there is none, it widens the widest free one, or makes
// one: after Allocate the latter.
func (p *Pool) find(outputs bool, cols int) *slot {
	var fitting, widest *slot
	for _, s := range p.slots {
		switch {
		case s.used || s.outputs != outputs:
		case s.cols >= cols:
			if fitting == nil || s.cols < fitting.cols {
				fitting = s
			}
		case widest == nil || s.cols > widest.cols:
			widest = s
		}
	}
	if fitting != nil {
		return fitting
	}
	p.grown = true
	if widest != nil && !p.made {
		widest.cols = cols
		return widest
	}
	s := &slot{cols: cols, outputs: outputs}
	s.memory.Mem = s
	p.slots = append(p.slots, s)
	if p.made {
		p.allocate(s)
	}
	return s
}

func (p *Pool) allocate(s *slot) {
	rows := p.tokens
	if s.outputs {
		rows = p.outputs
	}
	if rows > 0 && s.cols > 0 && p.err == nil {
		s.memory, p.err = p.dev.Tensor(rows, s.cols)
	}
}

// giveBack gives back t, if it is an activation of the pool.
func (p *Pool) giveBack(t compute.Tensor) {
	for _, s := range p.slots {
		if s.memory.Mem == t.Mem {
			s.used = false
		}
	}
}

// release gives back all but the first n activations that were taken.
func (p *Pool) release(n int) {
	for _, s := range p.taken[n:] {
		s.used = false
	}
	p.taken = p.taken[:n]
}

// takeSet returns the pool's set of n neurons for the rows of like. There is one: it is valid until the next is taken.
func (p *Pool) takeSet(like compute.Tensor, n int) compute.Set {
	if p.set.N != n && p.err == nil {
		p.set, p.err = p.dev.Set(p.tokens, n)
	}
	s := p.set.First(like.Rows)
	s.Outputs = like.Outputs
	return s
}

// takeChoice returns the pool's choice of used of n experts for the rows of like. There is one: it is valid until the
// next is taken.
func (p *Pool) takeChoice(like compute.Tensor, used, n int) compute.Choice {
	if (p.choice.N != n || p.choice.Used != used) && p.err == nil {
		p.choice, p.err = p.dev.Choice(p.tokens, used, n)
	}
	c := p.choice.First(like.Rows)
	c.Outputs = like.Outputs
	return c
}
