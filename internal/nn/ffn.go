package nn

import "github.com/powerinfer-go/powerinfer/internal/compute"

// FeedForward is a layer that processes each token separately.
type FeedForward interface {
	// Forward returns the layer's output for x, the norm of residual. Predictors, which choose neurons earlier, may
	// read residual itself. [n, n_embd]
	Forward(p *Pass, residual, x compute.Tensor) compute.Tensor
}

// FFN is a feed-forward layer: dense, or by neuron. A neuron is a row of Gate, a row of Up and a column of Down.
type FFN struct {
	Gate Linear // [n_ff, n_embd], perhaps with a bias; not bound in layers without gates
	Up   Linear // [n_ff, n_embd], perhaps with a bias
	Down Linear // [n_embd, n_ff]; [n_ff, n_embd], one row per neuron, where files hold it so

	Act   compute.Activation
	Inner Norm     // [n_ff] of what Down reads, or none
	TopK  *float32 // gates become max(0, gate - mean - TopK·σ) of their row before the activation; nil: they stay as they are

	ByNeuron bool // Forward computes chosen neurons, by SparseFFN
	EveryRow int  // see compute.Place
	Divided  bool // some neurons are on a GPU and some in RAM
	OnDisk   bool // neurons that are not on a GPU stay on disk

	Predictor Predictor // or none
	Count     compute.NeuronCount
	Found     compute.NeuronCount // counts the neurons that the predictor chose, with Pass.Recall
	Bins      compute.NeuronBins

	Next     *FFN // the next layer's, if both have predictors, or nil
	NextNorm Norm // the norm before it

	// Observe, if it is set, sees each dense step: the residual before the layer's norm, what the layer reads, and the
	// activations. [n, n_embd], [n, n_embd], [n, n_ff]
	Observe func(p *Pass, residual, x, activations compute.Tensor)
	// ObserveGates, if set, sees the gates before the activation, or Up's output in a layer without gates. [n, n_ff]
	ObserveGates func(p *Pass, gates compute.Tensor)
}

// Predictor is a network of two layers that says which neurons of a feed-forward layer to compute: those with
// FC2·relu(FC1·x) >= Params.Threshold. The first n_ff - len(FC2) neurons are always computed.
type Predictor struct {
	FC1    *compute.Matrix // [rank, n_embd], or nil: there is no predictor
	FC2    *compute.Matrix // [n_ff - always on, rank]
	Normed bool            // it reads the norm of the residual, not the residual
}

// Bound reports whether there is a predictor.
func (r *Predictor) Bound() bool { return r.FC1 != nil }

// Bytes returns what reading the predictor takes.
func (r *Predictor) Bytes() int64 { return bytesOf(r.FC1) + bytesOf(r.FC2) }

// Bound reports whether there is a layer.
func (f *FFN) Bound() bool { return f.Up.Bound() }

// Whole reports whether neurons cannot be left out or computed in two places: there is a norm over all of them, their
// gates have a bias, or only Activate computes their activation.
func (f *FFN) Whole() bool { return f.Inner.Bound() || f.Gate.B != nil || f.Act.Kind >= compute.XIELU }

// Bytes returns what reading all neurons takes.
func (f *FFN) Bytes() int64 { return f.Gate.Bytes() + f.Up.Bytes() + f.Down.Bytes() }

// Neurons returns n_ff.
func (f *FFN) Neurons() int { return f.Up.W.Rows }

// Forward returns the layer's output for x, the norm of the residual, as it is added to the residual: [n, n_embd]
//
//	Down·(act(Gate·x)·Up·x)      with gates
//	Down·act(Up·x)               without
//
// Predictors and observers read the residual. Forward may overwrite x.
func (f *FFN) Forward(p *Pass, residual, x compute.Tensor) compute.Tensor {
	if f.ByNeuron {
		return f.byNeuron(p, residual, x)
	}
	return f.dense(p, residual, x)
}

