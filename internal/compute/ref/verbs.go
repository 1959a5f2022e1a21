package ref

import (
	"math"

	"github.com/powerinfer-go/powerinfer/internal/compute"
)

// embed looks up each token's row.
func (d *Device) embed(dst compute.Tensor, table *compute.Matrix) {
	for t := range dst.Rows {
		copy(row(dst, t), weights(table, int(d.p.Tokens[t])))
	}
}

// addPosition adds each position's row.
func (d *Device) addPosition(x compute.Tensor, table *compute.Matrix, offset int) {
	for t := range x.Rows {
		w := weights(table, int(d.p.Pos[t])+offset)
		for i := range row(x, t) {
			row(x, t)[i] += w[i]
		}
	}
}

// addType adds the row of each token's type.
func (d *Device) addType(x compute.Tensor, table *compute.Matrix) {
	for t := range x.Rows {
		w := weights(table, int(d.p.Type(t)))
		for i := range row(x, t) {
			row(x, t)[i] += w[i]
		}
	}
}

// rmsNorm divides by the root of the mean square.
func (d *Device) rmsNorm(dst, x compute.Tensor, w *compute.Vector, eps float32) {
	for t := range x.Rows {
		in, out := row(x, t), row(dst, t)
		sum := 0.0
		for _, v := range in {
			sum += float64(v) * float64(v)
		}
		root := math.Sqrt(sum/float64(x.Cols) + float64(eps))
		for i, v := range in {
			out[i] = float32(float64(v) / root * float64(elements(w)[i]))
		}
	}
}

// layerNorm divides by the standard deviation from the mean.
func (d *Device) layerNorm(dst, x compute.Tensor, w, b *compute.Vector, eps float32) {
	for t := range x.Rows {
		in, out := row(x, t), row(dst, t)
		mean, variance := 0.0, 0.0
		for _, v := range in {
			mean += float64(v) / float64(x.Cols)
		}
		for _, v := range in {
			variance += (float64(v) - mean) * (float64(v) - mean) / float64(x.Cols)
		}
		root := math.Sqrt(variance + float64(eps))
		for i, v := range in {
			y := (float64(v) - mean) / root * float64(elements(w)[i])
			if b != nil {
				y += float64(elements(b)[i])
			}
			out[i] = float32(y)
		}
	}
}

func dot(w, x []float32) float64 {
	sum := 0.0
	for i := range w {
		sum += float64(w[i]) * float64(x[i])
	}
	return sum
}

// matMul computes every product of x.
func (d *Device) matMul(x compute.Tensor, products compute.Products) {
	for _, p := range products {
		if p.W == nil {
			break
		}
		if p.W.Cols != x.Cols || p.Out.Cols != p.W.Rows || p.Out.Rows != x.Rows {
			panic("ref: MatMul of shapes that do not fit: " + p.W.Name)
		}
		for r := range p.W.Rows {
			w := weights(p.W, r)
			for t := range x.Rows {
				y := dot(w, row(x, t))
				if p.Bias != nil {
					y += float64(elements(p.Bias)[r])
				}
				row(p.Out, t)[r] = float32(y)
			}
		}
	}
}

// matMulByHead computes the product of every head.
func (d *Device) matMulByHead(o *compute.MatMulByHead) {
	if !o.Fits() {
		panic("ref: MatMulByHead of shapes that do not fit: " + o.W.Name)
	}
	_, rows := o.Heads()
	for i := range o.W.Rows {
		w, head := weights(o.W, i), i/rows
		for t := range o.X.Rows {
			row(o.Out, t)[o.To.First+head*o.To.Step+i%rows] = float32(dot(w, row(o.X, t)[head*o.W.Cols:][:o.W.Cols]))
		}
	}
}

// rope turns the i-th pair of every head by the angle of Params.Angles.
func (d *Device) rope(x compute.Tensor, headDim int, r *compute.Rope) {
	for t := range x.Rows {
		angles := make([]float64, len(r.Freqs))
		d.p.Angles(angles, r, t)
		for head := row(x, t); len(head) > 0; head = head[headDim:] {
			for i, angle := range angles {
				a, b := 2*i, 2*i+1
				if r.Style == compute.Halves {
					a, b = i, i+r.Dims/2
				}
				sin, cos := math.Sincos(angle)
				a, b = a+r.First, b+r.First
				xa, xb := float64(head[a]), float64(head[b])
				head[a] = float32(r.Scale * (xa*cos - xb*sin))
				head[b] = float32(r.Scale * (xa*sin + xb*cos))
			}
		}
	}
}

// add adds x to dst.
func (d *Device) add(dst, x compute.Tensor) {
	for t := range x.Rows {
		for i, v := range row(x, t) {
			row(dst, t)[i] += v
		}
	}
}

// scale multiplies every element of x by factor.
func (d *Device) scale(x compute.Tensor, factor float32) {
	for t := range x.Rows {
		for i := range row(x, t) {
			row(x, t)[i] *= factor
		}
	}
}

