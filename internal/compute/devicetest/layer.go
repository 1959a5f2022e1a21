package devicetest

import (
	"math"

	"github.com/powerinfer-go/powerinfer/internal/compute/ref"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// layer is a feed-forward layer by neuron in plain numbers, and by how much a device may miss its outputs. Weights are
// in the source's order.
type layer struct {
	sparseCase
	gateW, upW, downW weight
	upBias, downBias  []float32           // [ff], [embd], or nil
	gateBias          []float32           // [ff] or nil
	scaled            func(t int) float64 // what multiplies the products of gate and up; nil: nothing does
	order             []int32             // [ff] or nil
	x                 []float32           // [n, embd]
	downs             *downs
	long              bool // the script's steps may be matrix products, of the down projection rounded once more
}

// downs holds the part of all tokens' bounds that follows from the down projection's weights.
type downs struct {
	largest        []float64 // |down| of every output [embd]
	bfloat, halves []float64 // rounding steps of the weights, or nil if they are not rounded [as the weights]
}

// distances between the numbers that weights are rounded to, or nil if they are not rounded [as the weights]
type coefficient struct {
	row            int // of the weights
	a              float64
	variance       float64 // of a, from the rounding of its operands
	top            float64 // the largest |down| of its row in the current block of outputs
	bfloat, halves float64 // rounding steps of a, if it is rounded
}

// bound adds up, for each output of token t, the variances that rounding gives its terms a_i·d_i.
func (l *layer) bound(bounds []float64, _ []float32, t int) { l.boundOf(bounds, nil, t) }

// boundOf is bound. masses, unless nil, are made what the terms' magnitudes add up to. [embd]
func (l *layer) boundOf(bounds, masses []float64, t int) {
	of := l.coefficients(t)
	mostA := 0.0
	for _, c := range of {
		mostA = max(mostA, math.Abs(c.a))
	}
	down := l.projection()
	for i := range of {
		of[i].steps(mostA)
	}
	for from := 0; from < l.embd; from += quant.QK {
		to := min(l.embd, from+quant.QK)
		most := 0.0 // the largest |a_i·d_i| of the block
		for i := range of {
			of[i].top = 0
			for j := from; j < to; j++ {
				of[i].top = max(of[i].top, math.Abs(float64(l.downW.values[l.at(of[i].row, j)])))
			}
			most = max(most, math.Abs(of[i].a)*of[i].top)
		}
		for j := from; j < to; j++ {
			mass, variance := tiny, 0.0
			if l.downBias != nil {
				mass += math.Abs(float64(l.downBias[j]))
			}
			for _, c := range of {
				at := l.at(c.row, j)
				d := float64(l.downW.values[at])
				mass += math.Abs(c.a * d)
				variance += c.variance*d*d + l.rounding(c, d, down, at, mostA, down.largest[j], most)
			}
			bounds[j] = sumTolerance*mass + roundingSigmas*math.Sqrt(variance)
			if masses != nil {
				masses[j] = mass
			}
		}
	}
}

// projection returns the values that all tokens share.
func (l *layer) projection() *downs {
	if l.downs != nil {
		return l.downs
	}
	w := l.downW
	l.downs = &downs{largest: make([]float64, l.embd)}
	for i := range l.ff {
		for j := range l.embd {
			l.downs.largest[j] = max(l.downs.largest[j], math.Abs(float64(w.values[l.at(i, j)])))
		}
	}
	if half(w.Type) && (l.long || l.columns) || w.bfloats { // a matrix product in bfloat16
		l.downs.bfloat = make([]float64, len(w.values))
		bfloatSteps(l.downs.bfloat, w.values)
	}
	if w.halves && w.Type != quant.F32 {
		l.downs.halves = make([]float64, len(w.values))
		halfSteps(l.downs.halves, w.values, largestHalf)
	}
	return l.downs
}

// steps computes the distances between the numbers that c.a may be rounded to, among coefficients with the largest
// magnitude mostA.
func (c *coefficient) steps(mostA float64) {
	var steps [2]float64
	a := []float32{float32(c.a)}
	bfloatSteps(steps[:1], a)
	halfSteps(steps[1:], a, mostA)
	c.bfloat, c.halves = steps[0], steps[1]
}

// at returns where the down projection's weight of a row and an output is.
func (l *layer) at(row, j int) int {
	if l.columns {
		return j*l.ff + row
	}
	return row*l.embd + j
}

// rounding returns the variance of a_i·d where the down projection rounds a_i, or d, which is at that place. mostA is
// the largest coefficient, mostD the largest weight of the output, most the largest product in its block of outputs.
func (l *layer) rounding(c coefficient, d float64, by *downs, at int, mostA, mostD, most float64) float64 {
	squares := 0.0
	if by.bfloat != nil {
		squares += square(c.bfloat*d) + square(by.bfloat[at]*c.a)
	}
	if by.halves != nil {
		squares += square(c.halves*d) + square(by.halves[at]*c.a)
	}
	typ := l.downW.Type
	if typ.Quantised() && (l.long || l.columns) { // or in int8, of the largest coefficient among neurons side by side
		squares += square(mostA / 127 * d)
	}
	if typ.Quantised() && l.long { // for which weights are turned into int8 of the largest of neurons side by side
		squares += square(mostD / 127 * c.a)
	}
	if typ.Traits().Columns && !l.columns && c.top > 0 { // int8 of the largest coefficient times scale among rows added at once
		squares += square(most / c.top / 127 * d)
	}
	return squares / uniform
}

// coefficients returns the neurons of token t's set, except those that are zero for every rounding of operands.
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
		by := 1.0
		if l.scaled != nil {
			by = l.scaled(t)
		}
		u, su := deviation(up.row(c.row))
		u, su = by*u, math.Abs(by)*su
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
			g, sg = by*g, math.Abs(by)*sg
			if l.gateBias != nil {
				g += float64(l.gateBias[c.row])
			}
			if act(g) == 0 && act(g+roundingSigmas*sg) == 0 { // whatever u is
				continue
			}
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

// spread returns the standard deviation of f(x): the effect of roundingSigmas deviations s of x, on the worse side,
// plus f's own rounding of a few ulps of x.
func spread(f func(float64) float64, x, s float64) float64 {
	far := roundingSigmas * s
	return max(math.Abs(f(x+far)-f(x)), math.Abs(f(x-far)-f(x)))/roundingSigmas + smoothTolerance*math.Abs(x)
}
