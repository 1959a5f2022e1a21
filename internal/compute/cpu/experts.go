package cpu

import (
	"cmp"
	"slices"
	"unsafe"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/compute/cpu/kernel"
)

// sumRoom bounds the floats of a chunk's outputs. They stay in the second-level cache while every expert's products are
// added to them. Each chunk reads all activations again: with half of this room, prompts on two threads took 3 %
// longer.
const sumRoom = 128 << 10

// experts is the state of one Experts. Pairs of a token and one of its experts are sorted by expert, so that an
// expert's rows are read once for all its tokens; an output's sum is over a token's experts in the order of their
// numbers, whatever else is in the step. Methods that run on the pool are values made once, so that a call allocates
// nothing.
type experts struct {
	d                        *Device
	gatherFn, openFn, downFn func(chunk, worker int)

	w       compute.ExpertWeights
	out     compute.Tensor
	choice  *choice
	tokens  int
	single  int       // the first tokens, which are of running sequences
	used    int       // experts of a token
	all     int       // experts of the layer
	n       int       // experts that the matrices hold; first and present count them by their place there
	ff      int       // neurons of an expert
	pairs   int       // pairs of a token and an expert that has weights here
	apart   []float32 // [tokens·used, n_embd] outputs of pairs, if sums wait for all of them; nil: they do not
	left    []bool    // [tokens·used] pairs that add nothing, whatever their experts; empty: none
	more    bool      // outputs are added to those of the step's experts with lower numbers
	first   []int32   // [n+1] the first place of each expert's pairs
	present []int32   // places, among the matrices' experts, of those with pairs, in the order of the experts' numbers
	pair    []int32   // [pairs] the pair at each place
	prompts []tileRun // [present] the pairs of prompts' tokens
	source  []int32   // [pairs] the token at each place
	order   []int32   // scratch: a token's experts in the order of their numbers
	given   []float32 // apart's memory
	leaves  []bool    // left's memory

	x        operand                // activations of tokens, or of pairs if there are several tokens
	gathered [kernel.Forms][]byte   // x of pairs
	sources  [kernel.Forms]gathered // where it comes from
	hidden   []float32              // [pairs, ff] a_k
	view     buffer
	h        operand // hidden
	openRows int     // neurons of a chunk
	openIn   int     // chunks of an expert's neurons
	downRows int     // outputs of a chunk
	exact    exactExperts
	disk     onDisk
}

// gathered locates a step's activations in one form; rows of pairs are copied from there.
type gathered struct {
	from   unsafe.Pointer // nil where the form is not in use
	stride int            // bytes
}

func (f *experts) init(d *Device) {
	f.d = d
	f.gatherFn, f.openFn, f.downFn = f.gather, f.open, f.down
	f.initExact()
}

// Experts computes the chosen experts' layers. One parallel phase computes the neurons of all of them, another
// their down projections with the weighted sum.
func (d *Device) Experts(o *compute.Experts) {
	x, c, w := o.X, o.Choice, o.Weights
	if !w.Fits(o.Out, x, c) {
		panic("cpu: Experts of shapes that do not fit: " + w.Down.Name)
	}
	if x.Rows == 0 {
		return
	}
	f := &d.experts
	f.w, f.out, f.choice = w, o.Out, c.Mem.(*choice)
	f.single = d.single(x)
	f.tokens, f.used, f.all, f.n, f.ff, f.more, f.apart = x.Rows, c.Used, c.N, w.Holds(c.N), w.Neurons(c.N), false, nil
	f.leave(w.Skip, mem(w.Up).disk != nil)
	if p := mem(w.Up).disk; p != nil {
		f.computeOnDisk(x, p.bundle)
		return
	}
	f.compute(x)
}

// leave lists the pairs that may be left out.
func (f *experts) leave(s compute.Skip, disk bool) {
	f.left = f.left[:0]
	if s.After == 0 || !s.Always && (!disk || f.tokens > compute.FewTokens) {
		return
	}
	f.left = grown(&f.leaves, f.tokens*f.used)
	for t := range f.tokens {
		s.Leaves(f.choice.weights[t*f.used:][:f.used], f.left[t*f.used:][:f.used])
	}
}

// isLeft reports whether a pair is left out.
func (f *experts) isLeft(pair int) bool { return len(f.left) > 0 && f.left[pair] }

// compute computes the experts that the matrices hold.
func (f *experts) compute(x compute.Tensor) {
	f.sort()
	if f.pairs == 0 {
		f.none()
		return
	}
	if f.d.k.HasMatrix() {
		f.listPrompts()
	}
	if f.w.FC1 != nil {
		f.predict(x)
	}
	f.take(x, f.w.Up, f.w.Gate)
	f.hidden = grown(&f.hidden, f.pairs*f.ff)
	f.openChunks()
	if f.w.Exact {
		f.computeExact()
		return
	}
	f.d.pool.Run(len(f.present)*f.openIn, f.openFn)
	f.projectDown()
	f.count()
}

