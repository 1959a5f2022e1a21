package cpu

import (
	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/compute/cpu/kernel"
)

// set lists every token's neurons in ascending order.
type set struct {
	active []int32 // [rows, n]
	count  []int   // [rows]
}

func (s *set) token(i, n int) []int32 { return s.active[i*n:][:s.count[i]] }

// Set allocates a set of n neurons for each of rows tokens.
func (d *Device) Set(rows, n int) (compute.Set, error) {
	return compute.Set{Rows: rows, N: n, Mem: &set{active: make([]int32, rows*n), count: make([]int, rows)}}, nil
}

// sparseChunks is into how many chunks a token's set is cut; each sums its neurons alone and chunks are added in
// order, so an output's bytes depend on the set only.
const sparseChunks = 16

// sparseFFN is the state of one Predict or SparseFFN.
type sparseFFN struct {
	d        *Device
	selectFn func(chunk, worker int)
	chunkFn  func(chunk, worker int)
	sumFn    func(chunk, worker int)

	s         *set
	n         int // neurons of a layer
	threshold float32
	logits    compute.Tensor
	w         compute.SparseWeights
	out       compute.Tensor
	x         operand
	dense     bool      // hidden holds act(gate)·up for every neuron of every token
	hidden    []float32 // [tokens, n_ff]
	up        []float32 // [tokens, n_ff]
	sums      []float32 // [tokens, sparseChunks, n_embd]
}

func (f *sparseFFN) init(d *Device) {
	f.d = d
	f.selectFn, f.chunkFn, f.sumFn = f.choose, f.chunk, f.sum
}

// Predict chooses the neurons whose logit reaches the threshold.
func (d *Device) Predict(s compute.Set, x, hidden, logits compute.Tensor, fc1, fc2 *compute.Matrix) {
	d.MatMul(x, compute.Products{{Out: hidden, W: fc1}})
	d.Activate(hidden, hidden, compute.Tensor{}, compute.Activation{Kind: compute.ReLU})
	d.MatMul(hidden, compute.Products{{Out: logits, W: fc2}})
	f := &d.sparse
	f.s, f.n, f.logits, f.threshold = s.Mem.(*set), s.N, logits, d.p.Threshold
	d.pool.Run(s.Rows, f.selectFn)
}

func (f *sparseFFN) choose(token, _ int) {
	active := f.s.active[token*f.n:][:f.n]
	n := 0
	for i, v := range row(f.logits, token) {
		if v >= f.threshold {
			active[n] = int32(i)
			n++
		}
	}
	f.s.count[token] = n
}

// SparseFFN computes only the neurons of s: gate rows, up rows where the activation is not zero, down rows where
// the product is not. A batch computes gate and up rows of all neurons once for all its tokens; products are the same bytes.
func (d *Device) SparseFFN(out, x compute.Tensor, s compute.Set, w compute.SparseWeights) {
	f := &d.sparse
	f.s, f.n, f.w, f.out = s.Mem.(*set), s.N, w, out
	f.x = operand{}
	f.hidden = grown(&f.hidden, x.Rows*f.n)
	f.up = grown(&f.up, x.Rows*f.n)
	f.sums = grown(&f.sums, x.Rows*sparseChunks*w.Down.Cols)
	f.dense = x.Rows > 1
	if f.dense {
		f.everyNeuron(x)
	} else {
		f.x.form(d, x, w.Up)
		if w.Gate != nil {
			f.x.form(d, x, w.Gate)
		}
	}
	d.pool.Run(x.Rows*sparseChunks, f.chunkFn)
	d.pool.Run(x.Rows, f.sumFn)
}

