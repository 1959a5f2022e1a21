package cpu

import (
	"sync/atomic"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/compute/cpu/kernel"
)

// sparseChunks bounds the chunks that a token's open neurons are cut into, chunkNeurons from below their size. Each is
// summed alone and chunks are added in order, so an output's bytes depend on the token's neurons only.
const (
	sparseChunks = 16
	chunkNeurons = 16
	pairNeurons  = 64 // for a pair of a token and an expert: several pairs are there to share among threads
)

// Threads share the work of a few tokens in a layer in pieces much smaller than a thread's share. Otherwise all would
// wait for the threads with one piece more: with 15 threads and 16 pieces half of the time. No byte depends on pieces.
const (
	listPieces = 96 // pieces of a list of neurons whose gates or a_i are computed
	downSlices = 6  // ranges of outputs that a chunk's down columns are cut into
)

// sparseFFN is the state of one Predict or SparseFFN. Methods that run on the pool are values made once, so that a call
// allocates nothing.
//
// A neuron of a token's set is open if act(gate), in ungated layers act(up), is not zero.
type sparseFFN struct {
	d                                                   *Device
	predictFn, gateFn, openFn, activeFn, chunkFn, sumFn func(chunk, worker int)
	rowFn, spreadFn, panelFn                            func(chunk, worker int)

	// Predict
	s         *set
	always    int
	threshold float32
	logits    compute.Tensor

	// SparseFFN
	w      compute.SparseWeights
	n      int            // neurons of the layer
	tokens int            // rows: tokens, or for experts pairs of a token and an expert
	pairs  *experts       // the pairs of the rows; nil: rows are tokens, all of one layer
	out    compute.Tensor // [tokens, n_embd]
	x      operand
	all    bool      // the set is every neuron
	gated  bool      // gates of all neurons were computed, not only of the set
	upped  bool      // up holds all neurons' ups
	listed bool      // it holds a_i of the open neurons of rows instead
	slices int       // pieces that each chunk's outputs are cut into
	hidden []float32 // [tokens, n_ff] gates, in ungated layers ups, of the set's neurons; or a_i
	up     []float32 // [tokens, n_ff]
	open   *set
	a      []float32 // [tokens, n_ff] a_i, or zero, where down is multiplied as a matrix
	sums   []float32 // [tokens, sparseChunks, sumLen]
	sumLen int
	counts [2]atomic.Int64 // open, active
	views  [2]buffer

	// For layers with an adapter
	moreGates, moreUps []float32 // [tokens, n_ff] added to the products of gate, and of up with its bias; nil: nothing
	kept               []float32 // [tokens, n_ff] a_i of open neurons, where DownA wants them
	again              bool      // kept holds them: this is DownA's turn
	panels             panels
	disk               neuronUnits

	dense, scattered []int32  // the step's rows by the way of their down projection, in order
	rows             []int32  // rows of scattered that are summed together now
	runs             []int32  // where runs of rows of the same layer begin among them, and their number
	active           []uint64 // [n_ff] bits: neurons whose a_i was not zero for some row
	seen             []uint64 // [n_ff] bits: scratch of union
}

func (f *sparseFFN) init(d *Device) {
	f.d = d
	f.predictFn, f.gateFn, f.openFn, f.activeFn, f.chunkFn, f.sumFn = f.predict, f.gate, f.choose, f.activate, f.chunk, f.sum
	f.rowFn, f.spreadFn, f.panelFn = f.row, f.spread, f.panel
}

// Predict chooses the neurons that are always on and those with a logit that reaches the threshold.
func (d *Device) Predict(o *compute.Predict) {
	d.parts.MatMul(o.X, compute.Products{{Out: o.Hidden, W: o.FC1}})
	d.parts.Activate(o.Hidden, o.Hidden, compute.Tensor{}, compute.Activation{Kind: compute.ReLU})
	d.parts.MatMul(o.Hidden, compute.Products{{Out: o.Logits, W: o.FC2}})
	f := &d.sparse
	f.s, f.always, f.logits, f.threshold = o.Set.Mem.(*set), o.Set.N-o.FC2.Rows, o.Logits, d.p.Threshold
	d.pool.Run(o.Set.Rows, f.predictFn)
}

func (f *sparseFFN) predict(token, _ int) {
	list := f.s.room(token)
	for i := range f.always {
		list = append(list, int32(i))
	}
	f.s.count[token] = len(f.d.k.Choose(list, row(f.logits, token), int32(f.always), f.threshold, true))
}

