package cpu

import "github.com/powerinfer-go/powerinfer/internal/compute"

// foresight is the state of a guess at the next layer's experts.
type foresight struct {
	g      compute.ExpertGuess // Router is nil: there is no guess
	units  []int32
	of     *bundle // the units' bundle, if another device guessed them; else nil
	normed buffer
	logits buffer
	choice choice
	leaves []bool
}

// ForeseeExperts implements compute.Foreseer.
func (d *Device) ForeseeExperts(g compute.ExpertGuess) {
	if d.foresight.g = g; g.Due {
		d.guessExperts()
	}
}

// GuessUnits implements hybrid.Host.
func (d *Device) GuessUnits(m *compute.Matrix, units []int32) {
	d.foresight.of, d.foresight.units = mem(m).disk.bundle, append(d.foresight.units[:0], units...)
}

// guessExperts begins to read experts that the next layer will probably need, if there is a guess.
func (d *Device) guessExperts() {
	y := &d.foresight
	g := &y.g
	if y.of != nil {
		d.units.guess(y.of, y.units)
		y.of = nil
	}
	if g.Router == nil {
		return
	}
	if p := mem(g.Weights.Up).disk; p != nil && p.bundle.class.cache.Guesses() > 0 {
		y.compute(d)
		d.units.guess(p.bundle, y.units)
	}
	*g = compute.ExpertGuess{}
}

// compute lists the units of the guessed experts, the first choices of all tokens first.
func (y *foresight) compute(d *Device) {
	g := &y.g
	tensor := func(b *buffer, cols int) compute.Tensor {
		grown(&b.data, g.X.Rows*cols)
		return compute.Tensor{Rows: g.X.Rows, Cols: cols, Outputs: g.X.Outputs, Mem: b}
	}
	x, logits := tensor(&y.normed, g.X.Cols), tensor(&y.logits, g.Count)
	switch {
	case g.Norm == nil:
		x = g.X
	case g.Centered:
		d.parts.LayerNorm(x, g.X, g.Norm, g.Shift, g.Eps)
	default:
		d.parts.RMSNorm(x, g.X, g.Norm, g.Eps)
		if g.Shift != nil {
			d.parts.Shift(x, g.Shift)
		}
	}
	d.parts.MatMul(x, compute.Products{{Out: logits, W: g.Router, Bias: g.RouterBias}})
	grown(&y.choice.experts, g.X.Rows*g.Used)
	grown(&y.choice.weights, g.X.Rows*g.Used)
	d.parts.Route(compute.Choice{Rows: g.X.Rows, Used: g.Used, N: g.Count, Outputs: g.X.Outputs, Mem: &y.choice}, logits, g.Bias, nil, g.How)
	leaves := grown(&y.leaves, g.X.Rows*g.Used)
	for t := range g.X.Rows {
		g.Weights.Skip.Leaves(y.choice.weights[t*g.Used:][:g.Used], leaves[t*g.Used:][:g.Used])
	}
	y.units = y.units[:0]
	for k := range g.Used {
		for t := range g.X.Rows {
			if at := g.Weights.At(int(y.choice.experts[t*g.Used+k])); at != compute.Absent && !leaves[t*g.Used+k] {
				y.units = append(y.units, int32(at))
			}
		}
	}
}
