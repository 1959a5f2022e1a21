package cpu

import (
	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/compute/cpu/kernel"
)

// exactExperts is the state of an Experts that leaves out neurons that are zero. It first computes the gates, in
// ungated layers the ups, and then only what open neurons need. It is a sparseFFN with one row for each pair of a token
// and an expert, sorted by expert. Each row has its expert's part of the weights.
type exactExperts struct {
	gatesFn, upsFn, sumFn func(chunk, worker int)

	predicted predictedExperts
	f         sparseFFN
	run       []int32   // [pairs] the place of each pair's expert in present
	whole     []int32   // places in present of the experts with all gates computed
	dense     []int32   // places in present of the experts with all ups computed
	upped     []bool    // [present] whether all ups are computed
	alone     []int32   // pairs that are summed one by one
	words     int       // words of an expert's bits in f.active
	out       []float32 // [pairs, n_embd]
	view      buffer    // out
}

func (f *experts) initExact() {
	x := &f.exact
	x.gatesFn, x.upsFn, x.sumFn = f.gates, f.ups, f.sumExact
	x.f.init(f.d)
	x.f.pairs = f
	f.initPredicted()
}

// computeExact computes the step's pairs. Their hidden activations and chunks of neurons are there already.
func (f *experts) computeExact() {
	x, s := &f.exact, &f.exact.f
	f.beginExact()
	f.chooseGates()
	f.d.pool.Run(len(x.whole)*f.openIn, x.gatesFn)
	f.d.pool.Run(len(x.predicted.picked)*sparseChunks, x.predicted.gatesFn)
	f.d.pool.Run(f.pairs, s.openFn)
	f.chooseUps()
	f.d.pool.Run(len(x.dense)*f.openIn, x.upsFn)
	if mem(f.w.Down).layout == plain {
		f.spreadHidden()
		f.projectDown()
	} else {
		s.sort()
		s.sumScattered()
		if len(s.dense) > 0 {
			s.multiplyPanels()
		}
		f.d.pool.Run(kernel.Super(f.out.Cols), x.sumFn)
	}
	f.count()
}

// beginExact makes rows of the pairs.
func (f *experts) beginExact() {
	x, s := &f.exact, &f.exact.f
	run := grown(&x.run, f.pairs)
	for i, e := range f.present {
		for p := f.first[e]; p < f.first[e+1]; p++ {
			run[p] = int32(i)
		}
	}
	gate, _ := f.w.Gates()
	w := compute.SparseWeights{Gate: gate, Up: f.w.Up, Down: f.w.Down, UpBias: f.w.UpBias, DownBias: f.w.DownBias, Act: f.w.Act}
	s.x, s.hidden = f.x, f.hidden
	x.view.data = grown(&x.out, f.pairs*f.out.Cols)
	s.beginRows(compute.Tensor{Rows: f.pairs, Cols: f.out.Cols, Mem: &x.view}, f.pairs, f.ff, w)
	s.all = f.w.FC1 == nil
	x.words = (f.ff + 63) / 64
	clear(grown(&s.active, len(f.present)*x.words))
}

// gates computes some gates of one expert, in ungated layers ups, for all its tokens.
func (f *experts) gates(chunk, worker int) {
	i := int(f.exact.whole[chunk/f.openIn])
	e, r, rows := f.piece(f.present[i], chunk)
	m, bias, first := f.opening(e)
	p, _ := f.places(i)
	var next kernel.Next
	if f.w.FC1 == nil { // all present experts go the same way
		next = f.nextOpen(chunk)
	}
	f.rows(next, f.hidden[p*f.ff+r:], f.ff, m, f.biases(bias, m, e, first+r), first+r, rows, i, worker)
}

// opening returns the matrix that decides which neurons are zero, its biases, and the first row of the expert at place
// e in it.
func (f *experts) opening(e int) (m *compute.Matrix, bias *compute.Vector, first int) {
	first, up := f.w.First(e, f.ff)
	if m, bias = f.w.Gates(); m == nil {
		return f.w.Up, f.w.UpBias, up
	}
	return m, bias, first
}

// piece returns which neurons a chunk has of the expert at a place.
func (f *experts) piece(at int32, chunk int) (e, r, rows int) {
	r = chunk % f.openIn * f.openRows
	return int(at), r, min(f.openRows, f.ff-r)
}

// chooseUps lists the experts that compute all of their ups: experts with many tokens, because their lists together
// have most neurons, and experts with a token that needs most neurons.
func (f *experts) chooseUps() {
	x := &f.exact
	x.dense = x.dense[:0]
	clear(grown(&x.upped, len(f.present)))
	if g, _ := f.w.Gates(); g == nil {
		return
	}
	for i, e := range f.present {
		p, end := int(f.first[e]), int(f.first[e+1])
		largest := 0
		for _, n := range x.f.open.count[p:end] {
			largest = max(largest, n)
		}
		if x.upped[i] = end-p > compute.FewTokens || most(largest, f.ff); x.upped[i] {
			x.dense = append(x.dense, int32(i))
		}
	}
	if len(x.dense) > 0 {
		grown(&x.f.up, f.pairs*f.ff)
	}
}

