package hybrid

import "github.com/powerinfer-go/powerinfer/internal/compute"

// While the host computes a layer's experts that are not on the GPU, it may read experts from disk that the next layer
// will probably use. For that the GPU applies the next layer's router to this layer's residual.

// foreseen is a prediction for the host's next turn with experts: an operation that computes nothing.
type foreseen struct {
	tell  func()              // passes it to the host
	guess compute.ExpertGuess // the prediction with the host's operands, if the host makes it
}

// On implements compute.Op.
func (f *foreseen) On(compute.Operations) { f.tell() }

// Visit implements compute.Op.
func (f *foreseen) Visit(v compute.Visitor) {
	if f.guess.Router != nil {
		v.Tensor(&f.guess.X, compute.Read)
	}
}

// foresight is memory of the GPU for predictions of few tokens: layers take turns.
type foresight struct {
	normed, logits compute.Tensor
	choice         compute.Choice
}

// foresightOf says what a foresight is for.
type foresightOf struct{ cols, count, used int }

// foresight returns memory for g.
func (d *Device) foresight(g *compute.ExpertGuess) (y foresight, err error) {
	of := foresightOf{g.X.Cols, g.Count, g.Used}
	y, ok := d.foresights[of]
	if !ok {
		if y.normed, err = d.gpu.Tensor(compute.FewTokens, of.cols); err == nil {
			y.logits, err = d.gpu.Tensor(compute.FewTokens, of.count)
		}
		if err == nil {
			y.choice, err = d.gpu.Choice(compute.FewTokens, of.used, of.count)
		}
		if err != nil {
			return y, d.ofGPU(err)
		}
		d.foresights[of] = y
	}
	y.normed, y.logits = y.normed.Like(g.X), y.logits.Like(g.X)
	y.choice.Rows, y.choice.Outputs = g.X.Rows, g.X.Outputs
	return y, nil
}

// ForeseeExperts implements compute.Foreseer, where the host has some of the next layer's experts on disk.
func (r *router) ForeseeExperts(g compute.ExpertGuess) {
	r.foreseen = nil
	up, x := mem(g.Weights.Up), g.X.Mem.(*tensor)
	switch {
	case g.Due && up.gpu != nil: // the host would have to wait for the GPU once more
	case up.units == 0 || g.X.Rows > compute.FewTokens || g.Weights.Table != nil:
	case onGPU(g.Router) && x.onGPU:
		r.foreseeOnGPU(g)
	case up.gpu == nil && mem(g.Router).gpu == nil && x.onHost:
		f := &foreseen{guess: g}
		y := &f.guess
		y.X, y.Norm, y.Shift = hostTensor(g.X), hostVector(g.Norm), hostVector(g.Shift)
		y.Router, y.RouterBias, y.Bias = mem(g.Router).host, hostVector(g.RouterBias), hostVector(g.Bias)
		y.Weights = compute.ExpertWeights{Up: up.host, Skip: g.Weights.Skip}
		f.tell = func() { r.d.host.ForeseeExperts(f.guess) }
		if r.foreseen = func() { r.onHost(f) }; g.Due {
			r.expect()
		}
	}
}

// foreseeOnGPU makes the GPU predict.
func (r *router) foreseeOnGPU(g compute.ExpertGuess) {
	y, err := r.d.foresight(&g)
	if err != nil {
		r.fail(err)
		return
	}
	in := y.normed
	switch norm := gpuVector(g.Norm); {
	case norm == nil:
		in = gpuTensor(g.X)
	case g.Centered:
		r.gpu.Do(&compute.LayerNorm{Dst: in, X: gpuTensor(g.X), W: norm, B: gpuVector(g.Shift), Eps: g.Eps})
	default:
		r.gpu.Do(&compute.RMSNorm{Dst: in, X: gpuTensor(g.X), W: norm, Eps: g.Eps})
		if g.Shift != nil {
			r.gpu.Do(&compute.Shift{X: in, B: gpuVector(g.Shift)})
		}
	}
	r.gpu.Do(&compute.MatMul{X: in, Products: compute.Products{{Out: y.logits, W: mem(g.Router).gpu, Bias: gpuVector(g.RouterBias)}}})
	r.gpu.Do(&compute.Route{Choice: y.choice, Logits: y.logits, Bias: gpuVector(g.Bias), How: g.How})
	chosen := r.gpu.DownloadChoice(y.choice)
	up, down := mem(g.Weights.Up), mem(g.Weights.Down)
	held, first := up.hot*g.Count/g.Weights.Up.Rows, 0
	if !up.slots {
		first = held
	}
	var units []int32
	leave := make([]bool, compute.FewTokens*g.Used)
	r.foreseen = func() {
		s := r.stretch()
		s.loads = append(s.loads, func(w *window) {
			data, rows := w.chosen(y.choice, chosen()), w.rows(y.choice.Outputs).n
			units = units[:0]
			for t := range rows {
				g.Weights.Skip.Leaves(data[(2*t+1)*g.Used:][:g.Used], leave[t*g.Used:][:g.Used])
			}
			for k := range g.Used { // the first choices of all tokens first
				for t := range rows {
					e := int(data[t*2*g.Used+k])
					if e >= 0 && e < g.Count && !down.hasExpert(e, held) && !leave[t*g.Used+k] {
						units = append(units, int32(e-first))
					}
				}
			}
		})
		r.onHost(&foreseen{tell: func() { r.d.host.GuessUnits(up.host, units) }})
	}
}

// expect passes the pending prediction, if any, to the host's next turn.
func (r *router) expect() {
	if r.foreseen != nil {
		r.foreseen()
		r.foreseen = nil
	}
}
