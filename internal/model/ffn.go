package model

import (
	"fmt"

	"github.com/powerinfer-go/powerinfer/internal/compute"
)

// ffn is a feed-forward layer: dense, or by neuron where the file has predictors.
type ffn struct {
	gate     *compute.Matrix // [n_ff, n_embd], nil in ungated families
	up       *compute.Matrix // [n_ff, n_embd]
	down     *compute.Matrix // [n_embd, n_ff]; dense only
	downT    *compute.Matrix // [n_ff, n_embd], one row per neuron; by neuron only
	upBias   *compute.Vector // [n_ff] or nil
	downBias *compute.Vector // [n_embd] or nil
	act      compute.Activation
	fc1      *compute.Matrix // [rank, n_embd] or nil
	fc2      *compute.Matrix // [n_ff, rank] or nil
}

func (f *ffn) bind(b *binder, m *Model, layer int) {
	name := func(s string) string { return fmt.Sprintf("blk.%d.%s", layer, s) }
	gated := m.Arch != "falcon" && m.Arch != "opt"
	f.act = m.Act
	use := compute.Dense
	if m.Predicted {
		use = compute.Rows
	}
	if gated {
		f.gate = b.matrix(name("ffn_gate.weight"), m.FF, m.Embd, use)
	}
	f.up = b.matrix(name("ffn_up.weight"), m.FF, m.Embd, use)
	if m.Arch == "opt" {
		f.upBias = b.vector(name("ffn_up.bias"), m.FF)
	}
	if !m.Predicted {
		f.down = b.matrix(name("ffn_down.weight"), m.Embd, m.FF, compute.Dense)
		if m.Arch == "opt" {
			f.downBias = b.vector(name("ffn_down.bias"), m.Embd)
		}
		return
	}
	f.downT = b.matrix(name("ffn_down_t.weight"), m.FF, m.Embd, compute.Rows)
	if m.Arch == "opt" {
		f.downBias = b.vector(name("ffn_down_t.bias"), m.Embd)
	}
	rank := m.Embd // only to name the tensor if it is missing
	if t := b.f.Tensor(name("fc1.weight")); t != nil {
		rank = t.Rows()
	}
	f.fc1 = b.matrix(name("fc1.weight"), rank, m.Embd, compute.Dense)
	f.fc2 = b.matrix(name("fc2.weight"), m.FF, rank, compute.Dense)
}

// predict chooses the active neurons from x [n, n_embd], the residual as the predictor was trained on it.
func (f *ffn) predict(v compute.Verbs, s *buffers, x compute.Tensor) {
	if f.fc1 == nil {
		return
	}
	hidden := s.hidden
	hidden.Cols = f.fc1.Rows
	v.Predict(s.set, x, hidden, s.gate, f.fc1, f.fc2)
}

// forward computes s.ffnOut from the normed input s.h.
func (f *ffn) forward(v compute.Verbs, s *buffers) {
	if f.fc1 != nil {
		v.SparseFFN(s.ffnOut, s.h, s.set, compute.SparseWeights{
			Gate: f.gate, Up: f.up, Down: f.downT, UpBias: f.upBias, DownBias: f.downBias, Act: f.act,
		})
		return
	}
	if f.gate != nil {
		v.MatMul(s.h, compute.Products{{Out: s.gate, W: f.gate}, {Out: s.up, W: f.up}})
		v.Activate(s.gate, s.gate, s.up, f.act)
	} else {
		v.MatMul(s.h, compute.Products{{Out: s.gate, W: f.up, Bias: f.upBias}})
		v.Activate(s.gate, s.gate, compute.Tensor{}, f.act)
	}
	v.MatMul(s.gate, compute.Products{{Out: s.ffnOut, W: f.down, Bias: f.downBias}})
}