// everyNeuron fills hidden for a batch by matrix products.
func (f *sparseFFN) everyNeuron(x compute.Tensor) {
	hidden := compute.Tensor{Rows: x.Rows, Cols: f.n, Mem: &buffer{f.hidden}}
	if f.w.Gate == nil {
		f.d.MatMul(x, compute.Products{{Out: hidden, W: f.w.Up, Bias: f.w.UpBias}})
		f.d.Activate(hidden, hidden, compute.Tensor{}, f.w.Act)
		return
	}
	up := compute.Tensor{Rows: x.Rows, Cols: f.n, Mem: &buffer{f.up}}
	f.d.MatMul(x, compute.Products{{Out: hidden, W: f.w.Gate}, {Out: up, W: f.w.Up, Bias: f.w.UpBias}})
	f.d.Activate(hidden, hidden, up, f.w.Act)
}

// chunk sums a part of one token's neurons.
func (f *sparseFFN) chunk(i, worker int) {
	token, part := i/sparseChunks, i%sparseChunks
	active := f.s.token(token, f.n)
	active = active[len(active)*part/sparseChunks : len(active)*(part+1)/sparseChunks]
	cols := f.w.Down.Cols
	if !f.dense {
		f.neurons(token, active, worker)
	}
	w := f.d.worker(worker)
	floats := grown(&w.floats, kernel.SumLen(cols)+cols)
	w.sum.Begin(f.d.k, f.w.Down.Type, cols, floats, floats[kernel.SumLen(cols):])
	hidden := f.hidden[token*f.n:][:f.n]
	for _, n := range active {
		if a := hidden[n]; a != 0 {
			w.sum.Add(f.downRow(int(n), w), a)
		}
	}
	w.sum.Finish(f.sums[i*cols:][:cols])
}

// downRow is neuron n's row in the kernels' layout. A sum holds up to four rows back, so that rows packed on the fly
// take turns in five places.
func (f *sparseFFN) downRow(n int, w *workerScratch) []byte {
	m := mem(f.w.Down)
	if m.packed {
		return m.data[n*m.rowBytes:][:m.rowBytes]
	}
	w.turn = (w.turn + 1) % len(w.rows)
	return packedRows(f.w.Down, n, n+1, &w.rows[w.turn])
}

// neurons computes act(gate)·up of the active neurons of one token.
func (f *sparseFFN) neurons(token int, active []int32, worker int) {
	hidden := f.hidden[token*f.n:][:f.n]
	for _, n := range active {
		i := int(n)
		if f.w.Gate == nil {
			hidden[i] = f.dot(f.w.Up, i, token, worker)
			if f.w.UpBias != nil {
				hidden[i] += vector(f.w.UpBias)[i]
			}
			f.d.k.Activate(hidden[i:i+1], hidden[i:i+1], nil, f.w.Act)
			continue
		}
		gate := f.dot(f.w.Gate, i, token, worker)
		if f.w.Act.Sparse() && gate <= max(0, f.w.Act.Threshold*fat(f.w.Act)) {
			hidden[i] = 0
			continue
		}
		f.up[i] = f.dot(f.w.Up, i, token, worker)
		if f.w.UpBias != nil {
			f.up[i] += vector(f.w.UpBias)[i]
		}
		hidden[i] = gate
		f.d.k.Activate(hidden[i:i+1], hidden[i:i+1], f.up[i:i+1], f.w.Act)
	}
}

// fat is 1 for FATReLU, the only activation with a threshold of its own.
func fat(a compute.Activation) float32 {
	if a.Kind == compute.FATReLU {
		return 1
	}
	return 0
}

func (f *sparseFFN) dot(w *compute.Matrix, neuron, token, worker int) float32 {
	row := packedRows(w, neuron, neuron+1, &f.d.worker(worker).packed)
	at, _ := f.x.of(f.d, w, token)
	return f.d.k.Dot(w.Type, row, w.Cols, at)
}

// sum adds one token's chunks in order.
func (f *sparseFFN) sum(token, _ int) {
	out := row(f.out, token)
	cols := len(out)
	if bias := vector(f.w.DownBias); bias != nil {
		copy(out, bias)
	} else {
		clear(out)
	}
	for c := range sparseChunks {
		f.d.k.Add(out, f.sums[(token*sparseChunks+c)*cols:][:cols])
	}
}
