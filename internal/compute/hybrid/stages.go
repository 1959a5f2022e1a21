package hybrid

import "github.com/powerinfer-go/powerinfer/internal/compute"

// stageVerbs passes one stage's verbs on to its device, or, where that is nil, tells all of them to a survey.
type stageVerbs struct {
	f      *Fleet
	survey *survey
	s      *stage
	to     compute.Verbs
	n      int // verbs so far
}

type tensors = []compute.Tensor

// next is the device of the next verb, nil where that is not for now. The verb is done beside home's card, or, where home is negative,
// wherever the one before was.
func (w *stageVerbs) next(home int, in, out tensors) compute.Verbs {
	if w.to == nil {
		w.survey.verb(home, in, out)
		return nil
	}
	w.n++
	if w.n <= w.s.from || w.n > w.s.to {
		return nil
	}
	return w.to
}

// t is the view of t on the stage's device.
func (w *stageVerbs) t(t compute.Tensor) compute.Tensor {
	if m, ok := t.Mem.(*spread); ok {
		return viewed(t, m.on[w.s.card])
	}
	return t
}

func (w *stageVerbs) all(list tensors) tensors {
	var out tensors
	for _, t := range list {
		out = append(out, w.t(t))
	}
	return out
}

// set is the view of s on the stage's device: the predictor and the neurons of a layer have the same.
func (w *stageVerbs) set(s compute.Set) compute.Set {
	if on, ok := s.Mem.([]compute.Set); ok {
		return setView(s, on[w.s.card])
	}
	return s
}

// homeOf is the card that has some of a verb's weights; negative: none.
func homeOf(weights ...*compute.Matrix) int {
	for _, w := range weights {
		if w != nil && mem(w).card != nil {
			return mem(w).home
		}
	}
	return -1
}

func (w *stageVerbs) Embed(dst compute.Tensor, table *compute.Matrix) {
	if v := w.next(homeOf(table), nil, tensors{dst}); v != nil {
		v.Embed(w.t(dst), table)
	}
}

func (w *stageVerbs) AddPosition(x compute.Tensor, table *compute.Matrix, offset int) {
	if v := w.next(homeOf(table), tensors{x}, tensors{x}); v != nil {
		v.AddPosition(w.t(x), table, offset)
	}
}

func (w *stageVerbs) RMSNorm(dst, x compute.Tensor, scale *compute.Vector, eps float32) {
	if v := w.next(scale.Mem.(*vector).home, tensors{x}, tensors{dst}); v != nil {
		v.RMSNorm(w.t(dst), w.t(x), scale, eps)
	}
}

func (w *stageVerbs) LayerNorm(dst, x compute.Tensor, scale, bias *compute.Vector, eps float32) {
	if v := w.next(scale.Mem.(*vector).home, tensors{x}, tensors{dst}); v != nil {
		v.LayerNorm(w.t(dst), w.t(x), scale, bias, eps)
	}
}

func (w *stageVerbs) MatMul(x compute.Tensor, p compute.Products) {
	var out tensors
	home := -1
	for _, y := range p {
		if y.W == nil {
			break
		}
		out = append(out, y.Out)
		home = max(home, homeOf(y.W))
	}
	v := w.next(home, tensors{x}, out)
	if v == nil {
		return
	}
	for i := range out {
		p[i].Out = w.t(p[i].Out)
	}
	v.MatMul(w.t(x), p)
}

func (w *stageVerbs) RoPE(x compute.Tensor, headDim int, rope *compute.Rope) {
	if v := w.next(-1, tensors{x}, tensors{x}); v != nil {
		v.RoPE(w.t(x), headDim, rope)
	}
}

func (w *stageVerbs) StoreKV(c *compute.Cache, layer int, k, v compute.Tensor) {
	home := w.f.home[layer]
	if on := w.next(home, tensors{k, v}, nil); on != nil {
		on.StoreKV(c.Mem.([]*compute.Cache)[home], w.f.index[layer], w.t(k), w.t(v))
	}
}

func (w *stageVerbs) Attention(out, q compute.Tensor, c *compute.Cache, layer int, scale float32) {
	home := w.f.home[layer]
	if v := w.next(home, tensors{q}, tensors{out}); v != nil {
		v.Attention(w.t(out), w.t(q), c.Mem.([]*compute.Cache)[home], w.f.index[layer], scale)
	}
}

func (w *stageVerbs) Add(dst, x compute.Tensor) {
	if v := w.next(-1, tensors{dst, x}, tensors{dst}); v != nil {
		v.Add(w.t(dst), w.t(x))
	}
}

func (w *stageVerbs) Activate(dst, gate, up compute.Tensor, act compute.Activation) {
	if v := w.next(-1, tensors{gate, up}, tensors{dst}); v != nil {
		v.Activate(w.t(dst), w.t(gate), w.t(up), act)
	}
}

func (w *stageVerbs) Gather(dst, x compute.Tensor) {
	if v := w.next(-1, tensors{x}, tensors{dst}); v != nil {
		v.Gather(w.t(dst), w.t(x))
	}
}

func (w *stageVerbs) Predict(s compute.Set, x, hidden, logits compute.Tensor, fc1, fc2 *compute.Matrix) {
	if v := w.next(homeOf(fc1, fc2), tensors{x}, tensors{hidden, logits}); v != nil {
		v.Predict(w.set(s), w.t(x), w.t(hidden), w.t(logits), fc1, fc2)
	}
}

func (w *stageVerbs) SparseFFN(out, x compute.Tensor, s compute.Set, f compute.SparseWeights) {
	if v := w.next(homeOf(f.Up), tensors{x}, tensors{out}); v != nil {
		v.SparseFFN(w.t(out), w.t(x), w.set(s), f)
	}
}

// Foresee passes guesses at layers of the same card on.
func (w *stageVerbs) Foresee(g compute.Guess) {
	v, ok := w.to.(compute.Foreseer)
	if !ok || w.n < w.s.from || w.n >= w.s.to || homeOf(g.Weights.Up) != w.s.card {
		return
	}
	g.X, g.H, g.Hidden, g.Logits, g.Set = w.t(g.X), w.t(g.H), w.t(g.Hidden), w.t(g.Logits), w.set(g.Set)
	v.Foresee(g)
}

func (w *stageVerbs) Host(f func()) {
	if v := w.next(-1, nil, nil); v != nil {
		v.Host(f)
	}
}
