package model

import (
	"fmt"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/prepared"
)

// ffn is a feed-forward layer: dense, or by neuron.
type ffn struct {
	mode     SparseMode
	gate     *compute.Matrix // [n_ff, n_embd], nil in ungated families
	up       *compute.Matrix // [n_ff, n_embd]
	down     *compute.Matrix // [n_embd, n_ff]; [n_ff, n_embd], one row per neuron, in files that hold it so
	byNeuron bool            // computed by SparseFFN
	divided  bool            // some neurons lie on a GPU and some do not
	upBias   *compute.Vector // [n_ff] or nil
	downBias *compute.Vector // [n_embd] or nil
	topK     *float32        // see Block.TopK
	act      compute.Activation
	fc1      *compute.Matrix // [rank, n_embd], mode predict only
	fc2      *compute.Matrix // [n_ff - always on, rank], mode predict only
	normed   bool            // the predictor reads what comes out of the norm, not the residual before it
	count    compute.NeuronCount
	found    compute.NeuronCount // of the neurons that the predictor chose, with Options.Recall
	bins     compute.NeuronBins
	observe  func(v compute.Verbs, s *buffers, in compute.Tensor) // tells an Observer, or nil

	observeGates func(v compute.Verbs, s *buffers) // tells a GateObserver, or nil
}

func (f *ffn) bind(b *blockBinder) {
	m := b.m
	shape := m.Blocks[b.layer]
	f.act, f.mode = m.Activation(b.layer), m.LayerMode(b.layer)
	if shape.FF == 0 { // there are only experts
		return
	}
	of := "" // behind the names of tensors
	if shape.Experts {
		of = "_shexp"
	}
	if b.prepared = nil; m.Prepared != nil {
		b.prepared = m.Prepared.Layers[b.layer].Order
	}
	place, hot := m.place(b.layer), m.hot(b.binder, b.layer)
	if f.topK = shape.TopK; f.topK != nil { // all gates decide which stay, so they are computed in one place
		if hot < shape.FF {
			hot = 0
		}
	}
	f.divided = hot > 0 && hot < shape.FF
	f.byNeuron = f.mode != Off || m.Transposed || f.divided
	rows, columns := compute.Dense, compute.Dense
	order := m.order(b.binder, b.layer)
	if f.byNeuron {
		rows, columns = compute.Rows, compute.Columns
	} else {
		order = nil // it makes no difference to a dense layer
	}
	switch {
	case m.Family.FusedGate && !b.has(b.name("ffn_gate"+of+".weight")):
		if both := b.parts(b.name("ffn_up"+of+".weight"), m.Embd, rows, hot, order, shape.FF, shape.FF); both != nil {
			f.gate, f.up = both[0], both[1]
		}
	default:
		if m.Family.Gated {
			f.gate = b.neurons(b.name("ffn_gate"+of+".weight"), shape.FF, m.Embd, rows, hot, order)
		}
		f.up = b.neurons(b.name("ffn_up"+of+".weight"), shape.FF, m.Embd, rows, hot, order)
	}
	if of == "" && b.bound("ffn_up.bias") {
		f.upBias = b.neuronVector(b.name("ffn_up"+of+".bias"), shape.FF, order)
	}
	down := "ffn_down" + of
	if m.Transposed {
		down = "ffn_down_t"
		f.down = b.neurons(b.name("ffn_down_t.weight"), shape.FF, m.Embd, compute.Rows, hot, order)
	} else {
		if !f.byNeuron && hot > 0 {
			hot = m.Embd // all of its rows
		}
		f.down = b.neurons(b.name("ffn_down"+of+".weight"), m.Embd, shape.FF, columns, hot, order)
	}
	if t, ok := m.Family.InBlock("ffn_down.bias"); of == "" && ok && (!t.Optional || b.has(b.name(down+".bias"))) {
		f.downBias = b.binder.vector(b.name(down+".bias"), m.Embd)
	}
	if m.Predictors {
		b.gpu = place.Predictor
		f.bindPredictor(b.binder, m, b.layer, order)
	}
}