// projectDown computes the down projections of hidden and each token's sum.
func (f *experts) projectDown() {
	d := f.d
	f.h = operand{}
	f.view.data = f.hidden
	f.form(&f.h, compute.Tensor{Rows: f.pairs, Cols: f.ff, Mem: &f.view}, f.w.Down, nil)
	f.downChunks()
	d.pool.Run((f.out.Cols+f.downRows-1)/f.downRows, f.downFn)
}

// sort sorts the step's pairs by expert, and each expert's pairs by token.
func (f *experts) sort() {
	first := grown(&f.first, f.n+1)
	clear(first)
	chosen := f.choice.experts[:f.tokens*f.used]
	f.pairs = 0
	for i, e := range chosen {
		if at := f.w.At(int(e)); at != compute.Absent && !f.isLeft(i) {
			first[at+1]++
			f.pairs++
		}
	}
	present := grown(&f.present, f.n)[:0]
	for e := range f.n {
		if first[e+1] > 0 {
			present = append(present, int32(e))
		}
		first[e+1] += first[e]
	}
	f.present = present
	pair := grown(&f.pair, f.pairs)
	for i, e := range chosen {
		at := f.w.At(int(e))
		if at == compute.Absent || f.isLeft(i) {
			continue
		}
		pair[first[at]] = int32(i)
		first[at]++ // for now: the next free place
	}
	copy(first[1:], first[:f.n])
	first[0] = 0
	if f.w.Table != nil { // the order of sums does not depend on places
		slices.SortFunc(present, func(a, b int32) int { return f.number(int(a)) - f.number(int(b)) })
	}
}

// take converts the step's activations x to the forms of m and of more, which may be nil. Then it sorts the rows of
// several tokens by expert, except in tiles, which are made in that order.
func (f *experts) take(x compute.Tensor, m, more *compute.Matrix) {
	d := f.d
	f.x = operand{}
	f.form(&f.x, x, m, f.source)
	if more != nil {
		f.form(&f.x, x, more, f.source)
	}
	if f.tokens == 1 {
		return
	}
	for i, at := range f.x.at {
		if kernel.Form(i).Tiled() {
			continue
		}
		f.sources[i] = gathered{at, f.x.stride[i]}
		if at == nil {
			continue
		}
		size := f.pairs * f.x.stride[i]
		to := grown(&f.gathered[i], size+cacheLine)
		f.x.at[i] = unsafe.Pointer(unsafe.SliceData(to[aligned(to):][:size]))
	}
	d.pool.Run((f.pairs+gatherPairs-1)/gatherPairs, f.gatherFn)
}

// gatherPairs is the number of rows that a worker copies at a time.
const gatherPairs = 32

func (f *experts) gather(chunk, _ int) {
	for p := chunk * gatherPairs; p < min(f.pairs, (chunk+1)*gatherPairs); p++ {
		t := int(f.pair[p]) / f.used
		for i, s := range f.sources {
			if s.from != nil {
				copy(unsafe.Slice((*byte)(unsafe.Add(f.x.at[i], p*s.stride)), s.stride), unsafe.Slice((*byte)(unsafe.Add(s.from, t*s.stride)), s.stride))
			}
		}
	}
}

// openChunks decides how experts' neurons are cut into chunks.
func (f *experts) openChunks() {
	rowBytes := kernel.RowBytes(f.w.Up.Type, f.w.Up.Cols)
	if g, _ := f.w.Gates(); g != nil {
		rowBytes += kernel.RowBytes(g.Type, g.Cols)
	}
	if f.byTiles(f.w.Up) {
		f.openRows, f.openIn = evenly(f.ff, tiledRows(f.ff*len(f.present), f.d.pool.Threads()), kernel.PromptRows)
		return
	}
	f.openRows, f.openIn = f.chunks(f.ff, rowBytes)
}

// chunks returns how n rows of each present expert are cut: the rows of a chunk, in whole tiles, and the number of
// chunks.
func (f *experts) chunks(n, rowBytes int) (rows, chunks int) {
	return evenly(n, min(n, chunkRows(n*len(f.present), rowBytes, f.tokens, f.d.pool.Threads())), tileRows)
}

// evenly returns how n rows are cut into chunks of about equal length: a multiple of unit, and hardly more than most.
func evenly(n, most, unit int) (rows, chunks int) {
	chunks = (n + most - 1) / most
	rows = ((n+chunks-1)/chunks + unit - 1) / unit * unit
	return rows, (n + rows - 1) / rows
}

