package nn

import "github.com/powerinfer-go/powerinfer/internal/compute"

// Pool holds a model's activations on a device. A pass takes them in the same order whenever it computes the same kind
// of step. So a device can replay a recording of the step, and a token allocates nothing.
type Pool struct {
	dev     compute.Device
	tokens  int // rows of the largest step
	outputs int // rows of logits of the largest step
	shelves map[shape]*shelf
	taken   []*shelf // of the activations in use, in the order in which they were taken
	set     compute.Set
	choice  compute.Choice
	err     error // the first of allocation
}

// shape is what activations that can stand in for each other have in common.
type shape struct {
	cols    int
	outputs bool // see compute.Tensor
}

// shelf has the activations of one shape: the first used of them are in use.
type shelf struct {
	all  []compute.Tensor
	used int
}

// NewPool returns a pool for steps of at most that many tokens and rows of logits.
func NewPool(dev compute.Device, tokens, outputs int) *Pool {
	return &Pool{dev: dev, tokens: tokens, outputs: outputs, shelves: map[shape]*shelf{}}
}

// Err returns the first error of an allocation.
func (p *Pool) Err() error { return p.err }

// Tokens returns the number of tokens of the largest step.
func (p *Pool) Tokens() int { return p.tokens }

// take returns an activation of cols columns that has as many rows as like, of the same kind.
func (p *Pool) take(like compute.Tensor, cols int) compute.Tensor {
	key := shape{cols, like.Outputs}
	s := p.shelves[key]
	if s == nil {
		s = &shelf{}
		p.shelves[key] = s
	}
	if s.used == len(s.all) {
		s.all = append(s.all, p.allocate(key))
	}
	p.taken = append(p.taken, s)
	s.used++
	return s.all[s.used-1].Like(like)
}

func (p *Pool) allocate(s shape) compute.Tensor {
	rows := p.tokens
	if s.outputs {
		rows = p.outputs
	}
	if rows == 0 || s.cols == 0 || p.err != nil {
		return compute.Tensor{Cols: s.cols}
	}
	var t compute.Tensor
	t, p.err = p.dev.Tensor(rows, s.cols)
	return t
}

// release gives back all but the first n activations that are in use.
func (p *Pool) release(n int) {
	for _, s := range p.taken[n:] {
		s.used--
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
