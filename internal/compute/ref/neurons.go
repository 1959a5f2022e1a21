package ref

import "github.com/powerinfer-go/powerinfer/internal/compute"

// set says of every token's neurons which are in. [rows][n]
type set struct{ in [][]bool }

// Set allocates an empty set of n neurons for each of rows tokens.
func (d *Device) Set(rows, n int) (compute.Set, error) {
	s := &set{in: make([][]bool, rows)}
	for t := range s.in {
		s.in[t] = make([]bool, n)
	}
	return compute.Set{Rows: rows, N: n, Mem: s}, nil
}

// Predict chooses the neurons whose logit reaches the threshold.
func (d *Device) Predict(s compute.Set, x, hidden, logits compute.Tensor, fc1, fc2 *compute.Matrix) {
	d.MatMul(x, compute.Products{{Out: hidden, W: fc1}})
	d.Activate(hidden, hidden, compute.Tensor{}, compute.Activation{Kind: compute.ReLU})
	d.MatMul(hidden, compute.Products{{Out: logits, W: fc2}})
	for t := range s.Rows {
		for i, logit := range row(logits, t) {
			s.Mem.(*set).in[t][i] = logit >= d.p.Threshold
		}
	}
}

// SparseFFN adds up the neurons of each token's set.
func (d *Device) SparseFFN(out, x compute.Tensor, s compute.Set, f compute.SparseWeights) {
	sums := make([][]float64, x.Rows)
	for t := range sums {
		sums[t] = make([]float64, out.Cols)
	}
	for i := range f.Up.Rows {
		down := weights(f.Down, i)
		for t := range x.Rows {
			if !s.Mem.(*set).in[t][i] {
				continue
			}
			a := neuron(f, i, row(x, t))
			for j, w := range down {
				sums[t][j] += a * float64(w)
			}
		}
	}
	for t := range sums {
		for j, y := range sums[t] {
			if f.DownBias != nil {
				y += float64(elements(f.DownBias)[j])
			}
			row(out, t)[j] = float32(y)
		}
	}
}

// neuron is a_i of input x.
func neuron(f compute.SparseWeights, i int, x []float32) float64 {
	u := dot(weights(f.Up, i), x)
	if f.UpBias != nil {
		u += float64(elements(f.UpBias)[i])
	}
	if f.Gate == nil {
		return activation(f.Act, u)
	}
	return activation(f.Act, dot(weights(f.Gate, i), x)) * factor(f.Act, u)
}
