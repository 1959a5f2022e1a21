package cpu

import (
	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/compute/cpu/kernel"
)

// adapt computes the adapters' parts of gates and ups, for all neurons: their ranks are small.
func (f *sparseFFN) adapt() {
	a := &f.w.Adapter
	if a.GateB != nil {
		f.moreGates = grown(&f.moreGates, f.tokens*f.n)
		f.d.parts.MatMul(a.GateLow, compute.Products{{Out: f.view(&f.views[0], f.moreGates), W: a.GateB}})
	}
	if a.UpB != nil {
		f.moreUps = grown(&f.moreUps, f.tokens*f.n)
		f.d.parts.MatMul(a.UpLow, compute.Products{{Out: f.view(&f.views[0], f.moreUps), W: a.UpB, Bias: f.w.UpBias}})
	}
	if a.DownA != nil {
		f.kept = grown(&f.kept, f.tokens*f.n)
	}
}

// gateBiases returns the biases to add to the products of row t's gates, or nil.
func (f *sparseFFN) gateBiases(t int) []float32 {
	if f.w.Adapter.GateB == nil {
		return nil
	}
	return f.moreGates[t*f.n:][:f.n]
}

// upBiases returns the biases to add to the products of row t's ups, or nil.
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

// bound returns the bound above which a gate's activation is not zero; ok is false if there is no such bound.
func bound(a compute.Activation) (b float32, ok bool) {
	switch a.Kind {
	case compute.ReLU, compute.DReLU, compute.ReLU2:
		return 0, true
	case compute.FATReLU: // with any threshold, also one below zero
		return a.Threshold, true
	}
	return 0, false
}

// gates fills hidden for the neurons of the sets, or for all.
func (f *sparseFFN) gates(x compute.Tensor) {
	w, bias, more := f.w.Gate, (*compute.Vector)(nil), f.w.Adapter.GateB != nil
	if w == nil {
		w, bias, more = f.w.Up, f.w.UpBias, f.w.Adapter.UpB != nil
	}
	if f.disk.picked || !f.all && f.tokens <= compute.FewTokens && !most(f.s.largest(f.tokens), f.n) {
		f.x = operand{}
		f.x.form(f.d, x, w)
		f.x.form(f.d, x, f.w.Up)
		f.d.pool.Run(listPieces, f.gateFn)
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
		list = piece(list, i)
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

// piece returns piece i of a list of neurons.
func piece(list []int32, i int) []int32 {
	return list[len(list)*i/listPieces : len(list)*(i+1)/listPieces]
}

// activate computes a_i of a piece of the open neurons of every one of f.rows.
func (f *sparseFFN) activate(i, worker int) {
	w := f.d.worker(worker)
	for _, t := range f.rows {
		list := piece(f.open.token(int(t)), i)
		a := f.neurons(int(t), list, w)
		to := f.up[int(t)*f.n:][:f.n]
		for i, n := range list {
			to[n] = a[i]
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

// large appends to list the neurons of the token's set with activations that are not taken as zero.
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

// product fills out with w's product of x plus bias, or, if more is set, plus added, which adapt computed. As in dots,
// it adds to the whole product.
func (f *sparseFFN) product(x compute.Tensor, out []float32, w *compute.Matrix, bias *compute.Vector, more bool, added []float32) {
	y := f.view(&f.views[0], out)
	if !more {
		f.d.parts.MatMul(x, compute.Products{{Out: y, W: w, Bias: bias}})
		return
	}
	f.d.parts.MatMul(x, compute.Products{{Out: y, W: w}})
	f.d.parts.Add(y, f.view(&f.views[1], added))
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

// dots computes rows of m, chosen by index, times row t's activations, plus biases, which may be nil. Of experts m is
// their up projections.
func (f *sparseFFN) dots(out []float32, m *compute.Matrix, biases []float32, t int, list []int32, w *workerScratch) {
	first, at := 0, t // row of m that the indices count from, row of the activations
	if f.pairs != nil {
		first, at = f.pairs.firstUp(t), f.pairs.input(t)
	}
	f.dotsOf(out, m, first, biases, t, at, list, w)
}

// dotsOf computes rows of m, chosen by their index from row first on, times row at of the activations, which is of row
// t, plus biases, which may be nil.
func (f *sparseFFN) dotsOf(out []float32, m *compute.Matrix, first int, biases []float32, t, at int, list []int32, w *workerScratch) {
	x, _ := f.x.of(m, at)
	data, rows := mem(m).data[first*mem(m).rowBytes:], list
	if b := mem(m).slots; b != nil {
		rows = b.slotsOf(list, w)
	}
	if mem(m).packed {
		f.d.k.DotRows(m.Type, out, data, rows, m.Cols, x)
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
