package model

import (
	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/prepared"
)

// bindFFN binds the layer's feed-forward layer, or its shared experts.
func (l *block) bindFFN(b *blockBinder) {
	m, f, shape := b.m, &l.ffn, &l.shape
	f.Act, l.mode = m.Activation(b.layer), m.LayerMode(b.layer)
	if shape.FF == 0 { // there are only experts
		return
	}
	of := "" // behind the names of tensors
	if shape.Experts {
		of = "_shexp"
	}
	if b.Prepared = nil; m.Prepared != nil {
		b.Prepared = m.Prepared.Layers[b.layer].Order
	}
	place, hot := m.place(b.layer), m.hot(b.Binder, b.layer)
	if f.TopK = shape.TopK; f.TopK != nil { // all gates decide which stay, so they are computed in one place
		if hot < shape.FF {
			hot = 0
		}
	}
	f.Divided = hot > 0 && hot < shape.FF
	f.ByNeuron = l.mode != Off || m.Transposed || f.Divided
	rows, columns := compute.Dense, compute.Dense
	order := m.order(b.Binder, b.layer)
	if f.ByNeuron {
		rows, columns = compute.Rows, compute.Columns
	} else {
		order = nil // it makes no difference to a dense layer
	}
	switch {
	case m.Family.FusedGate && !b.Has(b.name("ffn_gate"+of+".weight")):
		if both := b.Parts(b.name("ffn_up"+of+".weight"), m.Embd, rows, hot, order, shape.FF, shape.FF); both != nil {
			f.Gate, f.Up = both[0], both[1]
		}
	default:
		if m.Family.Gated {
			f.Gate = b.Linear(b.Neurons(b.name("ffn_gate"+of+".weight"), shape.FF, m.Embd, rows, hot, order))
		}
		f.Up = b.Linear(b.Neurons(b.name("ffn_up"+of+".weight"), shape.FF, m.Embd, rows, hot, order))
	}
	if of == "" && b.bound("ffn_up.bias") {
		f.Up.B = b.NeuronVector(b.name("ffn_up"+of+".bias"), shape.FF, order)
	}
	down := "ffn_down" + of
	if m.Transposed {
		down = "ffn_down_t"
		f.Down = b.Linear(b.Neurons(b.name("ffn_down_t.weight"), shape.FF, m.Embd, compute.Rows, hot, order))
	} else {
		if !f.ByNeuron && hot > 0 {
			hot = m.Embd // all of its rows
		}
		f.Down = b.Linear(b.Neurons(b.name("ffn_down"+of+".weight"), m.Embd, shape.FF, columns, hot, order))
	}
	if t, ok := m.Family.InBlock("ffn_down.bias"); of == "" && ok && (!t.Optional || b.Has(b.name(down+".bias"))) {
		f.Down.B = b.Vector(b.name(down+".bias"), m.Embd)
	}
	if m.Predictors {
		b.GPU = place.Predictor
		l.bindPredictor(b, order)
	}
}

// bindPredictor binds the layer's predictor, or leaves it in the file where the mode does not use it.
func (l *block) bindPredictor(b *blockBinder, order []int32) {
	m, r := b.m, &l.ffn.Predictor
	fc1, fc2 := b.name("fc1.weight"), b.name("fc2.weight")
	if l.mode != Predict && !(m.drafts && m.draftsIn(b.layer)) {
		b.Ignore(fc1)
		b.Ignore(fc2)
		return
	}
	rank, always, more := m.Embd, 0, 0 // the rank only names the tensor if it is missing
	if m.Prepared != nil {
		rank, always = m.Prepared.Layers[b.layer].Rank, m.Prepared.Layers[b.layer].AlwaysOn
		more = m.alwaysOn(b.layer) - always
		r.Normed = m.Prepared.Input == prepared.Normed
	} else if t := b.File.Tensor(fc1); t != nil {
		rank = t.Rows()
	}
	r.FC1 = b.Matrix(fc1, rank, m.Embd, compute.Dense)
	if more > 0 { // their rows stay in the file
		r.FC2 = b.MatrixFrom(fc2, more, m.FF-always, rank, compute.Dense)
		return
	}
	r.FC2 = b.Neurons(fc2, m.FF-always, rank, compute.Dense, b.Whole(m.FF-always), order)
}