// ups computes some ups of one expert for all its tokens.
func (f *experts) ups(chunk, worker int) {
	i := int(f.exact.dense[chunk/f.openIn])
	e, r, rows := f.piece(f.present[i], chunk)
	_, first := f.w.First(e, f.ff)
	p, _ := f.places(i)
	f.rows(kernel.Next{}, f.exact.f.up[p*f.ff+r:], f.ff, f.w.Up, f.biases(f.w.UpBias, f.w.Up, e, first+r), first+r, rows, i, worker)
}

// spreadHidden sets hidden to all neurons of every pair, with zeros for those that are left out.
func (f *experts) spreadHidden() {
	s := &f.exact.f
	s.dense = s.dense[:0]
	for p := range f.pairs {
		s.dense = append(s.dense, int32(p))
	}
	s.spreadDense()
	f.hidden, s.a = s.a, f.hidden
}

// fewPairs returns the scattered pairs to sum a few tokens at a time, and how many are summed together. It sums the
// others itself.
func (f *experts) fewPairs() (few []int32, most int) {
	s := &f.exact.f
	few, most = s.scattered, compute.FewTokens*f.used
	if f.tokens <= compute.FewTokens {
		return few, most
	}
	n, alone, single := 0, f.exact.alone[:0], f.d.single(f.out)
	for _, p := range s.scattered {
		if f.token(int(p)) < single {
			few[n] = p
			n++
		} else {
			alone = append(alone, p)
		}
	}
	f.exact.alone, s.rows = alone, alone
	f.d.pool.Run(len(s.rows), s.rowFn)
	return few[:n], most
}

// sumExact adds up a superblock of outputs: one expert after the other, as down does.
func (f *experts) sumExact(block, _ int) {
	r := block * superblock
	rows := min(superblock, f.out.Cols-r)
	if !f.more && f.apart == nil {
		for t := range f.tokens {
			clear(row(f.out, t)[r:][:rows])
		}
	}
	for _, e := range f.present {
		for p := int(f.first[e]); p < int(f.first[e+1]); p++ {
			f.give(int(f.pair[p]), r, f.exact.out[p*f.out.Cols+r:][:rows])
		}
	}
}

// A pair's data for a sparseFFN, by its place. at is its expert's place among those that the matrices hold.

func (f *experts) token(p int) int         { return int(f.pair[p]) / f.used }
func (f *experts) at(p int) int            { return int(f.present[f.exact.run[p]]) }
func (f *experts) weight(p int) float32    { return f.choice.weights[f.pair[p]] }
func (f *experts) hasUps(p int) bool       { return f.exact.upped[f.exact.run[p]] }
func (f *experts) activeOf(p int) []uint64 { return f.activeAt(int(f.exact.run[p])) }

// upBiases returns the elements of the ups' biases for the pair's expert; nil if there are none.
func (f *experts) upBiases(p int) []float32 {
	return f.biases(f.w.UpBias, f.w.Up, f.at(p), f.firstUp(p))
}

// downBiases returns the elements of the down projection's biases for the pair's expert.
func (f *experts) downBiases(p int) []float32 {
	return f.biases(f.w.DownBias, f.w.Down, f.at(p), f.at(p)*f.out.Cols)
}

// firstUp returns the first up row of the pair's expert.
func (f *experts) firstUp(p int) int {
	_, first := f.w.First(f.at(p), f.ff)
	return first
}

// input returns the row of the activations that the pair reads.
func (f *experts) input(p int) int {
	if f.tokens == 1 {
		return 0
	}
	return p
}

// activeAt returns the bits of the i-th present expert's neurons that were not zero for some token.
func (f *experts) activeAt(i int) []uint64 { return f.exact.f.active[i*f.exact.words:][:f.exact.words] }

// exactCounts returns the open and the active neurons of the step, and the bytes read for them.
func (f *experts) exactCounts() (gated, active, read int64) {
	s := &f.exact.f
	gate, _ := f.w.Gates()
	down := mem(f.w.Down)
	for i, e := range f.present {
		first, end := int(f.first[e]), int(f.first[e+1])
		m, _, _ := f.opening(int(e))
		if f.exact.predicted.picks(i) {
			read += rowsBytes(m, s.unionOf(s.s, first, end))
		} else {
			read += rowsBytes(m, int64(f.ff))
		}
		switch {
		case gate == nil:
		case f.exact.upped[i]:
			read += rowsBytes(f.w.Up, int64(f.ff))
		default:
			read += rowsBytes(f.w.Up, s.unionOf(s.open, first, end))
		}
		if f.w.FC1 != nil {
			read += rowsBytes(f.w.FC1, int64(f.w.FC2.Cols)) + rowsBytes(f.w.FC2, int64(f.ff))
		}
		switch {
		case down.layout == plain:
			read += rowsBytes(f.w.Down, int64(f.out.Cols))
		case f.exact.panels(i):
			read += int64(len(down.data) / f.n)
		default:
			read += s.columnBytes(f.activeAt(i))
		}
	}
	return s.counts[0].Load(), s.counts[1].Load(), read
}

// panels reports whether some pair of the i-th present expert went through panels.
func (x *exactExperts) panels(i int) bool {
	for _, p := range x.f.dense {
		if int(x.run[p]) == i {
			return true
		}
	}
	return false
}
