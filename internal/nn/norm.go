package nn

import "github.com/powerinfer-go/powerinfer/internal/compute"

// Norm is an RMSNorm, or a LayerNorm where Centered is set, to which Bias is added. The zero value is no norm.
type Norm struct {
	Weight   *compute.Vector // [n]
	Bias     *compute.Vector // [n] or nil
	Epsilon  float32
	Centered bool // the mean is subtracted
}

// Bound reports whether there is a norm.
func (n *Norm) Bound() bool { return n.Weight != nil }

// Norm returns the norm of x, or x itself without a norm.
func (p *Pass) Norm(x compute.Tensor, n Norm) compute.Tensor {
	if !n.Bound() {
		return x
	}
	y := p.New(x, x.Cols)
	p.NormTo(y, x, n)
	return y
}

// Normalize replaces x by its norm, if there is one.
func (p *Pass) Normalize(x compute.Tensor, n Norm) {
	if n.Bound() {
		p.NormTo(x, x, n)
	}
}

// NormTo makes y the norm of x.
func (p *Pass) NormTo(y, x compute.Tensor, n Norm) {
	switch {
	case x.Rows == 0:
	case n.Centered:
		p.verbs.LayerNorm(y, x, n.Weight, n.Bias, n.Epsilon)
	default:
		p.verbs.RMSNorm(y, x, n.Weight, n.Epsilon)
		if n.Bias != nil {
			p.verbs.Shift(y, n.Bias)
		}
	}
}

// HeadNorm is a norm of queries or keys. The zero value is no norm.
type HeadNorm struct {
	Norm
	Wide bool            // over all heads together; else over each
	Ones *compute.Vector // [key] ones, set if each head has its own weights: Norm.Weight is [heads·key] then; or nil
}

// normalizeHeads applies n to heads of head elements each.
func (p *Pass) normalizeHeads(x compute.Tensor, head int, n *HeadNorm) {
	if !n.Bound() {
		return
	}
	heads := x
	if !n.Wide {
		heads = x.Split(head)
	}
	if n.Ones == nil {
		p.Normalize(heads, n.Norm)
		return
	}
	each := n.Norm
	each.Weight, each.Bias = n.Ones, nil
	p.Normalize(heads, each)
	p.Multiply(x, n.Weight)
}
