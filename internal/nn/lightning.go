package nn

import (
	"math"

	"github.com/powerinfer-go/powerinfer/internal/compute"
)

// Lightning is lightning attention: linear attention of heads with one rate of decay each.
//
// Source: Qin et al. 2024, Lightning Attention-2.
type Lightning struct {
	QKV  Linear       // [heads·3·dim, n_embd]: for each head a query, a key and a value
	Gate Linear       // [heads·dim, n_embd]
	Norm Norm         // norm of all heads' output
	Out  Linear       // [n_embd, heads·dim]
	Scan compute.Scan // rates and sizes
}

// Lightning binds the layer's lightning attention; layer is its number out of layers. Heads of the first layers decay
// fastest.
func (b *Binder) Lightning(heads, dim, width, layers int, eps float32) *Lightning {
	inner := heads * dim
	l := &Lightning{
		QKV: b.Linear("attn_qkv", 3*inner, width, NoBias), Gate: b.Linear("attn_gate", inner, width, NoBias),
		Norm: b.RMSNorm("attn_norm_2", inner, eps), Out: b.Linear("attn_output", width, inner, NoBias),
	}
	rates := make([]float32, heads)
	for h := range rates {
		depth := float64(b.layer) / float64(max(1, layers-1))
		rates[h] = -float32(math.Exp2(-8*float64(h+1)/float64(heads)) * (1 - depth + 1e-5))
	}
	shape := compute.StateSpace{Heads: heads, Dim: dim, State: dim, Groups: heads}
	l.Scan = compute.Scan{A: b.numbers("rates of lightning attention", rates), Shape: shape, Layer: b.state(shape.Size())}
	b.parts[b.layer].Recurrent = l
	return l
}

// Forward returns [n, n_embd]
//
//	Out·(norm(scan(silu(QKV·x)))·sigmoid(Gate·x))
func (l *Lightning) Forward(p *Pass, x compute.Tensor) compute.Tensor {
	out := p.New(x, l.Out.W.Rows)
	scope := p.Scope()
	both, gate := p.Linear2(x, &l.QKV, &l.Gate)
	p.Activate(both, compute.Tensor{}, compute.Activation{Kind: compute.SiLU})
	heads, dim, inner := l.Scan.Shape.Heads, l.Scan.Shape.Dim, gate.Cols
	in := p.New(x, both.Cols) // values, keys, queries
	for i := range 3 {
		p.verbs.CopyColumns(in, both, compute.Ranges{First: i * inner, Step: dim}, compute.Ranges{First: (2 - i) * dim, Step: 3 * dim}, dim, heads)
	}
	scan := l.Scan
	scan.Out, scan.X, scan.Cache = p.New(x, inner), in, p.Cache
	p.verbs.Scan(scan)
	p.Normalize(scan.Out, l.Norm)
	p.Activate(gate, scan.Out, compute.Activation{Kind: compute.Logistic})
	p.LinearTo(out, gate, &l.Out)
	p.Leave(scope)
	return out
}
