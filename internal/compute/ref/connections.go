package ref

import (
	"math"

	"github.com/powerinfer-go/powerinfer/internal/compute"
)

// ConnectionWeights makes weights of products.
func (d *Device) ConnectionWeights(o *compute.ConnectionWeights) {
	if !o.Fits() {
		panic("ref: ConnectionWeights of shapes that do not fit")
	}
	c, scale, base := o.How.Streams, elements(o.Scale), elements(o.Base)
	eps := float64(o.How.Eps)
	for t := range o.W.Rows {
		w := row(o.W, t)
		affine := func(i, part int) float64 { return float64(w[i])*float64(scale[part]) + float64(base[i]) }
		sigmoid := func(x float64) float64 { return 1 / (1 + math.Exp(-x)) }
		mix := make([]float64, 0, c*c)
		for i := 2 * c; i < len(w); i++ {
			mix = append(mix, affine(i, 2))
		}
		for i := range c {
			w[i] = float32(sigmoid(affine(i, 0)) + eps)
			if len(w) > c {
				w[c+i] = float32(float64(o.How.Written)*sigmoid(affine(c+i, 1)) + float64(o.How.Floor))
			}
		}
		if len(mix) > 0 {
			balance(mix, c, o.How.Rounds, eps)
		}
		for i, v := range mix {
			w[2*c+i] = float32(v)
		}
	}
}

// balance makes each row of mix [c, c] its softmax plus eps, and then brings the sums of columns and rows near 1.
func balance(mix []float64, c, rounds int, eps float64) {
	for from := range c {
		of := mix[from*c:][:c]
		top, sum := math.Inf(-1), 0.0
		for _, v := range of {
			top = max(top, v)
		}
		for i, v := range of {
			of[i] = math.Exp(v - top)
			sum += of[i]
		}
		for i := range of {
			of[i] = of[i]/sum + eps
		}
	}
	divide := func(step, next int) { // c lists, with elements step apart and first elements next apart
		for i := range c {
			sum := eps
			for j := range c {
				sum += mix[i*next+j*step]
			}
			for j := range c {
				mix[i*next+j*step] /= sum
			}
		}
	}
	for round := range rounds {
		if round > 0 {
			divide(1, c)
		}
		divide(c, 1)
	}
}

// ReadStreams sums the streams.
func (d *Device) ReadStreams(o *compute.ReadStreams) {
	if !o.Fits() {
		panic("ref: ReadStreams of shapes that do not fit")
	}
	for t := range o.Out.Rows {
		x, w := row(o.X, t), row(o.W, t)
		for i := range row(o.Out, t) {
			sum := 0.0
			for c := range o.Streams {
				sum += float64(w[c]) * float64(x[c*o.Out.Cols+i])
			}
			row(o.Out, t)[i] = float32(sum)
		}
	}
}

// WriteStreams adds y to the streams, which it mixes.
func (d *Device) WriteStreams(o *compute.WriteStreams) {
	if !o.Fits() {
		panic("ref: WriteStreams of shapes that do not fit")
	}
	n := o.Streams
	old := make([]float64, n)
	for t := range o.Y.Rows {
		x, w := row(o.X, t), row(o.W, t)
		for i, y := range row(o.Y, t) {
			for c := range n {
				old[c] = float64(x[c*o.Y.Cols+i])
			}
			for c := range n {
				sum := old[c]
				if o.Mixes() {
					sum = 0
					for s, v := range old {
						sum += float64(w[2*n+n*s+c]) * v
					}
				}
				x[c*o.Y.Cols+i] = float32(sum + float64(w[o.First()+c])*float64(y))
			}
		}
	}
}

// ReadGated sums the gated streams.
func (d *Device) ReadGated(o *compute.ReadGated) {
	if !o.Fits() {
		panic("ref: ReadGated of shapes that do not fit")
	}
	n := o.Streams()
	for t := range o.Out.Rows {
		x, gate, out := row(o.X, t), row(o.Gate, t), row(o.Out, t)
		for i := range out {
			sum := 0.0
			for c := range n {
				at := c*len(out) + i
				sum += float64(x[at]) / (1 + math.Exp(-float64(gate[at])))
			}
			out[i] = float32(sum / float64(n))
		}
	}
}
