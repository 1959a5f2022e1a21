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

// Predict chooses the neurons that are always on, and those with a logit of at least the threshold.
func (d *Device) Predict(o *compute.Predict) {
	d.MatMul(&compute.MatMul{X: o.X, Products: compute.Products{{Out: o.Hidden, W: o.FC1}}})
	d.Activate(&compute.Activate{Dst: o.Hidden, Gate: o.Hidden, Act: compute.Activation{Kind: compute.ReLU}})
	d.MatMul(&compute.MatMul{X: o.Hidden, Products: compute.Products{{Out: o.Logits, W: o.FC2}}})
	always := o.Set.N - o.FC2.Rows
	for t := range o.Set.Rows {
		in := o.Set.Mem.(*set).in[t]
		for i := range always {
			in[i] = true
		}
		for i, logit := range row(o.Logits, t) {
			in[always+i] = logit >= d.p.Threshold
		}
	}
}

// SparseFFN adds up the neurons of each token's set.
func (d *Device) SparseFFN(o *compute.SparseFFN) {
	x, f := o.X, o.Weights
	if f.Count != nil {
		f.Count.Steps++
		f.Count.Tokens += int64(x.Rows)
	}
	sums := make([][]float64, x.Rows)
	for t := range sums {
		sums[t] = make([]float64, o.Out.Cols)
	}
	beside := f.Adapter
	low := make([][]float64, x.Rows)
	for t := range low {
		low[t] = make([]float64, beside.DownLow.Cols)
	}
	narrow := make([][]float32, f.Up.Rows) // columns of DownA
	if beside.DownA != nil {
		narrow = neurons(beside.DownA)
	}
	cut := d.cutGates(x, f)
	for i, down := range neurons(f.Down) {
		up, gate := weights(f.Up, i), []float32(nil)
		if f.Gate != nil {
			gate = weights(f.Gate, i)
		}
		for t := range x.Rows {
			if o.Set.Mem != nil && !o.Set.Mem.(*set).in[t][i] {
				continue
			}
			moreGate, moreUp := adapted(beside.GateB, i, beside.GateLow, t), adapted(beside.UpB, i, beside.UpLow, t)
			g, a := neuron(f, i, gate, up, row(x, t), moreGate, moreUp)
			if cut != nil {
				g = Activation(f.Act, float64(cut[t][i]))
				a = g * Factor(f.Act, dot(up, row(x, t))+moreUp)
			}
			count(f, g, a)
			for j, w := range down {
				sums[t][j] += a * float64(w)
			}
			for j, w := range narrow[i] {
				low[t][j] += a * float64(w)
			}
		}
	}
	for t := range sums {
		for j, y := range sums[t] {
			if f.DownBias != nil {
				y += float64(elements(f.DownBias)[j])
			}
			row(o.Out, t)[j] = float32(y)
		}
		for j, y := range low[t] {
			row(beside.DownLow, t)[j] = float32(y)
		}
	}
}

// adapted is what an adapter adds to neuron i's product for token t. b may be nil.
func adapted(b *compute.Matrix, i int, low compute.Tensor, t int) float64 {
	if b == nil {
		return 0
	}
	return dot(weights(b, i), row(low, t))
}

// cutGates returns every token's gates after Cut, or nil if they are not cut. [tokens][n_ff]
func (d *Device) cutGates(x compute.Tensor, f compute.SparseWeights) (cut [][]float32) {
	if f.Cut == nil {
		return nil
	}
	gates, err := d.Tensor(x.Rows, f.Gate.Rows)
	if err != nil {
		panic(err) // it only allocates
	}
	d.MatMul(&compute.MatMul{X: x, Products: compute.Products{{Out: gates, W: f.Gate}}})
	for t := range x.Rows {
		for i := range row(gates, t) {
			row(gates, t)[i] += float32(adapted(f.Adapter.GateB, i, f.Adapter.GateLow, t))
		}
	}
	d.GaussianTopK(&compute.GaussianTopK{X: gates, Deviations: *f.Cut})
	for t := range x.Rows {
		cut = append(cut, row(gates, t))
	}
	return cut
}

// neuron is neuron i's act(gate) and its a_i, for its weights, input x and what adapters add. gate is nil in ungated
// layers.
func neuron(f compute.SparseWeights, i int, gate, up, x []float32, moreGate, moreUp float64) (g, a float64) {
	u := dot(up, x) + moreUp
	if f.UpBias != nil {
		u += float64(elements(f.UpBias)[i])
	}
	if gate == nil {
		a = Activation(f.Act, u)
		return a, a
	}
	g = Activation(f.Act, dot(gate, x)+moreGate)
	return g, g * Factor(f.Act, u)
}

// count adds one neuron of one token: its gate row is read, its up row if act(gate) is not zero, its down row if a_i is
// not.
func count(f compute.SparseWeights, gate, a float64) {
	c := f.Count
	if c == nil {
		return
	}
	row := int64(f.Up.Type.RowBytes(f.Up.Cols))
	c.Predicted++
	if f.Gate != nil {
		c.Bytes += int64(f.Gate.Type.RowBytes(f.Gate.Cols))
	} else {
		c.Bytes += row
	}
	if gate != 0 {
		c.Gated++
		if f.Gate != nil {
			c.Bytes += row
		}
	}
	if a != 0 {
		c.Active++
		c.Bytes += int64(f.Down.Rows) * int64(f.Down.Type.RowBytes(f.Down.Cols)) / int64(f.Up.Rows)
	}
}
