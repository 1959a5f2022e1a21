package nn

import "github.com/powerinfer-go/powerinfer/internal/compute"

// HeadGate multiplies the heads' output by a function of the layer's input. The zero value is no gate.
type HeadGate struct {
	Linear Linear // [heads, n_embd], or [heads·value, n_embd] of a gate for each element
	By     compute.Nonlinearity
}

// HeadGate binds attn_gate, which the file has for each head or for each element that heads read.
func (b *Binder) HeadGate(heads, value, width int, by compute.Nonlinearity) HeadGate {
	rows := heads * value
	if b.Rows("attn_gate.weight") == heads {
		rows = heads
	}
	return HeadGate{b.Linear("attn_gate", rows, width, NoBias), by}
}

// apply multiplies heads [n, heads·value] by By(Linear·x), if there is a gate.
func (g *HeadGate) apply(p *Pass, heads, x compute.Tensor, value int) {
	if !g.Linear.Bound() {
		return
	}
	gate := p.Linear(x, &g.Linear)
	if gate.Cols == heads.Cols {
		p.verbs.Activate(heads, gate, heads, compute.Activation{Kind: g.By})
	} else {
		p.verbs.GateRowsBy(heads.Split(value), gate.Split(1), g.By)
	}
}
