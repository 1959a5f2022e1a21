package devicetest

import (
	"math"

	"github.com/powerinfer-go/powerinfer/internal/compute/ref"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// layer is a feed-forward layer by neuron in plain numbers, and by how much a device may miss its outputs. Weights are in the
// source's order.
type layer struct {
	sparseCase
	gateW, upW, downW weight
	upBias, downBias  []float32 // [ff], [embd], or nil
	order             []int32   // [ff] or nil
	x                 []float32 // [n, embd]
	rounded           bool      // the down projection may be a matrix product of bfloat16, both a_i and d_i rounded to it
}

// coefficient is a neuron of one token's set.
type coefficient struct {
	row      int // of the weights
	a        float64
	variance float64 // of a, from the rounding of what it was computed from
	top      float64 // the largest |down| of its row in the block of outputs at hand
}

// bound adds up, for each output of token t, the variances that rounding gives its terms a_i·d_i.
func (l *layer) bound(bounds []float64, _ []float32, t int) {
	of := l.coefficients(t)
	largest := 0.0
	for _, c := range of {
		largest = max(largest, math.Abs(c.a))
	}
	for from := 0; from < l.embd; from += quant.QK {
		to := min(l.embd, from+quant.QK)
		block := 0.0 // the largest |a_i·d_i| of the block
		for i := range of {
			of[i].top = 0
			for j := from; j < to; j++ {
				of[i].top = max(of[i].top, math.Abs(float64(l.down(of[i].row, j))))
			}
			block = max(block, math.Abs(of[i].a)*of[i].top)
		}
		for j := from; j < to; j++ {
			mass, variance := tiny, 0.0
			if l.downBias != nil {
				mass += math.Abs(float64(l.downBias[j]))
			}
			for _, c := range of {
				d := float64(l.down(c.row, j))
				mass += math.Abs(c.a * d)
				variance += c.variance*d*d + l.rounding(c, d, largest, block)
			}
			bounds[j] = sumTolerance*mass + roundingSigmas*math.Sqrt(variance)
		}
	}
}

func (l *layer) down(row, j int) float32 {
	if l.columns {
		return l.downW.values[j*l.ff+row]
	}
	return l.downW.values[row*l.embd+j]
}

// rounding is the variance of a_i·d where the down projection rounds a_i, or d.
func (l *layer) rounding(c coefficient, d, largest, block float64) (variance float64) {
	add := func(step float64) { variance += step * step / uniform }
	if l.rounded {
		var steps [2]float64
		bfloatSteps(steps[:], []float32{float32(c.a), float32(d)})
		add(steps[0] * d)
		add(steps[1] * c.a)
	}
	switch {
	case !quantised(l.downW.Type) || c.top == 0:
	case l.columns: // int8 of the largest coefficient among neurons that share scales
		add(largest / 127 * d)
	case l.downW.Type.BlockElems() == quant.QK: // int8 of the largest coefficient times scale among rows added at once
		add(block / c.top / 127 * d)
	}
	return variance
}

// coefficients are the neurons of token t's set.
func (l *layer) coefficients(t int) (of []coefficient) {
	x := l.x[t*l.embd:][:l.embd]
	up, gate := newRounding(l.upW), (*rounding)(nil)
	up.token(x)
	if l.gated {
		gate = newRounding(l.gateW)
		gate.token(x)
	}
	for i := range l.ff {
		if l.members != nil && !l.members(t, i) {
			continue
		}
		c := coefficient{row: i}
		if l.order != nil {
			c.row = int(l.order[i])
		}
		u, su := deviation(up.row(c.row))
		if l.upBias != nil {
			u += float64(l.upBias[c.row])
		}
		act := func(v float64) float64 { return ref.Activation(l.act, v) }
		if !l.gated {
			c.a = act(u)
			c.variance = square(spread(act, u, su))
		} else {
			factor := func(v float64) float64 { return ref.Factor(l.act, v) }
			g, sg := deviation(gate.row(c.row))
			byG, byU := spread(act, g, sg), spread(factor, u, su)
			c.a = act(g) * factor(u)
			c.variance = square(byG*factor(u)) + square(act(g)*byU) + square(byG*byU)
		}
		of = append(of, c)
	}
	return of
}

func square(x float64) float64 { return x * x }

// deviation is y and its standard deviation: of rounded operands and of float32.
func deviation(y, mass, variance float64) (float64, float64) {
	return y, math.Sqrt(variance + square(sumTolerance*mass))
}

// spread is the standard deviation of f(x), whose own rounding is a few ulps of x: what roundingSigmas deviations s of x, on the worse
// side, make of f.
func spread(f func(float64) float64, x, s float64) float64 {
	far := roundingSigmas * s
	return max(math.Abs(f(x+far)-f(x)), math.Abs(f(x-far)-f(x)))/roundingSigmas + smoothTolerance*math.Abs(x)
}