// bindPredictor takes the layer's predictor in, or leaves it in the file where the mode does not use it.
func (f *ffn) bindPredictor(b *binder, m *Model, layer int, order []int32) {
	fc1, fc2 := fmt.Sprintf("blk.%d.fc1.weight", layer), fmt.Sprintf("blk.%d.fc2.weight", layer)
	if f.mode != Predict && !(m.drafts && m.draftsIn(layer)) {
		b.ignore(fc1)
		b.ignore(fc2)
		return
	}
	rank, always, more := m.Embd, 0, 0 // the rank only names the tensor if it is missing
	if m.Prepared != nil {
		rank, always = m.Prepared.Layers[layer].Rank, m.Prepared.Layers[layer].AlwaysOn
		more = m.alwaysOn(layer) - always
		f.normed = m.Prepared.Input == prepared.Normed
	} else if t := b.f.Tensor(fc1); t != nil {
		rank = t.Rows()
	}
	f.fc1 = b.matrix(fc1, rank, m.Embd, compute.Dense)
	if more > 0 { // their rows stay in the file
		f.fc2 = b.behind(fc2, more, m.FF-always, rank, compute.Dense)
		return
	}
	f.fc2 = b.neurons(fc2, m.FF-always, rank, compute.Dense, b.whole(m.FF-always), order)
}

// forward computes s.ffnOut from the input in, the normed residual where the block has a norm before the layer; s.x is
// the residual.
func (f *ffn) forward(v compute.Verbs, m *Model, s *buffers, in compute.Tensor) {
	if !f.byNeuron {
		f.dense(v, m, s, in)
		return
	}
	set := compute.Set{Rows: in.Rows, N: f.up.Rows}
	if f.fc1 != nil && !m.whole {
		set = s.set
		f.predict(v, s, in)
		if m.recall {
			chosen := f.weights()
			chosen.Count, chosen.Bins = &f.found, nil
			m.sparseFFN(v, s, in, set, chosen)
			set = compute.Set{Rows: in.Rows, N: f.up.Rows}
		}
	}
	w := f.weights()
	if w.Hot = m.guessing; w.Hot {
		w.Bins = nil
	}
	m.sparseFFN(v, s, in, set, w)
}

func (f *ffn) weights() compute.SparseWeights {
	return compute.SparseWeights{Gate: f.gate, Up: f.up, Down: f.down, UpBias: f.upBias, DownBias: f.downBias, Act: f.act, Cut: f.topK, Count: &f.count, Bins: &f.bins}
}

// predict chooses the neurons to compute.
func (f *ffn) predict(v compute.Verbs, s *buffers, in compute.Tensor) {
	x, hidden, logits := s.x, s.hidden, s.gate
	if f.normed {
		x = in
	}
	hidden.Cols, logits.Cols = f.fc1.Rows, f.fc2.Rows
	v.Predict(s.set, x, hidden, logits, f.fc1, f.fc2)
}

func (f *ffn) dense(v compute.Verbs, m *Model, s *buffers, in compute.Tensor) {
	if f.gate != nil {
		m.product(v, in, compute.Products{{Out: s.gate, W: f.gate}, {Out: s.up, W: f.up}})
		if f.topK != nil {
			v.GaussianTopK(s.gate, *f.topK)
		}
		if f.observeGates != nil {
			f.observeGates(v, s)
		}
		v.Activate(s.gate, s.gate, s.up, f.act)
	} else {
		m.product(v, in, compute.Products{{Out: s.gate, W: f.up, Bias: f.upBias}})
		if f.observeGates != nil {
			f.observeGates(v, s)
		}
		v.Activate(s.gate, s.gate, compute.Tensor{}, f.act)
	}
	if f.observe != nil {
		f.observe(v, s, in)
	}
	m.product(v, s.gate, compute.Products{{Out: s.ffnOut, W: f.down, Bias: f.downBias}})
}