// softCap brings every element of x smoothly into (-limit, limit).
func (d *Device) softCap(x compute.Tensor, limit float32) {
	for t := range x.Rows {
		for i, v := range row(x, t) {
			row(x, t)[i] = float32(float64(limit) * math.Tanh(float64(v)/float64(limit)))
		}
	}
}

// clamp brings every element of x into [low, high].
func (d *Device) clamp(x compute.Tensor, low, high float32) {
	for t := range x.Rows {
		for i, v := range row(x, t) {
			row(x, t)[i] = min(max(v, low), high)
		}
	}
}

// copyColumns copies ranges of columns.
func (d *Device) copyColumns(o *compute.CopyColumns) {
	for t := range o.Dst.Rows {
		for i := range o.Count {
			copy(row(o.Dst, t)[o.To.First+i*o.To.Step:][:o.Width], row(o.Src, t)[o.From.First+i*o.From.Step:])
		}
	}
}

// activate computes act(gate)·up.
func (d *Device) activate(dst, gate, up compute.Tensor, act compute.Activation) {
	for t := range gate.Rows {
		for i, g := range row(gate, t) {
			y := Activation(act, float64(g))
			if up.Mem != nil {
				y *= Factor(act, float64(row(up, t)[i]))
			}
			row(dst, t)[i] = float32(y)
		}
	}
}

// gather copies the rows of Params.Out.
func (d *Device) gather(dst, x compute.Tensor) {
	for i, r := range d.p.Out {
		copy(row(dst, i), row(x, int(r)))
	}
}

// precede copies the row before each, or what was before.
func (d *Device) precede(dst, x compute.Tensor) {
	for i := range dst.Rows {
		to, seq := row(dst, i), int(d.p.Seq[i])
		clear(to)
		switch {
		case i > 0 && int(d.p.Seq[i-1]) == seq && d.p.Pos[i-1]+1 == d.p.Pos[i]:
			copy(to, row(x, i-1))
		case seq < len(d.p.Before):
			copy(to, d.p.Before[seq])
		}
	}
}

// Activation is act(g), before it is multiplied by Factor(u).
func Activation(act compute.Activation, g float64) float64 {
	switch act.Kind {
	case compute.SiLU:
		return large(g/(1+math.Exp(-g)), float64(act.Threshold))
	case compute.GELU:
		return large(0.5*g*(1+math.Tanh(math.Sqrt(2/math.Pi)*(g+0.044715*g*g*g))), float64(act.Threshold))
	case compute.GELUErf:
		return 0.5 * g * (1 + math.Erf(g/math.Sqrt2))
	case compute.GELUQuick:
		return g / (1 + math.Exp(-1.702*g))
	case compute.ReLU, compute.DReLU:
		return max(g, 0)
	case compute.FATReLU:
		if g <= float64(act.Threshold) {
			return 0
		}
		return g
	case compute.ReLU2:
		return max(g, 0) * max(g, 0)
	case compute.ClampedSwiGLU:
		g = min(g, float64(act.Limit))
		return g / (1 + math.Exp(-float64(act.Slope)*g))
	case compute.Logistic:
		return 1 / (1 + math.Exp(-g))
	case compute.LimitedSwiGLU:
		g = min(g, float64(act.Limit))
		return g / (1 + math.Exp(-g))
	case compute.CappedSwiGLU:
		return min(g/(1+math.Exp(-g)), float64(act.Limit))
	case compute.SiTU:
		return soft(g, float64(act.Slope)) / (1 + math.Exp(-g))
	case compute.Softplus:
		return max(g, 0) + math.Log1p(math.Exp(-math.Abs(g)))
	case compute.Identity:
		return g
	case compute.XIELU:
		if g > 0 {
			return float64(act.Above)*g*g + float64(act.Slope)*g
		}
		return (math.Expm1(min(g, float64(act.Limit)))-g)*float64(act.Below) + float64(act.Slope)*g
	}
	panic("ref: unknown activation")
}

// large is x unless its magnitude is below s.
func large(x, s float64) float64 {
	if math.Abs(x) < s {
		return 0
	}
	return x
}

// soft brings x smoothly within a limit.
func soft(x, limit float64) float64 { return limit * math.Tanh(x/limit) }

// Factor returns the factor in a gated layer: u, its positive part in dReLU, u within the limit if there is one, or in
// a clamped SwiGLU 1 more.
func Factor(act compute.Activation, u float64) float64 {
	switch act.Kind {
	case compute.DReLU:
		return max(u, 0)
	case compute.ClampedSwiGLU:
		l := float64(act.Limit)
		return 1 + min(max(u, -l), l)
	case compute.LimitedSwiGLU, compute.CappedSwiGLU:
		l := float64(act.Limit)
		return min(max(u, -l), l)
	case compute.SiTU:
		if act.Limit > 0 {
			return soft(u, float64(act.Limit))
		}
	}
	return u
}