// number returns the number of the expert at a place that is present.
func (f *experts) number(at int) int { return int(f.choice.experts[f.pair[f.first[at]]]) }

// open computes some neurons of one expert for all its tokens.
func (f *experts) open(chunk, worker int) {
	present := chunk / f.openIn
	e := int(f.present[present])
	r := chunk % f.openIn * f.openRows
	rows := min(f.openRows, f.ff-r)
	p, end := f.places(present)
	hidden := f.hidden[p*f.ff+r:]
	gate, gateBias := f.w.Gates()
	firstGate, firstUp := f.w.First(e, f.ff)
	next := f.nextOpen(chunk)
	upBias := f.biases(f.w.UpBias, f.w.Up, e, firstUp+r)
	up := f.d.worker(worker).floats[:0]
	if gate == nil {
		f.rows(next, hidden, f.ff, f.w.Up, upBias, firstUp+r, rows, present, worker)
	} else {
		f.rows(kernel.Next{Weights: rowsOf(f.w.Up, firstUp+r, rows)}, hidden, f.ff, gate, f.biases(gateBias, gate, e, firstGate+r), firstGate+r, rows, present, worker)
		up = grown(&f.d.worker(worker).floats, (end-p)*rows)
		f.rows(next, up, rows, f.w.Up, upBias, firstUp+r, rows, present, worker)
	}
	for i := range end - p {
		a := hidden[i*f.ff:][:rows]
		if gate == nil {
			f.d.k.Activate(a, a, nil, f.w.Act)
		} else {
			f.d.k.Activate(a, a, up[i*rows:][:rows], f.w.Act)
		}
		f.w.Active.Add(f.number(e), f.ff, r, a) // no other chunk has these neurons
	}
}

// biases returns the elements of v, which is as long as m has rows for all experts, for rows of m from row r on, which
// are of the expert at place e; nil for a nil v.
func (f *experts) biases(v *compute.Vector, m *compute.Matrix, e, r int) []float32 {
	if v == nil {
		return nil
	}
	return vector(v)[(f.number(e)-e)*(m.Rows/f.n)+r:]
}

// nextOpen returns the memory that a worker most likely reads after a chunk: workers take chunks in turn.
func (f *experts) nextOpen(chunk int) (next kernel.Next) {
	last := chunk / f.openIn
	chunk += f.d.pool.Active()
	at := chunk / f.openIn
	if at >= len(f.present) {
		return next
	}
	e := int(f.present[at])
	m, _ := f.w.Gates()
	r, up := f.w.First(e, f.ff)
	if m == nil {
		m, r = f.w.Up, up
	}
	from := chunk % f.openIn * f.openRows
	next.Weights = rowsOf(m, r+from, min(f.openRows, f.ff-from))
	if at != last && f.tokens > 1 {
		next.Acts = f.pairActs(&f.x, m, at)
	}
	return next
}

// pairActs returns the activations in o of the i-th present expert's pairs, for products with m; nil if they are in tiles.
func (f *experts) pairActs(o *operand, m *compute.Matrix, i int) []byte {
	if f.byTiles(m) {
		return nil
	}
	p, end := f.places(i)
	x, stride := o.of(m, p)
	return unsafe.Slice((*byte)(x), (end-p)*stride)
}

// rowsOf returns n rows of m, from r on, as they are in memory.
func rowsOf(m *compute.Matrix, r, n int) []byte {
	w := mem(m)
	return w.data[r*w.rowBytes : (r+n)*w.rowBytes]
}

// rows computes rows of m from row r on for the pairs of the i-th present expert. It adds the bias, and applies the
// pairs' weights if they come first. next is the memory to prefetch.
func (f *experts) rows(next kernel.Next, out []float32, outStride int, m *compute.Matrix, bias []float32, r, rows, i, worker int) {
	f.multiply(next, out, outStride, m, r, rows, &f.x, i, worker)
	p, end := f.places(i)
	for j, pair := range f.pair[p:end] {
		y := out[j*outStride:][:rows]
		if f.w.Before {
			f.d.k.Scale(y, y, f.choice.weights[pair])
		}
		if bias != nil {
			f.d.k.Add(y, bias[:rows])
		}
	}
}

