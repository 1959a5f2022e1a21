package nn

import (
	"slices"

	"github.com/powerinfer-go/powerinfer/internal/compute"
)

// lowRank is what an adapter adds to the products of a matrix W, or of consecutive rows of one: W·x becomes
// W·x + scale·B·(A·x).
//
// Source: Hu et al. 2021, LoRA.
type lowRank struct {
	adapter int             // its number
	scale   float32         // alpha/rank
	a       *compute.Matrix // [rank, in]; the rank is rounded up to blockRank with zeros, which every device's matrices can have
	b       *compute.Matrix // [out, rank]
}

// neuronAdapter is what adapters add to a matrix of neurons in a layer that is computed by neuron. The halves of the
// adapters with a row or a column for each neuron are one matrix, which is split among devices as the neurons are. The
// other halves are matrices of their own.
type neuronAdapter struct {
	narrow []lowRank       // the other halves: only a for Gate and Up, only b for Down
	wide   *compute.Matrix // the adapters' b [n_ff, ranks], or a [ranks, n_ff] of Down
	ranks  int             // sum of all adapters' ranks, each rounded up
}

// active returns n if one of the step's scales is not 0, else nil.
func (n *neuronAdapter) active(p *Pass) *neuronAdapter {
	if n == nil || !slices.ContainsFunc(n.narrow, func(a lowRank) bool { return p.Scales[a.adapter] != 0 }) {
		return nil
	}
	return n
}

// low returns the adapters' narrow products of x, side by side. [n, ranks]
func (n *neuronAdapter) low(p *Pass, x compute.Tensor) compute.Tensor {
	low := p.New(x, n.ranks)
	scope, at := p.Scope(), 0
	for _, a := range n.narrow {
		part := low
		if len(n.narrow) > 1 {
			part = p.New(x, a.a.Rows)
		}
		p.verbs.MatMul(x, compute.Products{{Out: part, W: a.a}})
		p.verbs.Scale(part, a.scale*p.Scales[a.adapter])
		if len(n.narrow) > 1 {
			p.verbs.CopyColumns(low, part, compute.Ranges{First: at}, compute.Ranges{}, part.Cols, 1)
		}
		at += a.a.Rows
	}
	p.Leave(scope)
	return low
}

// sparse makes out the sum of a set's neurons, with what adapters add.
func (f *FFN) sparse(p *Pass, out, x compute.Tensor, set compute.Set, w compute.SparseWeights) {
	scope := p.Scope()
	a := &w.Adapter
	if n := f.Gate.neurons.active(p); n != nil {
		a.GateB, a.GateLow = n.wide, n.low(p, x)
	}
	if n := f.Up.neurons.active(p); n != nil {
		a.UpB, a.UpLow = n.wide, n.low(p, x)
	}
	down := f.Down.neurons.active(p)
	if down != nil {
		a.DownA, a.DownLow = down.wide, p.New(x, down.ranks)
	}
	p.verbs.SparseFFN(out, x, set, w)
	if down != nil {
		down.widen(p, out, a.DownLow)
	}
	p.Leave(scope)
}

// widen adds to out the wide products of low, which has the adapters' narrow sums side by side.
func (n *neuronAdapter) widen(p *Pass, out, low compute.Tensor) {
	at := 0
	for _, a := range n.narrow {
		part := low
		if len(n.narrow) > 1 {
			part = p.Slice(low, at, a.b.Cols)
		}
		p.verbs.Scale(part, a.scale*p.Scales[a.adapter])
		wide := p.New(out, a.b.Rows)
		p.verbs.MatMul(part, compute.Products{{Out: wide, W: a.b}})
		p.verbs.Add(out, wide)
		at += a.b.Cols
	}
}
