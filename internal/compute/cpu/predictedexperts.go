package cpu

import (
	"slices"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/compute/cpu/kernel"
)

// predictedExperts is the state of an Experts that computes the neurons which predictors choose. It first computes the
// predictors of all present experts, each for its tokens, then the gates of the chosen neurons.
type predictedExperts struct {
	hiddenFn, logitsFn, listFn, gatesFn func(chunk, worker int)

	set        *set      // neurons of each pair
	rank       int       // rank of the predictors
	hidden     []float32 // [pairs, rank]
	logits     []float32 // [pairs, ff]
	view       buffer    // hidden
	rows, in   int       // rows of a chunk of FC1, and the number of chunks of an expert
	rows2, in2 int       // the same for FC2
	picked     []int32   // places in present of the experts with only the chosen gates computed, in order
}

func (f *experts) initPredicted() {
	y := &f.exact.predicted
	y.hiddenFn, y.logitsFn, y.listFn, y.gatesFn = f.predictHidden, f.predictLogits, f.listChosen, f.gatesChosen
}

// predict chooses each pair's neurons by its expert's predictor of x.
func (f *experts) predict(x compute.Tensor) {
	y, w := &f.exact.predicted, &f.w
	y.rank = w.FC2.Cols
	y.hidden, y.logits = grown(&y.hidden, f.pairs*y.rank), grown(&y.logits, f.pairs*f.ff)
	if y.set == nil || y.set.stride < f.ff+kernel.ChooseSlack || len(y.set.count) < f.pairs {
		y.set = newSet(f.pairs, f.ff)
	}
	f.take(x, w.FC1, nil)
	y.rows, y.in = f.chunks(y.rank, kernel.RowBytes(w.FC1.Type, w.FC1.Cols))
	f.d.pool.Run(len(f.present)*y.in, y.hiddenFn)
	f.h = operand{}
	y.view.data = y.hidden
	f.h.form(f.d, compute.Tensor{Rows: f.pairs, Cols: y.rank, Mem: &y.view}, w.FC2)
	y.rows2, y.in2 = f.chunks(f.ff, kernel.RowBytes(w.FC2.Type, y.rank))
	f.d.pool.Run(len(f.present)*y.in2, y.logitsFn)
	f.d.pool.Run(f.pairs, y.listFn)
	f.exact.f.s = y.set
}

// predictHidden computes some rows of the first matrix of an expert's predictor for all its tokens.
func (f *experts) predictHidden(chunk, worker int) {
	y := &f.exact.predicted
	e, r := int(f.present[chunk/y.in]), chunk%y.in*y.rows
	rows := min(y.rows, y.rank-r)
	p, end := int(f.first[e]), int(f.first[e+1])
	at := p
	if f.tokens == 1 {
		at = 0
	}
	x, stride := f.x.of(f.w.FC1, at)
	if f.tokens == 1 {
		stride = 0 // the token's experts read the same
	}
	out := y.hidden[p*y.rank+r:]
	f.d.multiplyRows(kernel.Next{}, f.w.FC1, out, y.rank, e*y.rank+r, rows, x, stride, end-p, worker)
	for i := range end - p {
		h := out[i*y.rank:][:rows]
		f.d.k.Activate(h, h, nil, compute.Activation{Kind: compute.ReLU})
	}
}

// predictLogits computes the logits of some neurons of an expert for all its tokens.
func (f *experts) predictLogits(chunk, worker int) {
	y := &f.exact.predicted
	e, r := int(f.present[chunk/y.in2]), chunk%y.in2*y.rows2
	p, end := int(f.first[e]), int(f.first[e+1])
	x, stride := f.h.of(f.w.FC2, p)
	f.d.multiplyRows(kernel.Next{}, f.w.FC2, y.logits[p*f.ff+r:], f.ff, e*f.ff+r, min(y.rows2, f.ff-r), x, stride, end-p, worker)
}

// listChosen lists the neurons of a pair with logits that reach the threshold.
func (f *experts) listChosen(pair, _ int) {
	y := &f.exact.predicted
	y.set.count[pair] = len(f.d.k.Choose(y.set.room(pair), y.logits[pair*f.ff:][:f.ff], 0, f.d.p.Threshold, true))
}

// chooseGates separates the experts with all gates computed (ups, in ungated layers) from those with only the chosen
// ones computed. The latter have few tokens, and predictors that choose few neurons.
func (f *experts) chooseGates() {
	x := &f.exact
	y := &x.predicted
	x.whole, y.picked = x.whole[:0], y.picked[:0]
	for i, e := range f.present {
		p, end := int(f.first[e]), int(f.first[e+1])
		if f.w.FC1 == nil || end-p > compute.FewTokens || most(slices.Max(y.set.count[p:end]), f.ff) {
			x.whole = append(x.whole, int32(i))
		} else {
			y.picked = append(y.picked, int32(i))
		}
	}
}

// picks reports whether only chosen gates of the i-th present expert were computed.
func (y *predictedExperts) picks(i int) bool {
	_, ok := slices.BinarySearch(y.picked, int32(i))
	return ok
}

// gatesChosen computes a part of the chosen gates of one expert, in ungated layers ups, for all its tokens: rows that
// several need are still in the cache for the next.
func (f *experts) gatesChosen(chunk, worker int) {
	y, s := &f.exact.predicted, &f.exact.f
	w := f.d.worker(worker)
	e, part := int(f.present[y.picked[chunk/sparseChunks]]), chunk%sparseChunks
	m, bias, first := f.opening(e)
	b := f.biases(bias, m, e, first)
	for p := int(f.first[e]); p < int(f.first[e+1]); p++ {
		list := y.set.token(p)
		list = list[len(list)*part/sparseChunks : len(list)*(part+1)/sparseChunks]
		out := grown(&w.floats, len(list))
		s.dotsOf(out, m, first, b, p, f.input(p), list, w)
		hidden := f.hidden[p*f.ff:][:f.ff]
		for i, n := range list {
			hidden[n] = out[i]
		}
	}
}