// downChunks decides how outputs are cut into chunks.
func (f *experts) downChunks() {
	threads := f.d.pool.Threads()
	if f.tokens == 1 {
		f.downRows = chunkRows(f.out.Cols, len(f.present)*kernel.RowBytes(f.w.Down.Type, f.ff), 1, threads)
		return
	}
	if f.byTiles(f.w.Down) {
		most := max(kernel.PromptRows, sumRoom/f.tokens/kernel.PromptRows*kernel.PromptRows)
		f.downRows = min(most, tiledRows(f.out.Cols, threads))
		return
	}
	n := max(4*tileRows, min(sumRoom/f.tokens, f.out.Cols/(4*threads))) // an expert's rows are few bytes
	chunks := ((f.out.Cols+n-1)/n + threads - 1) / threads * threads    // as many for each thread, and equally long
	f.downRows = ((f.out.Cols+chunks-1)/chunks + tileRows - 1) / tileRows * tileRows
}

// down computes some outputs of all tokens: the products of one expert after the other, which are added up.
func (f *experts) down(chunk, worker int) {
	r := chunk * f.downRows
	rows := min(f.downRows, f.out.Cols-r)
	if !f.more && f.apart == nil {
		for t := range f.tokens {
			clear(row(f.out, t)[r:][:rows])
		}
	}
	for i, e := range f.present {
		from := int(e)*f.out.Cols + r
		var next kernel.Next
		if i+1 < len(f.present) {
			next = kernel.Next{Weights: rowsOf(f.w.Down, int(f.present[i+1])*f.out.Cols+r, rows), Acts: f.pairActs(&f.h, f.w.Down, i+1)}
		}
		p, end := f.places(i)
		y := grown(&f.d.worker(worker).floats, (end-p)*rows)
		f.multiply(next, y, rows, f.w.Down, from, rows, &f.h, i, worker)
		if bias := f.biases(f.w.DownBias, f.w.Down, int(e), from); bias != nil {
			f.d.k.AddBias(y, bias[:rows])
		}
		for i, pair := range f.pair[p:end] {
			f.give(int(pair), r, y[i*rows:][:rows])
		}
	}
}

// give adds y, the output of a pair's expert, to the token's outputs from r on, or stores it separately.
func (f *experts) give(pair, r int, y []float32) {
	if f.apart != nil {
		copy(f.apart[pair*f.out.Cols+r:], y)
		return
	}
	f.d.k.AddScaled(row(f.out, pair/f.used)[r:][:len(y)], y, f.share(pair))
}

// share returns the factor of a pair's output.
func (f *experts) share(pair int) float32 {
	if f.w.Before {
		return 1
	}
	return f.choice.weights[pair]
}

// sumApart sums each token's outputs of its experts, in the order of the experts' numbers.
func (f *experts) sumApart() {
	order := grown(&f.order, f.used)
	for t := range f.tokens {
		of := f.choice.experts[t*f.used:][:f.used]
		for k := range order {
			order[k] = int32(k)
		}
		slices.SortFunc(order, func(a, b int32) int { return cmp.Or(cmp.Compare(of[a], of[b]), cmp.Compare(a, b)) })
		sum := row(f.out, t)
		clear(sum)
		for _, k := range order {
			if pair := t*f.used + int(k); f.w.At(int(of[k])) != compute.Absent && !f.isLeft(pair) {
				f.d.k.AddScaled(sum, f.apart[pair*f.out.Cols:][:f.out.Cols], f.share(pair))
			}
		}
	}
}

// none ends a step in which no chosen expert is held: its sums are zero.
func (f *experts) none() {
	if !f.more && f.apart == nil {
		for t := range f.tokens {
			clear(row(f.out, t))
		}
	}
	f.count()
}

// count adds the step to the layer's counts.
func (f *experts) count() {
	if b := f.w.Bins; b != nil && b.On && !f.more {
		b.Outputs = f.out.Outputs
		b.Add(0, f.choice.experts[:f.tokens*f.used])
	}
	c := f.w.Count
	if c == nil {
		return
	}
	neurons := int64(f.pairs) * int64(f.ff)
	gated, active, read := neurons, neurons, int64(0)
	if f.pairs > 0 {
		if f.w.Exact {
			neurons = f.exact.f.predicted()
			gated, active, read = f.exactCounts()
		} else {
			read = f.bytes()
		}
	}
	if !f.more {
		c.Steps++
		c.Tokens += int64(f.tokens)
	}
	c.Predicted += neurons
	c.PredictedRAM += neurons
	c.Gated += gated
	c.Active += active
	c.ActiveRAM += active
	c.Bytes += read
	c.RAM += read
}

// bytes returns the bytes of the step's experts, all of which are read.
func (f *experts) bytes() int64 {
	read := rowsBytes(f.w.Up, int64(len(f.present)*f.w.Up.Rows/f.n)) + rowsBytes(f.w.Down, int64(len(f.present)*f.out.Cols))
	if f.w.Gate != nil {
		read += rowsBytes(f.w.Gate, int64(len(f.present)*f.ff))
	}
	return read
}
