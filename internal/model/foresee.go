package model

import "github.com/powerinfer-go/powerinfer/internal/compute"

// foresee tells a device of two processors, in a step of one token, how to guess the set of the layer after layer i:
// the residual changes little from layer to layer, and that layer's predictor finds most of its neurons in this one's.
func (m *Model) foresee(v compute.Verbs, s *buffers, i int) {
	if m.Family.LayerNorm || i+1 >= len(m.layers) || s.x.Rows != 1 { // a guess goes through an RMSNorm
		return
	}
	l := &m.layers[i+1]
	f := &l.ffn
	if m.whole || m.guessing || f.fc1 == nil || m.layers[i].ffn.fc1 == nil {
		return
	}
	g := compute.Guess{X: s.x, H: s.h, Eps: m.Eps, Set: s.set, Hidden: s.hidden, Logits: s.gate, FC1: f.fc1, FC2: f.fc2, Weights: f.weights()}
	g.Hidden.Cols, g.Logits.Cols = f.fc1.Rows, f.fc2.Rows
	if f.normed {
		g.Norm = l.ffnNorm.w
	}
	v.Foresee(g)
}
