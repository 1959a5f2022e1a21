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
	mostD             []float64 // see largest
	long              bool      // the script's steps may be matrix products, of the down projection rounded once more
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
	mostA := 0.0
	for _, c := range of {
		mostA = max(mostA, math.Abs(c.a))
	}
	for from := 0; from < l.embd; from += quant.QK {
		to := min(l.embd, from+quant.QK)
		most := 0.0 // the largest |a_i·d_i| of the block
		for i := range of {
			of[i].top = 0
			for j := from; j < to; j++ {
				of[i].top = max(of[i].top, math.Abs(float64(l.down(of[i].row, j))))
			}
			most = max(most, math.Abs(of[i].a)*of[i].top)
		}
		for j := from; j < to; j++ {
			mass, variance := tiny, 0.0
			mostD := l.largest()[j]
			if l.downBias != nil {
				mass += math.Abs(float64(l.downBias[j]))
			}
			for _, c := range of {
				d := float64(l.down(c.row, j))
				mass += math.Abs(c.a * d)
				variance += c.variance*d*d + l.rounding(c, d, mostA, mostD, most)
			}
			bounds[j] = sumTolerance*mass + roundingSigmas*math.Sqrt(variance)
		}
	}
}

// largest returns the largest |down| of every output. [embd]
func (l *layer) largest() []float64 {
	if l.mostD == nil {
		l.mostD = make([]float64, l.embd)
		for i := range l.ff {
			for j := range l.mostD {
				l.mostD[j] = max(l.mostD[j], math.Abs(float64(l.down(i, j))))
			}
		}
	}
	return l.mostD
}

func (l *layer) down(row, j int) float32 {
	if l.columns {
		return l.downW.values[j*l.ff+row]
	}
	return l.downW.values[row*l.embd+j]
}

// rounding returns the variance of a_i·d where the down projection rounds a_i, or d. mostA is the largest coefficient, mostD the largest
// weight of the output, most the largest product in its block of outputs.
func (l *layer) rounding(c coefficient, d, mostA, mostD, most float64) (variance float64) {
	add := func(step float64) { variance += step * step / uniform }
	typ := l.downW.Type
	if half(typ) && (l.long || l.columns) { // a matrix product in bfloat16
		var steps [2]float64
		bfloatSteps(steps[:], []float32{float32(c.a), float32(d)})
		add(steps[0] * d)
		add(steps[1] * c.a)
	}
	if l.downW.halves && typ != quant.F32 {
		var steps [2]float64
		halfSteps(steps[:1], []float32{float32(c.a)}, mostA)
		halfSteps(steps[1:], []float32{float32(d)}, 1<<(halfRange-24))
		add(steps[0] * d)
		add(steps[1] * c.a)
	}
	if typ.Quantised() && (l.long || l.columns) { // or in int8, of the largest coefficient among neurons side by side
		add(mostA / 127 * d)
	}
	if typ.Quantised() && l.long { // for which weights are turned into int8 of the largest of neurons side by side
		add(mostD / 127 * c.a)
	}
	if typ.Traits().Columns && !l.columns && c.top > 0 { // int8 of the largest coefficient times scale among rows added at once
		add(most / c.top / 127 * d)
	}
	return variance
}

// coefficients returns the neurons of token t's set, but for those that are zero whatever is rounded.
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
		if c.a != 0 || c.variance != 0 {
			of = append(of, c)
		}
	}
	return of
}

func square(x float64) float64 { return x * x }

// deviation is y and its standard deviation: of rounded operands and of float32.
func deviation(y, mass, variance float64) (float64, float64) {
	return y, math.Sqrt(variance + square(sumTolerance*mass))
}

// spread returns the standard deviation of f(x), whose own rounding is a few ulps of x: what roundingSigmas deviations s of x, on the worse
// side, make of f.
func spread(f func(float64) float64, x, s float64) float64 {
	far := roundingSigmas * s
	return max(math.Abs(f(x+far)-f(x)), math.Abs(f(x-far)-f(x)))/roundingSigmas + smoothTolerance*math.Abs(x)
}
