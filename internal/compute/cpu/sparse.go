package cpu

import (
	"sync/atomic"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/compute/cpu/kernel"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// set lists every token's neurons in ascending order.
type set struct {
	active []int32 // [rows, stride]
	stride int
	count  []int // [rows]
}

func newSet(rows, n int) *set {
	stride := n + kernel.ChooseSlack
	return &set{active: make([]int32, rows*stride), stride: stride, count: make([]int, rows)}
}

// token lists token i's neurons.
func (s *set) token(i int) []int32 { return s.active[i*s.stride:][:s.count[i]] }

// room is the memory of token i's list, emptied.
func (s *set) room(i int) []int32 { return s.active[i*s.stride:][:0:s.stride] }

// Set allocates a set of n neurons for each of rows tokens.
func (d *Device) Set(rows, n int) (compute.Set, error) {
	return compute.Set{Rows: rows, N: n, Mem: newSet(rows, n)}, nil
}

// fewSparse is up to how many tokens a batch is computed token by token, neuron by neuron, in the bytes of one token alone. Longer
// ones go through matrix products: their sets' union is most of the layer.
const fewSparse = 8

// sparseChunks bounds the chunks that a token's neurons are cut into, chunkNeurons from below their size. Each sums its
// neurons alone and chunks are added in order, so an output's bytes depend on the set only.
const (
	sparseChunks = 16
	chunkNeurons = 16
)

// sparseFFN is the state of one Predict or SparseFFN. Methods that run on the pool are values made once, so that a call allocates nothing.
type sparseFFN struct {
	d                                      *Device
	predictFn, chooseFn, chunkFn, sumFn    func(chunk, worker int)
	activateFn, uniteFn, gatherFn, panelFn func(chunk, worker int)

	// Predict
	s         *set
	always    int
	threshold float32
	logits    compute.Tensor

	// SparseFFN
	w      compute.SparseWeights
	n      int // neurons of the layer
	tokens int
	out    compute.Tensor // [tokens, n_embd]
	x      operand
	all    bool      // the set is every neuron
	gated  bool      // hidden holds the gates, in ungated layers the ups, of all neurons, and list those that are not zero
	upped  bool      // up holds all neurons' ups
	hidden []float32 // [tokens, n_ff] gates, or a_i
	up     []float32 // [tokens, n_ff]
	a      []float32 // [tokens, n_ff] a_i, or zero, where down is a plain matrix
	list   *set      // of the neurons to compute
	open   *set      // memory of such a list
	sums   []float32 // [tokens, sparseChunks, sumLen]
	sumLen int
	counts [3]atomic.Int64 // gated, active, groups of columns read
	views  [2]buffer
	batch  batch
}

func (f *sparseFFN) init(d *Device) {
	f.d = d
	f.predictFn, f.chooseFn, f.chunkFn, f.sumFn = f.predict, f.choose, f.chunk, f.sum
	f.activateFn, f.uniteFn, f.gatherFn, f.panelFn = f.activate, f.unite, f.gather, f.panel
}

// Predict chooses the neurons that are always on and those whose logit reaches the threshold.
func (d *Device) Predict(s compute.Set, x, hidden, logits compute.Tensor, fc1, fc2 *compute.Matrix) {
	d.MatMul(x, compute.Products{{Out: hidden, W: fc1}})
	d.Activate(hidden, hidden, compute.Tensor{}, compute.Activation{Kind: compute.ReLU})
	d.MatMul(hidden, compute.Products{{Out: logits, W: fc2}})
	f := &d.sparse
	f.s, f.always, f.logits, f.threshold = s.Mem.(*set), s.N-fc2.Rows, logits, d.p.Threshold
	d.pool.Run(s.Rows, f.predictFn)
}

func (f *sparseFFN) predict(token, _ int) {
	list := f.s.room(token)
	for i := range f.always {
		list = append(list, int32(i))
	}
	f.s.count[token] = len(f.d.k.Choose(list, row(f.logits, token), int32(f.always), f.threshold, true))
}

// SparseFFN computes only the neurons of s: gate rows, up rows where the activation is not zero, the down columns of
// neurons whose product is not.
func (d *Device) SparseFFN(out, x compute.Tensor, s compute.Set, w compute.SparseWeights) {
	if x.Rows == 0 {
		return
	}
	f := &d.sparse
	f.begin(out, x, s, w)
	if x.Rows > fewSparse {
		f.everyNeuron(x)
	} else {
		f.someNeurons(x)
	}
	if c := w.Count; c != nil {
		c.Steps++
		c.Tokens += int64(x.Rows)
		c.Predicted += f.predicted()
		c.Gated += f.counts[0].Load()
		c.Active += f.counts[1].Load()
		c.Bytes += f.bytes()
	}
}

// bytes is what was read of the weights.
func (f *sparseFFN) bytes() int64 {
	first, total := f.w.Gate, int64(0)
	if first == nil {
		first = f.w.Up
	} else if f.upped {
		total += rowsBytes(f.w.Up, int64(f.n))
	} else {
		total += rowsBytes(f.w.Up, f.counts[0].Load())
	}
	if f.gated {
		total += rowsBytes(first, int64(f.n))
	} else {
		total += rowsBytes(first, f.predicted())
	}
	down := mem(f.w.Down)
	switch {
	case down.layout == plain, f.tokens > fewSparse && len(f.batch.neurons) == f.n:
		return total + int64(len(down.data))
	case f.tokens > fewSparse:
		return total + int64(len(down.data))*int64(len(f.batch.neurons))/int64(f.n)
	case down.layout == groups:
		scales := int64(kernel.Super(f.w.Down.Rows) * quant.QKK * 2)
		return total + f.counts[2].Load()*scales + f.counts[1].Load()*(int64(down.rowBytes)-scales)/kernel.GroupNeurons
	}
	return total + rowsBytes(f.w.Down, f.counts[1].Load())
}

func rowsBytes(w *compute.Matrix, n int64) int64 { return n * int64(mem(w).rowBytes) }

func (f *sparseFFN) begin(out, x compute.Tensor, s compute.Set, w compute.SparseWeights) {
	f.w, f.out, f.n, f.tokens = w, out, w.Up.Rows, x.Rows
	f.all = s.Mem == nil
	f.gated, f.upped = false, false
	if !f.all {
		f.s = s.Mem.(*set)
	}
	f.hidden = grown(&f.hidden, x.Rows*f.n)
	f.x = operand{}
	for i := range f.counts {
		f.counts[i].Store(0)
	}
}

// predicted counts the neurons of the sets.
func (f *sparseFFN) predicted() int64 {
	if f.all {
		return int64(f.tokens) * int64(f.n)
	}
	n := 0
	for t := range f.tokens {
		n += f.s.count[t]
	}
	return int64(n)
}

// bound is what a gate must be above for its activation not to be zero; ok is false where no gate's is.
func bound(a compute.Activation) (b float32, ok bool) {
	switch a.Kind {
	case compute.ReLU, compute.DReLU, compute.ReLU2:
		return 0, true
	case compute.FATReLU: // of any threshold, also one below zero
		return a.Threshold, true
	}
	return 0, false
}

// most reports whether so many of n neurons are asked for that reading all rows in their order is faster than picking them:
// rows one behind the other stream at full bandwidth.
func most(count, n int) bool { return 20*count >= 9*n }

// someNeurons computes a few tokens neuron by neuron.
func (f *sparseFFN) someNeurons(x compute.Tensor) {
	f.x.form(f.d, x, f.w.Up)
	if f.w.Gate != nil {
		f.x.form(f.d, x, f.w.Gate)
	}
	f.list = f.s
	asked := 0
	if !f.all {
		for t := range f.tokens {
			asked = max(asked, f.s.count[t])
		}
	}
	first := f.w.Gate
	var bias *compute.Vector
	if first == nil {
		first, bias = f.w.Up, f.w.UpBias
	}
	if f.all || most(asked, f.n) {
		f.d.MatMul(x, compute.Products{{Out: f.view(&f.views[0], f.hidden), W: first, Bias: bias}})
		f.gated = true
		f.chooseOpen()
	}
	if f.w.Gate != nil && f.gated {
		open := 0
		for t := range f.tokens {
			open = max(open, f.list.count[t])
		}
		if most(open, f.n) {
			f.allUps(x)
		}
	}
	f.sumLen = kernel.Sums(f.out.Cols)
	f.sums = grown(&f.sums, f.tokens*sparseChunks*f.sumLen)
	if mem(f.w.Down).layout == plain {
		f.a = grown(&f.a, f.tokens*f.n)
		clear(f.a)
	}
	f.d.pool.Run(sparseChunks, f.chunkFn)
	if mem(f.w.Down).layout == plain {
		f.d.MatMul(f.view(&f.views[0], f.a), compute.Products{{Out: f.out, W: f.w.Down, Bias: f.w.DownBias}})
		return
	}
	f.d.pool.Run(f.tokens*kernel.Super(f.out.Cols), f.sumFn)
}

// view is a tensor over scratch: in a buffer of f's own, so that a call allocates nothing.
func (f *sparseFFN) view(b *buffer, data []float32) compute.Tensor {
	b.data = data
	return compute.Tensor{Rows: f.tokens, Cols: f.n, Mem: b}
}

// chooseOpen leaves in list the neurons of the set whose gates, which are known, are not zero.
func (f *sparseFFN) chooseOpen() {
	if f.open == nil || f.open.stride < f.n+kernel.ChooseSlack {
		f.open = newSet(fewSparse, f.n)
	}
	f.list = f.open
	f.d.pool.Run(f.tokens, f.chooseFn)
}

func (f *sparseFFN) choose(token, _ int) {
	gates := f.hidden[token*f.n:][:f.n]
	list := f.list.room(token)
	b, sparse := bound(f.w.Act)
	switch {
	case f.all && sparse:
		list = f.d.k.Choose(list, gates, 0, b, false)
	case f.all:
		for i := range gates {
			list = append(list, int32(i))
		}
	default:
		for _, i := range f.s.token(token) {
			if !sparse || gates[i] > b {
				list = append(list, i)
			}
		}
	}
	f.list.count[token] = len(list)
}

// allUps fills up by one matrix product.
func (f *sparseFFN) allUps(x compute.Tensor) {
	f.up = grown(&f.up, f.tokens*f.n)
	f.d.MatMul(x, compute.Products{{Out: f.view(&f.views[1], f.up), W: f.w.Up, Bias: f.w.UpBias}})
	f.upped = true
}

// part is chunk i's part of token t's list.
func (f *sparseFFN) part(t, i int) []int32 {
	list := f.list.token(t)
	chunks := min(sparseChunks, max(1, len(list)/chunkNeurons))
	if i >= chunks {
		return nil
	}
	return list[len(list)*i/chunks : len(list)*(i+1)/chunks]
}

// chunk computes and sums a part of every token's neurons: rows that several tokens need are still in the cache for the next.
func (f *sparseFFN) chunk(i, worker int) {
	w := f.d.worker(worker)
	for t := range f.tokens {
		list := f.part(t, i)
		sum := f.sums[(t*sparseChunks+i)*f.sumLen:][:f.sumLen]
		if len(list) == 0 && i > 0 {
			continue // the sum of a token leaves this chunk out
		}
		clear(sum)
		list, a := f.neurons(t, list, w)
		f.down(t, list, a, sum, w)
		f.counts[0].Add(int64(len(list)))
		f.counts[1].Add(int64(nonZero(a)))
	}
}

func nonZero(a []float32) int {
	n := 0
	for _, v := range a {
		if v != 0 {
			n++
		}
	}
	return n
}

// neurons computes a_i of the listed neurons of one token: of those whose act(gate) is not zero, which it returns.
func (f *sparseFFN) neurons(t int, list []int32, w *workerScratch) ([]int32, []float32) {
	gate := grown(&w.floats, 2*len(list))
	gate, up := gate[:len(list)], gate[len(list):]
	hidden := f.hidden[t*f.n:][:f.n]
	if f.gated {
		for i, n := range list {
			gate[i] = hidden[n]
		}
	} else if f.w.Gate != nil {
		f.dots(gate, f.w.Gate, nil, t, list, w)
		list, gate = f.keepOpen(list, gate, w)
		up = up[:len(list)]
	} else {
		f.dots(gate, f.w.Up, f.w.UpBias, t, list, w)
		list, gate = f.keepOpen(list, gate, w)
	}
	switch {
	case f.w.Gate == nil:
		up = nil
	case f.upped:
		for i, n := range list {
			up[i] = f.up[t*f.n+int(n)]
		}
	default:
		f.dots(up, f.w.Up, f.w.UpBias, t, list, w)
	}
	f.d.k.Activate(gate, gate, up, f.w.Act)
	return list, gate
}

// dots computes rows of m, chosen by index, times token t's activations.
func (f *sparseFFN) dots(out []float32, m *compute.Matrix, bias *compute.Vector, t int, list []int32, w *workerScratch) {
	x, _ := f.x.of(f.d, m, t)
	if mem(m).packed {
		f.d.k.DotRows(m.Type, out, mem(m).data, list, m.Cols, x)
	} else {
		for i, n := range list {
			out[i] = f.d.k.Dot(m.Type, packedRows(m, int(n), int(n)+1, &w.packed), m.Cols, x)
		}
	}
	if bias != nil {
		b := vector(bias)
		for i, n := range list {
			out[i] += b[n]
		}
	}
}

// keepOpen keeps the neurons whose activation is not zero.
func (f *sparseFFN) keepOpen(list []int32, gate []float32, w *workerScratch) ([]int32, []float32) {
	b, sparse := bound(f.w.Act)
	if !sparse {
		return list, gate
	}
	kept := grown(&w.neurons, len(list))[:0]
	for i, g := range gate {
		if g > b {
			gate[len(kept)] = g
			kept = append(kept, list[i])
		}
	}
	return kept, gate[:len(kept)]
}

// down adds a_i times the down column of every listed neuron to sum.
func (f *sparseFFN) down(t int, list []int32, a, sum []float32, w *workerScratch) {
	m := mem(f.w.Down)
	switch m.layout {
	case plain:
		for i, n := range list {
			f.a[t*f.n+int(n)] = a[i]
		}
		return
	case groups:
		hidden := f.hidden[t*f.n:][:f.n]
		for i, n := range list {
			hidden[n] = a[i]
		}
		w.groups.Begin(f.d.k, f.w.Down.Type, m.data, f.w.Down.Rows, sum)
		for len(list) > 0 {
			n := 1
			for n < len(list) && list[n]/kernel.GroupNeurons == list[0]/kernel.GroupNeurons {
				n++
			}
			w.groups.Add(list[:n], hidden, list[n:])
			list = list[n:]
			f.counts[2].Add(1)
		}
		return
	}
	w.sum.Begin(f.d.k, f.w.Down.Type, f.out.Cols, sum)
	for i, n := range list {
		if a[i] != 0 {
			w.sum.Add(f.downRow(int(n), w), a[i])
		}
	}
	w.sum.Finish()
}

// downRow is neuron n's row in the kernels' layout. A sum holds rows back, so that rows packed on the fly take turns.
func (f *sparseFFN) downRow(n int, w *workerScratch) []byte {
	m := mem(f.w.Down)
	if m.packed {
		return m.data[n*m.rowBytes:][:m.rowBytes]
	}
	w.turn = (w.turn + 1) % len(w.rows)
	return packedRows(f.w.Down, n, n+1, &w.rows[w.turn])
}

// sum adds one superblock of one token's chunks in their order.
func (f *sparseFFN) sum(i, _ int) {
	blocks := kernel.Super(f.out.Cols)
	t, s := i/blocks, i%blocks
	first := s * superblock
	total := f.sums[t*sparseChunks*f.sumLen+first:][:superblock]
	for c := 1; c < sparseChunks; c++ {
		if len(f.part(t, c)) == 0 {
			break
		}
		f.d.k.Add(total, f.sums[(t*sparseChunks+c)*f.sumLen+first:][:superblock])
	}
	out := row(f.out, t)[first:min(f.out.Cols, first+superblock)]
	kernel.Ordered(f.w.Down.Type, out, total)
	if f.w.DownBias != nil {
		f.d.k.Add(out, vector(f.w.DownBias)[first:][:len(out)])
	}
}
