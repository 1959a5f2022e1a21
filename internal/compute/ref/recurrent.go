package ref

import (
	"math"
	"slices"

	"github.com/powerinfer-go/powerinfer/internal/compute"
)

// state returns a slot's numbers in a layer.
func state(c *compute.Cache, layer int, slot int32) []float32 {
	n := c.Layers[layer].State
	return c.Mem.(*cache).states[layer][int(slot)*n:][:n]
}

// eachRun calls f for the step's runs with their states in a layer, which are zeros where a sequence begins.
func (d *Device) eachRun(c *compute.Cache, layer int, f func(r compute.Run, state []float32)) {
	for _, r := range d.p.AppendRuns(nil) {
		f(r, state(c, layer, r.Slot))
	}
}

// Convolve computes a Convolve.
func (d *Device) Convolve(o *compute.Convolve) {
	channels, width := o.Out.Cols, o.Width()
	w, bias := elements(o.W), elements(o.Bias)
	d.eachRun(o.Cache, o.Layer, func(r compute.Run, state []float32) {
		past := state[o.At:][:(width-1)*channels]
		if o.Peek {
			past = slices.Clone(past)
		}
		if r.Fresh {
			clear(past)
		}
		for t := r.From; t < r.To; t++ {
			x := row(o.X, t)
			window := append(append([]float32(nil), past...), x[len(x)-channels:]...)
			for c := range channels {
				if o.Gated {
					window[(width-1)*channels+c] *= x[c]
				}
				sum := 0.0
				if bias != nil {
					sum = float64(bias[c])
				}
				for k := range width {
					sum += float64(w[k*channels+c]) * float64(window[k*channels+c])
				}
				switch {
				case o.Gated:
					sum *= float64(x[channels+c])
				case !o.Plain:
					sum /= 1 + math.Exp(-sum)
				}
				row(o.Out, t)[c] = float32(sum)
			}
			copy(past, window[channels:])
		}
	})
}

// Scan computes a Scan. The state is rounded to float32 after each position.
func (d *Device) Scan(o *compute.Scan) {
	s := o.Shape
	d.eachRun(o.Cache, o.Layer, func(r compute.Run, state []float32) {
		all := state[o.At:][:s.Size()]
		if r.Fresh {
			clear(all)
		}
		for t := r.From; t < r.To; t++ {
			for h := range s.Heads {
				d.scanHead(o, t, h, all[h*s.Dim*s.State:][:s.Dim*s.State])
			}
		}
	})
}

// scanHead computes head h of token t. state [dim, state]
func (d *Device) scanHead(o *compute.Scan, t, h int, state []float32) {
	s, x := o.Shape, row(o.X, t)
	written := x[s.Heads*s.Dim:]
	if o.Apart() {
		written = row(o.BC, t)
	}
	group := h * s.Groups / s.Heads
	b, c := written[group*s.State:][:s.State], written[(s.Groups+group)*s.State:][:s.State]
	for p := range s.Dim {
		at := h
		if o.Fine {
			at = h*s.Dim + p
		}
		x, step, sum := float64(x[h*s.Dim+p]), 1.0, 0.0
		if o.Stepped() {
			step = softplus(float64(row(o.Step, t)[at]) + float64(elements(o.Bias)[at]))
		}
		if o.D != nil {
			sum = float64(elements(o.D)[at]) * x
		}
		for n := range s.State {
			a := elements(o.A)[h]
			if o.Fine {
				a = elements(o.A)[at*s.State+n]
			}
			v := &state[p*s.State+n]
			*v = float32(math.Exp(step*float64(a))*float64(*v) + step*x*float64(b[n]))
			sum += float64(*v) * float64(c[n])
		}
		row(o.Out, t)[h*s.Dim+p] = float32(sum)
	}
}

// softplus returns ln(1+e^x).
func softplus(x float64) float64 {
	if x > 30 { // beyond, it is the identity
		return x
	}
	return math.Log1p(math.Exp(x))
}

// Delta computes a Delta. The state is rounded to float32 after each position.
func (d *Device) Delta(o *compute.Delta) {
	s := o.Shape
	d.eachRun(o.Cache, o.Layer, func(r compute.Run, state []float32) {
		all := state[o.At:][:s.Size()]
		if r.Fresh {
			clear(all)
		}
		for t := r.From; t < r.To; t++ {
			for h := range s.Heads {
				deltaHead(o, t, h, all[h*s.Dim*s.State:][:s.Dim*s.State])
			}
		}
	})
}

// deltaHead computes head h of token t. state [dim, state]
func deltaHead(o *compute.Delta, t, h int, state []float32) {
	s, in, group := o.Shape, row(o.X, t), o.Group(h)
	q := unit(in[group*s.State:][:s.State], o.Epsilon, 1/math.Sqrt(float64(s.State)))
	k := unit(in[(s.Groups+group)*s.State:][:s.State], o.Epsilon, 1)
	v, out := in[2*s.Groups*s.State+h*s.Dim:][:s.Dim], row(o.Out, t)[h*s.Dim:][:s.Dim]
	write, step := o.Columns(h)
	beta := 1 / (1 + math.Exp(-float64(row(o.Write, t)[write])))
	decays := make([]float64, s.State)
	for j := range decays {
		if of := h*s.State + j; o.ByColumn() {
			decays[j] = deltaDecay(o, h, row(o.Step, t)[of], elements(o.Bias)[of])
		} else {
			decays[j] = deltaDecay(o, h, row(o.Step, t)[step], elements(o.Bias)[h])
		}
	}
	for i := range s.Dim {
		own, known, sum := state[i*s.State:][:s.State], 0.0, 0.0
		for j, e := range own {
			known += decays[j] * float64(e) * k[j]
		}
		for j := range own {
			own[j] = float32(decays[j]*float64(own[j]) + beta*(float64(v[i])-known)*k[j])
			sum += float64(own[j]) * q[j]
		}
		out[i] = float32(sum)
	}
}

// deltaDecay returns what a step and its bias leave of head h.
func deltaDecay(o *compute.Delta, h int, step, bias float32) float64 {
	x, a := float64(step)+float64(bias), float64(elements(o.A)[h])
	if o.Bound < 0 {
		return math.Exp(float64(o.Bound) / (1 + math.Exp(-a*x)))
	}
	return math.Exp(softplus(x) * a)
}

// unit returns x of a length of scale.
func unit(x []float32, epsilon float32, scale float64) []float64 {
	square := float64(epsilon)
	for _, e := range x {
		square += float64(e) * float64(e)
	}
	out := make([]float64, len(x))
	for i, e := range x {
		out[i] = scale * float64(e) / math.Sqrt(square)
	}
	return out
}
