package cpu

import (
	"math/bits"
	"sync/atomic"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/compute/cpu/kernel"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// sparseChunks bounds the chunks that a token's open neurons are cut into, chunkNeurons from below their size. Each is summed
// alone and chunks are added in order, so an output's bytes depend on the token's neurons only.
const (
	sparseChunks = 16
	chunkNeurons = 16
	pairNeurons  = 64 // of a pair of a token and an expert: there are several pairs to share among threads
)

// sparseFFN is the state of one Predict or SparseFFN. Methods that run on the pool are values made once, so that a call allocates nothing.
//
// A neuron of a token's set is open if act(gate), in ungated layers act(up), is not zero.
type sparseFFN struct {
	d                                         *Device
	predictFn, gateFn, openFn, chunkFn, sumFn func(chunk, worker int)
	rowFn, spreadFn, panelFn                  func(chunk, worker int)

	// Predict
	s         *set
	always    int
	threshold float32
	logits    compute.Tensor

	// SparseFFN
	w      compute.SparseWeights
	n      int            // neurons of the layer
	tokens int            // rows: of experts, pairs of a token and an expert
	pairs  *experts       // what the rows are pairs of; nil: rows are tokens, all of one layer
	out    compute.Tensor // [tokens, n_embd]
	x      operand
	all    bool      // the set is every neuron
	gated  bool      // gates of all neurons were computed, not only those of the set
	upped  bool      // up holds all neurons' ups
	hidden []float32 // [tokens, n_ff] gates, in ungated layers ups, of the set's neurons; or a_i
	up     []float32 // [tokens, n_ff]
	open   *set
	a      []float32 // [tokens, n_ff] a_i, or zero, where down is multiplied as a matrix
	sums   []float32 // [tokens, sparseChunks, sumLen]
	sumLen int
	counts [2]atomic.Int64 // open, active
	views  [2]buffer

	// Where the layer has an adapter
	moreGates, moreUps []float32 // [tokens, n_ff] what is added to the products of gate, and of up with its bias; nil: nothing
	kept               []float32 // [tokens, n_ff] a_i of open neurons, where DownA wants them
	again              bool      // kept holds them: this is DownA's turn
	panels             panels

	dense, scattered []int32  // the step's rows by the way of their down projection, in order
	rows             []int32  // of scattered, those that are summed together now
	runs             []int32  // where runs of rows of the same layer begin among them, and their number
	active           []uint64 // [n_ff] bits: neurons whose a_i was not zero for some row
	seen             []uint64 // [n_ff] bits: scratch of union
}

func (f *sparseFFN) init(d *Device) {
	f.d = d
	f.predictFn, f.gateFn, f.openFn, f.chunkFn, f.sumFn = f.predict, f.gate, f.choose, f.chunk, f.sum
	f.rowFn, f.spreadFn, f.panelFn = f.row, f.spread, f.panel
}

// predict chooses the neurons that are always on and those whose logit reaches the threshold.
func (d *Device) predict(s compute.Set, x, hidden, logits compute.Tensor, fc1, fc2 *compute.Matrix) {
	d.matMul(x, compute.Products{{Out: hidden, W: fc1}})
	d.activate(hidden, hidden, compute.Tensor{}, compute.Activation{Kind: compute.ReLU})
	d.matMul(hidden, compute.Products{{Out: logits, W: fc2}})
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

// sparseFFN computes only the neurons of s: gate rows, up rows of those that are open, the down columns of those whose a_i
// is not zero.
func (d *Device) sparseFFN(out, x compute.Tensor, s compute.Set, w compute.SparseWeights) {
	if x.Rows == 0 {
		return
	}
	f := &d.sparse
	f.begin(out, x, s, w)
	f.adapt()
	f.gates(x)
	if w.Cut != nil {
		d.gaussianTopK(f.view(&f.views[0], f.hidden), *w.Cut)
	}
	d.pool.Run(f.tokens, f.openFn)
	if w.Gate != nil && (f.tokens > compute.FewTokens || most(f.open.largest(f.tokens), f.n)) {
		f.ups(x)
	}
	whole := f.project()
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

// project computes f.out from the rows' open neurons. whole: all of down was read.
func (f *sparseFFN) project() (whole bool) {
	if mem(f.w.Down).layout == plain {
		f.multiply()
		return true
	}
	f.sort()
	whole = len(f.dense) > 0
	f.sumScattered()
	if whole {
		f.multiplyPanels()
	}
	return whole
}

// adapt computes what adapters add to gates and ups of all neurons: their ranks are small.
func (f *sparseFFN) adapt() {
	a := &f.w.Adapter
	if a.GateB != nil {
		f.moreGates = grown(&f.moreGates, f.tokens*f.n)
		f.d.matMul(a.GateLow, compute.Products{{Out: f.view(&f.views[0], f.moreGates), W: a.GateB}})
	}
	if a.UpB != nil {
		f.moreUps = grown(&f.moreUps, f.tokens*f.n)
		f.d.matMul(a.UpLow, compute.Products{{Out: f.view(&f.views[0], f.moreUps), W: a.UpB, Bias: f.w.UpBias}})
	}
	if a.DownA != nil {
		f.kept = grown(&f.kept, f.tokens*f.n)
	}
}

// gateBiases returns what is added to the products of row t's gates, or nil.
func (f *sparseFFN) gateBiases(t int) []float32 {
	if f.w.Adapter.GateB == nil {
		return nil
	}
	return f.moreGates[t*f.n:][:f.n]
}

// upBiases returns what is added to the products of row t's ups, or nil.
func (f *sparseFFN) upBiases(t int) []float32 {
	switch {
	case f.w.Adapter.UpB != nil:
		return f.moreUps[t*f.n:][:f.n]
	case f.pairs != nil:
		return f.pairs.upBiases(t)
	case f.w.UpBias != nil:
		return vector(f.w.UpBias)
	}
	return nil
}

// show counts the neurons that tokens needed.
func (f *sparseFFN) show(b *compute.NeuronBins) {
	lists := f.open
	if !f.all {
		lists = f.s
	}
	for t := range f.tokens {
		b.Add(f.w.First, lists.token(t))
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

// beginRows prepares so many rows of n neurons each.
func (f *sparseFFN) beginRows(out compute.Tensor, rows, n int, w compute.SparseWeights) {
	f.w, f.out, f.n, f.tokens = w, out, n, rows
	f.gated, f.upped, f.again = false, false, false
	if f.open == nil || f.open.stride < f.n+kernel.ChooseSlack || len(f.open.count) < f.tokens {
		f.open = newSet(f.tokens, f.n)
	}
	f.sumLen = kernel.Sums(out.Cols)
	for i := range f.counts {
		f.counts[i].Store(0)
	}
}

// sort tells the rows whose down projection goes through panels from those whose neurons are summed one by one. Only a row's own
// numbers decide, so that its bytes depend on nothing else in the step.
func (f *sparseFFN) sort() {
	f.dense, f.scattered = f.dense[:0], f.scattered[:0]
	for t := range f.tokens {
		if f.token(t) >= f.d.p.Decode && f.fillsPanels(f.open.count[t]) {
			f.dense = append(f.dense, int32(t))
		} else {
			f.scattered = append(f.scattered, int32(t))
		}
	}
}

// sumScattered sums the down columns of the scattered rows. A few rows go through the neurons together, so that a column
// that several need is read from memory once; rows of a long prompt, which keep all workers busy, go one by one. The bytes are the same.
func (f *sparseFFN) sumScattered() {
	few, most := f.scattered, compute.FewTokens
	switch {
	case f.pairs != nil:
		few, most = f.pairs.fewPairs()
	case len(few) > most:
		few = few[:min(len(few), f.d.p.Decode)]
		f.rows = f.scattered[len(few):]
		f.d.pool.Run(len(f.rows), f.rowFn)
	}
	for ; len(few) > 0; few = few[len(f.rows):] {
		f.rows = few[:min(len(few), most)]
		f.findRuns()
		f.sums = grown(&f.sums, len(f.rows)*sparseChunks*f.sumLen)
		f.d.pool.Run((len(f.runs)-1)*sparseChunks, f.chunkFn)
		f.d.pool.Run(len(f.rows)*kernel.Super(f.out.Cols), f.sumFn)
	}
}

// findRuns finds the runs of rows of the same layer.
func (f *sparseFFN) findRuns() {
	f.runs = append(f.runs[:0], 0)
	for i := 1; i < len(f.rows); i++ {
		if f.layer(int(f.rows[i])) != f.layer(int(f.rows[i-1])) {
			f.runs = append(f.runs, int32(i))
		}
	}
	f.runs = append(f.runs, int32(len(f.rows)))
}

// bytes returns what was read of the weights.
func (f *sparseFFN) bytes(whole bool) int64 {
	first, total := f.w.Gate, int64(0)
	switch {
	case first == nil:
		first = f.w.Up
	case f.upped:
		total = rowsBytes(f.w.Up, int64(f.n))
	default:
		total = rowsBytes(f.w.Up, f.union(f.open))
	}
	if f.gated {
		total += rowsBytes(first, int64(f.n))
	} else {
		total += rowsBytes(first, f.union(f.s))
	}
	if whole {
		return total + int64(len(mem(f.w.Down).data))
	}
	return total + f.columnBytes(f.active[:(f.n+63)/64])
}

// columnBytes returns what was read of a layer's down projection: active are the neurons that some row needed.
func (f *sparseFFN) columnBytes(active []uint64) (total int64) {
	down := mem(f.w.Down)
	column, scales := int64(down.rowBytes), int64(0)
	if down.layout == groups {
		scales = int64(kernel.Super(f.out.Cols) * quant.QKK * 2)
		column = (column - scales) / kernel.GroupNeurons
	}
	for _, word := range active {
		total += int64(bits.OnesCount64(word)) * column
		if uint32(word) != 0 {
			total += scales
		}
		if word>>kernel.GroupNeurons != 0 {
			total += scales
		}
	}
	return total
}

// union counts the neurons that some token's list has: rows that are read once for all of them.
func (f *sparseFFN) union(lists *set) int64 { return f.unionOf(lists, 0, f.tokens) }

// unionOf is union of rows [from, to).
func (f *sparseFFN) unionOf(lists *set, from, to int) (n int64) {
	seen := grown(&f.seen, (f.n+63)/64)
	clear(seen)
	for t := from; t < to; t++ {
		for _, i := range lists.token(t) {
			if bit := uint64(1) << (i % 64); seen[i/64]&bit == 0 {
				seen[i/64] |= bit
				n++
			}
		}
	}
	return n
}

func rowsBytes(w *compute.Matrix, n int64) int64 { return n * int64(mem(w).rowBytes) }

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

// bound returns what a gate must be above for its activation not to be zero; ok is false where no gate's is.
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

// gates fills hidden for the neurons of the sets, or for all.
func (f *sparseFFN) gates(x compute.Tensor) {
	w, bias, more := f.w.Gate, (*compute.Vector)(nil), f.w.Adapter.GateB != nil
	if w == nil {
		w, bias, more = f.w.Up, f.w.UpBias, f.w.Adapter.UpB != nil
	}
	if !f.all && f.tokens <= compute.FewTokens && !most(f.s.largest(f.tokens), f.n) {
		f.x = operand{}
		f.x.form(f.d, x, w)
		f.x.form(f.d, x, f.w.Up)
		f.d.pool.Run(sparseChunks, f.gateFn)
		return
	}
	f.gated = true
	added := f.moreGates
	if f.w.Gate == nil {
		added = f.moreUps
	}
	f.product(x, f.hidden, w, bias, more, added)
	f.x = f.d.mm.x // for ups of single rows
	f.x.form(f.d, x, f.w.Up)
}

// gate computes a part of every token's gates: rows that several tokens need are still in the cache for the next.
func (f *sparseFFN) gate(i, worker int) {
	w := f.d.worker(worker)
	for t := range f.tokens {
		list := f.s.token(t)
		list = list[len(list)*i/sparseChunks : len(list)*(i+1)/sparseChunks]
		out := grown(&w.floats, len(list))
		if f.w.Gate != nil {
			f.dots(out, f.w.Gate, f.gateBiases(t), t, list, w)
		} else {
			f.dots(out, f.w.Up, f.upBiases(t), t, list, w)
		}
		hidden := f.hidden[t*f.n:][:f.n]
		for i, n := range list {
			hidden[n] = out[i]
		}
	}
}

// choose lists a token's open neurons.
func (f *sparseFFN) choose(token, worker int) {
	gates := f.hidden[token*f.n:][:f.n]
	list := f.open.room(token)
	b, sparse := bound(f.w.Act)
	if f.w.Cut != nil && !sparse {
		b, sparse = 0, true // gates are cut to 0, and act(0) is 0
	}
	switch {
	case f.w.Act.Small():
		list = f.large(list, gates, token, f.d.worker(worker))
	case f.all && sparse:
		list = f.d.k.Choose(list, gates, 0, b, false)
	case f.all:
		for i := range gates {
			list = append(list, int32(i))
		}
	default:
		for _, i := range f.s.token(token) {
			if !sparse || !(gates[i] <= b) {
				list = append(list, i)
			}
		}
	}
	f.open.count[token] = len(list)
	f.counts[0].Add(int64(len(list)))
}

// large appends to list the neurons of the token's set whose activations are not taken as zero.
func (f *sparseFFN) large(list []int32, gates []float32, token int, w *workerScratch) []int32 {
	if f.all {
		a := grown(&w.floats, f.n)
		f.d.k.Activate(a, gates, nil, f.w.Act)
		for i, e := range a {
			if e != 0 {
				list = append(list, int32(i))
			}
		}
		return list
	}
	set := f.s.token(token)
	a := grown(&w.floats, len(set))
	for i, n := range set {
		a[i] = gates[n]
	}
	f.d.k.Activate(a, a, nil, f.w.Act)
	for i, e := range a {
		if e != 0 {
			list = append(list, set[i])
		}
	}
	return list
}

// ups fills up by one matrix product.
func (f *sparseFFN) ups(x compute.Tensor) {
	f.up = grown(&f.up, f.tokens*f.n)
	f.product(x, f.up, f.w.Up, f.w.UpBias, f.w.Adapter.UpB != nil, f.moreUps)
	f.upped = true
}

// product fills out with w's product of x and what is added to it: bias, or, where there is more, what adapt left in added. As in dots it is
// added to the whole product.
func (f *sparseFFN) product(x compute.Tensor, out []float32, w *compute.Matrix, bias *compute.Vector, more bool, added []float32) {
	y := f.view(&f.views[0], out)
	if !more {
		f.d.matMul(x, compute.Products{{Out: y, W: w, Bias: bias}})
		return
	}
	f.d.matMul(x, compute.Products{{Out: y, W: w}})
	f.d.add(y, f.view(&f.views[1], added))
}

// view returns a tensor over scratch: in a buffer of f's own, so that a call allocates nothing.
func (f *sparseFFN) view(b *buffer, data []float32) compute.Tensor {
	b.data = data
	return compute.Tensor{Rows: f.tokens, Cols: f.n, Mem: b}
}

// part is chunk i's part of token t's open neurons.
func (f *sparseFFN) part(t, i int) []int32 {
	list := f.open.token(t)
	size := chunkNeurons
	if f.pairs != nil {
		size = pairNeurons
	}
	chunks := min(sparseChunks, max(1, len(list)/size))
	if i >= chunks {
		return nil
	}
	return list[len(list)*i/chunks : len(list)*(i+1)/chunks]
}

// chunk computes and sums a part of the neurons of every row of one of f.runs.
func (f *sparseFFN) chunk(i, worker int) {
	w := f.d.worker(worker)
	run, i := i/sparseChunks, i%sparseChunks
	for r := int(f.runs[run]); r < int(f.runs[run+1]); r++ {
		t := int(f.rows[r])
		if list := f.part(t, i); len(list) > 0 || i == 0 {
			f.sumPart(t, list, f.sums[(r*sparseChunks+i)*f.sumLen:][:f.sumLen], w)
		}
	}
}

// sum adds one superblock of one of f.rows' chunks in their order.
func (f *sparseFFN) sum(i, _ int) {
	blocks := kernel.Super(f.out.Cols)
	r, s := i/blocks, i%blocks
	t, first := int(f.rows[r]), s*superblock
	total := f.sums[r*sparseChunks*f.sumLen+first:][:superblock]
	for c := 1; c < sparseChunks && len(f.part(t, c)) > 0; c++ {
		f.d.k.Add(total, f.sums[(r*sparseChunks+c)*f.sumLen+first:][:superblock])
	}
	f.finish(t, total, first)
}

// row computes all chunks of one of f.rows, one after the other.
func (f *sparseFFN) row(i, worker int) {
	t := int(f.rows[i])
	w := f.d.worker(worker)
	sums := grown(&w.sums, 2*f.sumLen)
	total, next := sums[:f.sumLen], sums[f.sumLen:]
	f.sumPart(t, f.part(t, 0), total, w)
	for c := 1; c < sparseChunks; c++ {
		list := f.part(t, c)
		if len(list) == 0 {
			break
		}
		f.sumPart(t, list, next, w)
		f.d.k.Add(total, next)
	}
	f.finish(t, total, 0)
}

// finish writes sums to row t's outputs from first on.
func (f *sparseFFN) finish(t int, total []float32, first int) {
	out := row(f.out, t)[first:min(f.out.Cols, first+len(total))]
	kernel.Ordered(f.w.Down.Type, out, total)
	if f.w.DownBias != nil {
		f.d.k.Add(out, f.downBiases(t)[first:][:len(out)])
	}
}

// downBiases returns the biases of row t's outputs, where there are some.
func (f *sparseFFN) downBiases(t int) []float32 {
	if f.pairs != nil {
		return f.pairs.downBiases(t)
	}
	return vector(f.w.DownBias)
}

// sumPart computes the listed open neurons of token t and writes the sum of their down columns.
func (f *sparseFFN) sumPart(t int, list []int32, sum []float32, w *workerScratch) {
	clear(sum)
	f.down(t, list, f.neurons(t, list, w), sum, w)
}

// neurons computes a_i of the listed open neurons of one token.
func (f *sparseFFN) neurons(t int, list []int32, w *workerScratch) []float32 {
	a := grown(&w.floats, 2*len(list))
	a, up := a[:len(list)], a[len(list):]
	if f.again {
		for i, n := range list {
			a[i] = f.kept[t*f.n+int(n)]
		}
		return a
	}
	hidden := f.hidden[t*f.n:][:f.n]
	for i, n := range list {
		a[i] = hidden[n]
	}
	switch {
	case f.w.Gate == nil:
		up = nil
	case f.hasUps(t):
		ups := f.up[t*f.n:][:f.n]
		for i, n := range list {
			up[i] = ups[n]
		}
	default:
		f.dots(up, f.w.Up, f.upBiases(t), t, list, w)
	}
	f.d.k.Activate(a, a, up, f.w.Act)
	f.countActive(t, list, a)
	if f.w.Adapter.DownA != nil {
		kept := f.kept[t*f.n:][:f.n]
		for i, n := range list {
			kept[n] = a[i]
		}
	}
	return a
}

// countActive notes which of row t's listed neurons, in ascending order, have an a_i that is not zero.
func (f *sparseFFN) countActive(t int, list []int32, a []float32) {
	active := f.activeOf(t)
	count, at, word := 0, int32(0), uint64(0)
	for i, n := range list {
		if a[i] == 0 {
			continue
		}
		if n/64 != at {
			atomic.OrUint64(&active[at], word)
			at, word = n/64, 0
		}
		word |= 1 << (n % 64)
		count++
	}
	atomic.OrUint64(&active[at], word)
	f.counts[1].Add(int64(count))
}

// dots computes rows of m, chosen by index, times row t's activations, plus biases, which may be nil. Of experts m is their up projections.
func (f *sparseFFN) dots(out []float32, m *compute.Matrix, biases []float32, t int, list []int32, w *workerScratch) {
	first, at := 0, t // row of m that the indices count from, row of the activations
	if f.pairs != nil {
		first, at = f.pairs.firstUp(t), f.pairs.input(t)
	}
	f.dotsOf(out, m, first, biases, t, at, list, w)
}

// dotsOf computes rows of m, chosen by their index from row first on, times row at of the activations, which is of row t, plus biases, which may be nil.
func (f *sparseFFN) dotsOf(out []float32, m *compute.Matrix, first int, biases []float32, t, at int, list []int32, w *workerScratch) {
	x, _ := f.x.of(m, at)
	data := mem(m).data[first*mem(m).rowBytes:]
	if mem(m).packed {
		f.d.k.DotRows(m.Type, out, data, list, m.Cols, x)
	} else {
		f.d.k.DotFileRows(m.Type, out, data, list, m.Cols, x, grown(&w.packed, kernel.RowBytes(m.Type, m.Cols)))
	}
	if f.pairs != nil && f.pairs.w.Before {
		f.d.k.Scale(out, out, f.pairs.weight(t))
	}
	if biases != nil {
		for i, n := range list {
			out[i] += biases[n]
		}
	}
}

// down adds a_i times the down column of every listed neuron to sum.
func (f *sparseFFN) down(t int, list []int32, a, sum []float32, w *workerScratch) {
	m, first := mem(f.w.Down), f.layer(t)*f.n
	if m.layout == groups {
		hidden, used := f.hidden[t*f.n:][:f.n], grown(&w.list, len(list))[:0]
		for i, n := range list {
			if hidden[n] = a[i]; a[i] != 0 {
				used = append(used, n)
			}
		}
		list = used
		w.groups.Begin(f.d.k, f.w.Down.Type, m.data[first/kernel.GroupNeurons*m.rowBytes:], f.out.Cols, sum)
		for len(list) > 0 {
			n := 1
			for n < len(list) && list[n]/kernel.GroupNeurons == list[0]/kernel.GroupNeurons {
				n++
			}
			w.groups.Add(list[:n], hidden, list[n:])
			list = list[n:]
		}
		return
	}
	w.sum.Begin(f.d.k, f.w.Down.Type, f.out.Cols, sum)
	for i, n := range list {
		if a[i] != 0 {
			w.sum.Add(f.downRow(first+int(n), w), a[i])
		}
	}
	w.sum.Finish()
}

// downRow is row n of down in the kernels' layout. A sum holds rows back, so that rows packed on the fly take turns.
func (f *sparseFFN) downRow(n int, w *workerScratch) []byte {
	m := mem(f.w.Down)
	if m.packed {
		return m.data[n*m.rowBytes:][:m.rowBytes]
	}
	w.turn = (w.turn + 1) % len(w.rows)
	return f.d.packedRow(f.w.Down, n, &w.rows[w.turn])
}

// multiply takes the down projection as the plain matrix that it is.
func (f *sparseFFN) multiply() {
	f.dense = f.dense[:0]
	for t := range f.tokens {
		f.dense = append(f.dense, int32(t))
	}
	f.d.matMul(f.spreadDense(), compute.Products{{Out: f.out, W: f.w.Down, Bias: f.w.DownBias}})
}

// token returns the token that row t is of.
func (f *sparseFFN) token(t int) int {
	if f.pairs != nil {
		return f.pairs.token(t)
	}
	return t
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

// spreadDense is a_i of all neurons, zero for those that are not open, of f.dense. [len(f.dense), n_ff]
func (f *sparseFFN) spreadDense() compute.Tensor {
	f.a = grown(&f.a, len(f.dense)*f.n)
	f.d.pool.Run(len(f.dense), f.spreadFn)
	a := f.view(&f.views[0], f.a)
	return a.First(len(f.dense))
}

func (f *sparseFFN) spread(i, worker int) {
	t, w := int(f.dense[i]), f.d.worker(worker)
	list := f.open.token(t)
	to := f.a[i*f.n:][:f.n]
	clear(to)
	for i, v := range f.neurons(t, list, w) {
		to[list[i]] = v
	}
}