func (f *FFN) dense(p *Pass, residual, x compute.Tensor) compute.Tensor {
	out := p.reuse(x, residual, x, residual.Cols)
	if x.Rows == 0 {
		return out
	}
	scope := p.Scope()
	var gate, up compute.Tensor
	if f.Gate.Bound() {
		gate, up = p.Linear2(x, &f.Gate, &f.Up)
		if f.TopK != nil {
			p.verbs.GaussianTopK(gate, *f.TopK)
		}
	} else {
		gate = p.Linear(x, &f.Up)
	}
	if f.ObserveGates != nil {
		f.ObserveGates(p, gate)
	}
	p.Activate(gate, up, f.Act)
	p.Normalize(gate, f.Inner)
	if f.Observe != nil {
		f.Observe(p, residual, x, gate)
	}
	p.LinearTo(out, gate, &f.Down)
	p.Leave(scope)
	return out
}

func (f *FFN) byNeuron(p *Pass, residual, x compute.Tensor) compute.Tensor {
	out := p.New(x, residual.Cols)
	if x.Rows == 0 {
		return out
	}
	scope := p.Scope()
	all := compute.Set{Rows: x.Rows, N: f.Neurons()}
	set := all
	if f.Predictor.Bound() && !p.Whole {
		set = f.predict(p, residual, x)
		f.foresee(p, residual)
		if p.Recall {
			found := f.Weights()
			found.Count, found.Bins = &f.Found, nil
			f.sparse(p, out, x, set, found)
			set = all
		}
	}
	w := f.Weights()
	if w.Hot = p.Draft; w.Hot {
		w.Bins = nil
	}
	f.sparse(p, out, x, set, w)
	p.Leave(scope)
	return out
}

// Weights returns the layer's weights by neuron.
func (f *FFN) Weights() compute.SparseWeights {
	return compute.SparseWeights{
		Gate: f.Gate.W, Up: f.Up.W, Down: f.Down.W, UpBias: f.Up.B, DownBias: f.Down.B, Act: f.Act, Cut: f.TopK, Count: &f.Count, Bins: &f.Bins, EveryRow: f.EveryRow,
	}
}

// predict returns the neurons to compute.
func (f *FFN) predict(p *Pass, residual, x compute.Tensor) compute.Set {
	r := &f.Predictor
	if !r.Normed {
		x = residual
	}
	set := p.pool.takeSet(x, f.Neurons())
	scope := p.Scope()
	logits := p.New(x, r.FC2.Rows)
	hidden := p.New(x, r.FC1.Rows) // a tensor wide enough for the other would be too wide for this one
	p.verbs.Predict(set, x, hidden, logits, r.FC1, r.FC2)
	p.Leave(scope)
	return set
}

// foresee tells a device how to predict the set of the next layer's neurons, in a step of one token, or of a few if it
// waits for a disk. The residual changes little from layer to layer, so the next layer's predictor finds most of its
// neurons in this layer's residual.
func (f *FFN) foresee(p *Pass, residual compute.Tensor) {
	if f.Next == nil || residual.Rows > 1 && (residual.Rows > compute.FewTokens || !f.Next.OnDisk) || p.Whole || p.Draft || f.NextNorm.Centered || f.NextNorm.Bias != nil { // a prediction goes through an RMSNorm
		return
	}
	r := &f.Next.Predictor
	logits := p.New(residual, r.FC2.Rows) // the widest first, as in predict
	g := compute.Guess{
		X: residual, H: p.New(residual, residual.Cols), Eps: f.NextNorm.Epsilon, Set: p.pool.takeSet(residual, f.Next.Neurons()),
		Hidden: p.New(residual, r.FC1.Rows), Logits: logits, FC1: r.FC1, FC2: r.FC2, Weights: f.Next.Weights(),
	}
	if r.Normed {
		g.Norm = f.NextNorm.Weight
	}
	p.verbs.Foresee(g)
}