// SparseFFN computes only the neurons of s: the gate rows, the up rows of open neurons, and the down columns of neurons
// with an a_i other than zero.
func (d *Device) SparseFFN(o *compute.SparseFFN) {
	x, w := o.X, o.Weights
	if x.Rows == 0 {
		return
	}
	f := &d.sparse
	f.begin(o.Out, x, o.Set, w)
	f.adapt()
	f.beginOnDisk()
	if !f.bringDeciding() {
		return
	}
	f.gates(x)
	if w.Cut != nil {
		d.parts.GaussianTopK(f.view(&f.views[0], f.hidden), *w.Cut)
	}
	d.pool.Run(f.tokens, f.openFn)
	if !f.bringOpen() {
		return
	}
	if w.Gate != nil && !f.disk.picked && (f.tokens > compute.FewTokens || most(f.open.largest(f.tokens), f.n)) {
		f.ups(x)
	}
	whole := f.project()
	f.letGo()
	if c := w.Count; c != nil {
		c.Steps++
		c.Tokens += int64(x.Rows)
		predicted, active, read := f.predicted(), f.counts[1].Load(), f.bytes(whole)
		c.Predicted += predicted
		c.PredictedRAM += predicted
		c.Gated += f.counts[0].Load()
		c.Active += active
		c.ActiveRAM += active
		c.Bytes += read
		c.RAM += read
	}
	if w.Bins != nil && w.Bins.On {
		f.show(w.Bins)
	}
	if a := &w.Adapter; a.DownA != nil {
		f.again = true
		f.w.Down, f.w.DownBias, f.out, f.sumLen = a.DownA, nil, a.DownLow, kernel.Sums(a.DownLow.Cols)
		f.project()
	}
}

func (f *sparseFFN) begin(out, x compute.Tensor, s compute.Set, w compute.SparseWeights) {
	f.hidden = grown(&f.hidden, x.Rows*w.Up.Rows)
	f.beginRows(out, x.Rows, w.Up.Rows, w)
	if f.all = s.Mem == nil; !f.all {
		f.s = s.Mem.(*set)
	}
	clear(grown(&f.active, (f.n+63)/64))
}

// beginRows prepares the given number of rows, of n neurons each.
func (f *sparseFFN) beginRows(out compute.Tensor, rows, n int, w compute.SparseWeights) {
	f.w, f.out, f.n, f.tokens = w, out, n, rows
	f.gated, f.upped, f.listed, f.again = false, false, false, false
	if f.open == nil || f.open.stride < f.n+kernel.ChooseSlack || len(f.open.count) < f.tokens {
		f.open = newSet(f.tokens, f.n)
	}
	f.sumLen = kernel.Sums(out.Cols)
	for i := range f.counts {
		f.counts[i].Store(0)
	}
}

// most reports whether count of n neurons are so many that reading all rows in order is faster than picking them:
// consecutive rows stream at full bandwidth.
func most(count, n int) bool { return 20*count >= 9*n }

// view returns a tensor over scratch: in a buffer of f's own, so that a call allocates nothing.
func (f *sparseFFN) view(b *buffer, data []float32) compute.Tensor {
	b.data = data
	return compute.Tensor{Rows: f.tokens, Cols: f.n, Mem: b}
}

// token returns the token that row t is of.
func (f *sparseFFN) token(t int) int {
	if f.pairs != nil {
		return f.pairs.token(t)
	}
	return t
}

// single returns the number of tokens that are computed as tokens of running sequences.
func (f *sparseFFN) single() int {
	if f.pairs != nil {
		return f.d.single(f.pairs.out)
	}
	return f.d.single(f.out)
}

// layer returns which of stacked layers row t is of.
func (f *sparseFFN) layer(t int) int {
	if f.pairs != nil {
		return f.pairs.at(t)
	}
	return 0
}

// hasUps reports whether up holds all of row t's.
func (f *sparseFFN) hasUps(t int) bool {
	if f.pairs != nil {
		return f.pairs.hasUps(t)
	}
	return f.upped
}

// activeOf returns the part of active for row t's layer.
func (f *sparseFFN) activeOf(t int) []uint64 {
	if f.pairs != nil {
		return f.pairs.activeOf(t)
	}
	return f.active
}
