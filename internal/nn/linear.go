package nn

import "github.com/powerinfer-go/powerinfer/internal/compute"

// Linear is a linear layer with its adapters: W·x + B, or a factor times W·x. The zero value is no layer, see Bound.
type Linear struct {
	W *compute.Matrix // [out, in]
	B *compute.Vector // [out] or nil

	factor float32 // factor of W·x, in layers without B; 0: 1
	clip   *clip   // nil: numbers stay

	adapters []lowRank
	neurons  *neuronAdapter // set if the matrix has neurons and adapters change it
}

// Bound reports whether there is a matrix.
func (l *Linear) Bound() bool { return l.W != nil }

// Bytes returns the bytes of reading the matrix; 0 without a matrix.
func (l *Linear) Bytes() int64 { return bytesOf(l.W) }

func bytesOf(w *compute.Matrix) int64 {
	if w == nil {
		return 0
	}
	return int64(w.Rows) * int64(w.Type.RowBytes(w.Cols))
}

// Linear returns W·x + B. [n, out]
func (p *Pass) Linear(x compute.Tensor, l *Linear) compute.Tensor {
	y := p.New(x, l.W.Rows)
	p.LinearTo(y, x, l)
	return y
}

// LinearTo sets y to W·x + B.
func (p *Pass) LinearTo(y, x compute.Tensor, l *Linear) {
	if x.Rows == 0 {
		return
	}
	if l.clip != nil {
		p.clipped(y, x, l)
		return
	}
	p.verbs.MatMul(x, compute.Products{{Out: y, W: l.W, Bias: l.B}})
	p.finish(y, x, l)
}

// clip has the ranges, [low, high], that a layer clamps its input and its output to.
type clip struct{ in, out [2]float32 }

// clipped is LinearTo of a layer with ranges.
func (p *Pass) clipped(y, x compute.Tensor, l *Linear) {
	scope := p.Scope()
	in := p.New(x, x.Cols)
	p.Replace(in, x)
	p.verbs.Clamp(in, l.clip.in[0], l.clip.in[1])
	p.verbs.MatMul(in, compute.Products{{Out: y, W: l.W, Bias: l.B}})
	p.finish(y, in, l)
	p.verbs.Clamp(y, l.clip.out[0], l.clip.out[1])
	p.Leave(scope)
}

// Linear2 returns two products of x. The device prepares x for products once.
func (p *Pass) Linear2(x compute.Tensor, a, b *Linear) (compute.Tensor, compute.Tensor) {
	y, z := p.New(x, a.W.Rows), p.New(x, b.W.Rows)
	switch {
	case x.Rows == 0:
	case a.clip != nil || b.clip != nil:
		p.LinearTo(y, x, a)
		p.LinearTo(z, x, b)
	default:
		p.verbs.MatMul(x, compute.Products{{Out: y, W: a.W, Bias: a.B}, {Out: z, W: b.W, Bias: b.B}})
		p.finish(y, x, a)
		p.finish(z, x, b)
	}
	return y, z
}

// Linear3 returns three products of x. The device prepares x for products once.
func (p *Pass) Linear3(x compute.Tensor, a, b, c *Linear) (_, _, _ compute.Tensor) {
	u, v, w := p.New(x, a.W.Rows), p.New(x, b.W.Rows), p.New(x, c.W.Rows)
	switch {
	case x.Rows == 0:
	case a.clip != nil || b.clip != nil || c.clip != nil:
		p.LinearTo(u, x, a)
		p.LinearTo(v, x, b)
		p.LinearTo(w, x, c)
	default:
		p.verbs.MatMul(x, compute.Products{{Out: u, W: a.W, Bias: a.B}, {Out: v, W: b.W, Bias: b.B}, {Out: w, W: c.W, Bias: c.B}})
		p.finish(u, x, a)
		p.finish(v, x, b)
		p.finish(w, x, c)
	}
	return u, v, w
}

// finish multiplies y, which is l's product of x, by l's factor, and adds what adapters add.
func (p *Pass) finish(y, x compute.Tensor, l *Linear) {
	if l.factor != 0 {
		p.Scale(y, l.factor)
	}
	p.adapt(y, x, l)
}

// adapt adds to y, which is l's product of x, what adapters add.
func (p *Pass) adapt(y, x compute.Tensor, l *Linear) {
	scope := p.Scope()
	for _, a := range l.adapters {
		s := a.scale * p.Scales[a.adapter]
		if s == 0 {
			continue
		}
		low := p.New(x, a.a.Rows)
		p.verbs.MatMul(x, compute.Products{{Out: low, W: a.a}})
		p.verbs.Scale(low, s)
		wide := p.New(x, a.b.Rows)
		p.verbs.MatMul(low, compute.Products{{Out: wide, W: a.b}})
		p.verbs.Add(y, wide)
	}
	p.Leave(scope)
}
