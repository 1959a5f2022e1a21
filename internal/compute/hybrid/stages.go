package hybrid

import "github.com/powerinfer-go/powerinfer/internal/compute"

// stageExecutor passes one stage's operations on to its device or, during a survey, all operations to the survey. It
// implements compute.Executor.
type stageExecutor struct {
	f      *MultiGPU
	survey *survey // or nil
	s      *stage
	to     *router
	n      int // operations so far
}

// Do implements compute.Executor.
func (w *stageExecutor) Do(op compute.Op) {
	if w.survey != nil {
		o := operandsOf(op)
		w.survey.take(w.f.homeOf(o), o.reads, o.writes)
		return
	}
	if w.next() {
		w.to.Do(moved(op, toStage{w.f, w.s.gpu}))
	}
}

// next reports whether the next operation belongs to the stage.
func (w *stageExecutor) next() bool {
	w.n++
	return w.n > w.s.from && w.n <= w.s.to
}

// homeOf returns the GPU that has the layer's cache, or some of an operation's matrices, or the layer's vectors.
// Negative: an operation with operands o can be done by any.
func (f *MultiGPU) homeOf(o *operands) int {
	home := -1
	switch {
	case o.cache != nil:
		return f.caches(o.cache.LayerOf(o.layer))
	case len(o.matrices) > 0:
		for _, m := range o.matrices {
			if mem(m).gpu != nil {
				home = max(home, mem(m).home)
			}
		}
	case len(o.vectors) > 0:
		return o.vectors[0].Mem.(*vector).home
	}
	return home
}

// toStage replaces operands by those of a stage's device: GPU number gpu and the host. Weights already belong to one
// GPU.
type toStage struct {
	f   *MultiGPU
	gpu int
}

func (w toStage) Tensor(t *compute.Tensor, _ compute.Access) { *t = w.tensor(*t) }

func (w toStage) tensor(t compute.Tensor) compute.Tensor {
	if m, ok := t.Mem.(*spread); ok {
		return viewed(t, m.on[w.gpu])
	}
	return t
}

func (w toStage) tensors(list []compute.Tensor) (out []compute.Tensor) {
	for _, t := range list {
		out = append(out, w.tensor(t))
	}
	return out
}

func (w toStage) Set(s *compute.Set, _ compute.Access) {
	if on, ok := s.Mem.([]compute.Set); ok {
		*s = setView(*s, on[w.gpu])
	}
}

func (w toStage) Choice(c *compute.Choice, _ compute.Access) {
	if on, ok := c.Mem.([]compute.Choice); ok {
		*c = choiceView(*c, on[w.gpu])
	}
}

func (w toStage) Matrix(**compute.Matrix) {}
func (w toStage) Vector(**compute.Vector) {}

func (w toStage) Cache(c **compute.Cache, layer *int) {
	all := (*c).Mem.(*spreadCache)
	*c, *layer = all.on[w.gpu], all.index[*layer]
}

// Foresee forwards predictions of layers of the same GPU.
func (w *stageExecutor) Foresee(g compute.Guess) {
	if w.survey != nil || w.n < w.s.from || w.n >= w.s.to {
		return
	}
	if up := mem(g.Weights.Up); up.gpu == nil || up.home != w.s.gpu {
		return
	}
	g.Visit(toStage{w.f, w.s.gpu})
	w.to.Foresee(g)
}

// ForeseeExperts forwards predictions of layers of the same GPU.
func (w *stageExecutor) ForeseeExperts(g compute.ExpertGuess) {
	if w.survey != nil || w.n < w.s.from || w.n >= w.s.to || mem(g.Router).home != w.s.gpu {
		return
	}
	g.X = toStage{w.f, w.s.gpu}.tensor(g.X)
	w.to.ForeseeExperts(g)
}

// Turn implements compute.Turner.
func (w *stageExecutor) Turn(f func() error) {
	if w.survey != nil {
		w.survey.take(-1, nil, nil)
	} else if w.next() {
		w.to.Turn(f)
	}
}

// Host implements compute.Executor.
func (w *stageExecutor) Host(f func() error) {
	if w.survey != nil {
		w.survey.take(-1, nil, nil)
		return
	}
	if w.next() {
		w.to.Host(f)
	}
}
