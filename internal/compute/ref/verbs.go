package ref

import (
	"math"

	"github.com/powerinfer-go/powerinfer/internal/compute"
)

// Embed looks up each token's row.
func (d *Device) Embed(o *compute.Embed) {
	for t := range o.Dst.Rows {
		copy(row(o.Dst, t), weights(o.Table, int(d.p.Tokens[t])))
	}
}

// AddPosition adds each position's row.
func (d *Device) AddPosition(o *compute.AddPosition) {
	for t := range o.X.Rows {
		w := weights(o.Table, int(d.p.Pos[t])+o.Offset)
		for i := range row(o.X, t) {
			row(o.X, t)[i] += w[i]
		}
	}
}

// AddType adds the row of each token's type.
func (d *Device) AddType(o *compute.AddType) {
	for t := range o.X.Rows {
		w := weights(o.Table, int(d.p.Type(t)))
		for i := range row(o.X, t) {
			row(o.X, t)[i] += w[i]
		}
	}
}

// RMSNorm divides by the root of the mean square.
func (d *Device) RMSNorm(o *compute.RMSNorm) {
	for t := range o.X.Rows {
		in, out := row(o.X, t), row(o.Dst, t)
		sum := 0.0
		for _, v := range in {
			sum += float64(v) * float64(v)
		}
		root := math.Sqrt(sum/float64(o.X.Cols) + float64(o.Eps))
		for i, v := range in {
			out[i] = float32(float64(v) / root * float64(elements(o.W)[i]))
		}
	}
}

// LayerNorm divides by the standard deviation from the mean.
func (d *Device) LayerNorm(o *compute.LayerNorm) {
	for t := range o.X.Rows {
		in, out := row(o.X, t), row(o.Dst, t)
		mean, variance := 0.0, 0.0
		for _, v := range in {
			mean += float64(v) / float64(o.X.Cols)
		}
		for _, v := range in {
			variance += (float64(v) - mean) * (float64(v) - mean) / float64(o.X.Cols)
		}
		root := math.Sqrt(variance + float64(o.Eps))
		for i, v := range in {
			y := (float64(v) - mean) / root * float64(elements(o.W)[i])
			if o.B != nil {
				y += float64(elements(o.B)[i])
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

// MatMul computes every product of x.
func (d *Device) MatMul(o *compute.MatMul) {
	for _, p := range o.Products {
		if p.W == nil {
			break
		}
		if p.W.Cols != o.X.Cols || p.Out.Cols != p.W.Rows || p.Out.Rows != o.X.Rows {
			panic("ref: MatMul of shapes that do not fit: " + p.W.Name)
		}
		for r := range p.W.Rows {
			w := weights(p.W, r)
			for t := range o.X.Rows {
				y := dot(w, row(o.X, t))
				if p.Bias != nil {
					y += float64(elements(p.Bias)[r])
				}
				row(p.Out, t)[r] = float32(y)
			}
		}
	}
}

// MatMulByHead computes the product of every head.
func (d *Device) MatMulByHead(o *compute.MatMulByHead) {
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

// RoPE turns the i-th pair of every head by the angle of Params.Angles.
func (d *Device) RoPE(o *compute.RoPE) {
	for t := range o.X.Rows {
		angles := make([]float64, len(o.Rope.Freqs))
		d.p.Angles(angles, o.Rope, t)
		for head := row(o.X, t); len(head) > 0; head = head[o.HeadDim:] {
			for i, angle := range angles {
				a, b := 2*i, 2*i+1
				if o.Rope.Style == compute.Halves {
					a, b = i, i+o.Rope.Dims/2
				}
				sin, cos := math.Sincos(angle)
				a, b = a+o.Rope.First, b+o.Rope.First
				xa, xb := float64(head[a]), float64(head[b])
				head[a] = float32(o.Rope.Scale * (xa*cos - xb*sin))
				head[b] = float32(o.Rope.Scale * (xa*sin + xb*cos))
			}
		}
	}
}

// Add adds x to dst.
func (d *Device) Add(o *compute.Add) {
	for t := range o.X.Rows {
		for i, v := range row(o.X, t) {
			row(o.Dst, t)[i] += v
		}
	}
}

// Scale multiplies every element of x by factor.
func (d *Device) Scale(o *compute.Scale) {
	for t := range o.X.Rows {
		for i := range row(o.X, t) {
			row(o.X, t)[i] *= o.Factor
		}
	}
}

// SoftCap brings every element of x smoothly into (-limit, limit).
func (d *Device) SoftCap(o *compute.SoftCap) {
	for t := range o.X.Rows {
		for i, v := range row(o.X, t) {
			row(o.X, t)[i] = float32(float64(o.Limit) * math.Tanh(float64(v)/float64(o.Limit)))
		}
	}
}

// Clamp brings every element of x into [low, high].
func (d *Device) Clamp(o *compute.Clamp) {
	for t := range o.X.Rows {
		for i, v := range row(o.X, t) {
			row(o.X, t)[i] = min(max(v, o.Low), o.High)
		}
	}
}

// CopyColumns copies ranges of columns.
func (d *Device) CopyColumns(o *compute.CopyColumns) {
	for t := range o.Dst.Rows {
		for i := range o.Count {
			copy(row(o.Dst, t)[o.To.First+i*o.To.Step:][:o.Width], row(o.Src, t)[o.From.First+i*o.From.Step:])
		}
	}
}

// Activate computes act(gate)·up.
func (d *Device) Activate(o *compute.Activate) {
	for t := range o.Gate.Rows {
		for i, g := range row(o.Gate, t) {
			y := Activation(o.Act, float64(g))
			if o.Up.Mem != nil {
				y *= Factor(o.Act, float64(row(o.Up, t)[i]))
			}
			row(o.Dst, t)[i] = float32(y)
		}
	}
}

// Gather copies the rows of Params.Out.
func (d *Device) Gather(o *compute.Gather) {
	for i, r := range d.p.Out {
		copy(row(o.Dst, i), row(o.X, int(r)))
	}
}

// Insert replaces rows of prompts, or adds to them.
func (d *Device) Insert(o *compute.Insert) {
	d.p.Insert(func(i int) []float32 { return row(o.X, i) }, o.First, o.Add)
}

// Precede copies the row before each, or what was before.
func (d *Device) Precede(o *compute.Precede) {
	for i := range o.Dst.Rows {
		to, seq := row(o.Dst, i), int(d.p.Seq[i])
		clear(to)
		switch {
		case i > 0 && int(d.p.Seq[i-1]) == seq && d.p.Pos[i-1]+1 == d.p.Pos[i]:
			copy(to, row(o.X, i-1))
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
