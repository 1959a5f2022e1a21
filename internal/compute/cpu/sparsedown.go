package cpu

import (
	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/compute/cpu/kernel"
)

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

// sort separates the rows that compute the down projection by panels from those that sum neurons one by one. Only a
// row's own numbers decide, so its bytes depend on nothing else in the step.
func (f *sparseFFN) sort() {
	f.dense, f.scattered = f.dense[:0], f.scattered[:0]
	single := f.single()
	for t := range f.tokens {
		if f.token(t) >= single && f.fillsPanels(f.open.count[t]) {
			f.dense = append(f.dense, int32(t))
		} else {
			f.scattered = append(f.scattered, int32(t))
		}
	}
}

// sumScattered sums the down columns of the scattered rows. A few rows go through the neurons together, so that a
// column that several need is read from memory once. Rows of a long prompt, which keep all workers busy, go one by one.
// The bytes are the same.
func (f *sparseFFN) sumScattered() {
	f.listed = false
	few, most := f.scattered, compute.FewTokens
	switch {
	case f.pairs != nil:
		few, most = f.pairs.fewPairs()
	case len(few) > most:
		few = few[:min(len(few), f.single())]
		f.rows = f.scattered[len(few):]
		f.d.pool.Run(len(f.rows), f.rowFn)
	}
	for ; len(few) > 0; few = few[len(f.rows):] {
		f.rows = few[:min(len(few), most)]
		f.findRuns()
		f.slice()
		f.sums = grown(&f.sums, len(f.rows)*sparseChunks*f.sumLen)
		f.d.pool.Run((len(f.runs)-1)*sparseChunks*f.slices, f.chunkFn)
		f.d.pool.Run(len(f.rows)*kernel.Super(f.out.Cols), f.sumFn)
	}
}

// slice cuts the chunks of f.rows into slices. Each slice needs a_i of all of a chunk's neurons, so these are computed
// first.
func (f *sparseFFN) slice() {
	f.slices = 1
	if f.pairs != nil || f.d.pool.Threads() == 1 || !mem(f.w.Down).packed {
		return
	}
	f.slices = min(downSlices, kernel.Super(f.out.Cols))
	f.up = grown(&f.up, f.tokens*f.n)
	f.d.pool.Run(listPieces, f.activeFn)
	f.listed = true
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

// parts returns how many parts row t's open neurons are cut into. Some may be empty; their sums are zero.
func (f *sparseFFN) parts(t int) int {
	size := chunkNeurons
	if f.pairs != nil {
		size = pairNeurons
	}
	return min(sparseChunks, max(1, f.open.count[t]/size))
}

// part returns part i of row t's open neurons. Groups of neurons are not cut.
func (f *sparseFFN) part(t, i int) []int32 {
	list, parts := f.open.token(t), f.parts(t)
	from, to := len(list)*i/parts, len(list)*(i+1)/parts
	if mem(f.w.Down).layout == groups {
		from, to = restOfGroup(list, from), restOfGroup(list, to)
	}
	return list[from:to]
}

// restOfGroup returns the first place from i on with another group of neurons than the place before, or the end. i is a
// place of list or its end.
func restOfGroup(list []int32, i int) int {
	for i > 0 && i < len(list) && list[i]/kernel.GroupNeurons == list[i-1]/kernel.GroupNeurons {
		i++
	}
	return i
}

// chunk computes and sums a slice of a part of the neurons of every row of one of f.runs.
func (f *sparseFFN) chunk(i, worker int) {
	w := f.d.worker(worker)
	slice, i := i%f.slices, i/f.slices
	run, i := i/sparseChunks, i%sparseChunks
	blocks := kernel.Super(f.out.Cols)
	from, to := blocks*slice/f.slices, blocks*(slice+1)/f.slices
	for r := int(f.runs[run]); r < int(f.runs[run+1]); r++ {
		t := int(f.rows[r])
		if i < f.parts(t) {
			sum := f.sums[(r*sparseChunks+i)*f.sumLen:][:f.sumLen]
			f.sumPart(t, f.part(t, i), from, sum[from*superblock:to*superblock], w)
		}
	}
}

// sum adds one superblock of one of f.rows' chunks in their order.
func (f *sparseFFN) sum(i, _ int) {
	blocks := kernel.Super(f.out.Cols)
	r, s := i/blocks, i%blocks
	t, first := int(f.rows[r]), s*superblock
	total := f.sums[r*sparseChunks*f.sumLen+first:][:superblock]
	for c := 1; c < f.parts(t); c++ {
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
	f.sumPart(t, f.part(t, 0), 0, total, w)
	for c := 1; c < f.parts(t); c++ {
		f.sumPart(t, f.part(t, c), 0, next, w)
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

// downBiases returns the biases of row t's outputs, if there are any.
func (f *sparseFFN) downBiases(t int) []float32 {
	if f.pairs != nil {
		return f.pairs.downBiases(t)
	}
	return vector(f.w.DownBias)
}

// sumPart computes the listed open neurons of token t and writes the sum of their down columns, of the outputs from
// superblock from on. [len(sum)]
func (f *sparseFFN) sumPart(t int, list []int32, from int, sum []float32, w *workerScratch) {
	clear(sum)
	switch values := f.values(t); {
	case mem(f.w.Down).layout == groups:
		if !f.listed {
			for i, a := range f.neurons(t, list, w) {
				values[list[i]] = a
			}
		}
		f.downGroups(t, list, values, from, sum, w)
	case f.listed:
		a := grown(&w.floats, len(list))
		for i, n := range list {
			a[i] = values[n]
		}
		f.down(t, list, a, from, sum, w)
	default:
		f.down(t, list, f.neurons(t, list, w), from, sum, w)
	}
}

// values returns where a_i of row t's neurons are, by number: in up, or else in place of the gates, for down columns in
// groups only.
func (f *sparseFFN) values(t int) []float32 {
	if f.listed {
		return f.up[t*f.n:][:f.n]
	}
	return f.hidden[t*f.n:][:f.n]
}

// downGroups adds a[n] times the down column of every listed neuron n to sum, of the outputs from superblock from on.
func (f *sparseFFN) downGroups(t int, list []int32, a []float32, from int, sum []float32, w *workerScratch) {
	m, used := mem(f.w.Down), grown(&w.list, len(list))[:0]
	for _, n := range list {
		if a[n] != 0 {
			used = append(used, n)
		}
	}
	w.groups.Begin(f.d.k, f.w.Down.Type, m.data[f.layer(t)*f.n/kernel.GroupNeurons*m.rowBytes:], f.out.Cols, from, sum)
	w.groups.Ask(used)
	for len(used) > 0 {
		n := restOfGroup(used, 1)
		w.groups.Add(used, n, a)
		used = used[n:]
	}
}

// down adds a[i] times the down column of neuron list[i] to sum, of the outputs from superblock from on.
func (f *sparseFFN) down(t int, list []int32, a []float32, from int, sum []float32, w *workerScratch) {
	first, skip := f.layer(t)*f.n, kernel.SuperAt(f.w.Down.Type, from)
	w.sum.Begin(f.d.k, f.w.Down.Type, min(f.out.Cols-from*superblock, len(sum)), sum)
	for i, n := range list {
		if a[i] != 0 {
			w.sum.Add(f.downRow(first+int(n), w)[skip:], a[i])
		}
	}
	w.sum.Finish()
}

// downRow returns row n of down in the kernels' layout. A sum still uses earlier rows, so rows packed on the fly take
// turns in several buffers.
func (f *sparseFFN) downRow(n int, w *workerScratch) []byte {
	m := mem(f.w.Down)
	if m.slots != nil {
		n = int(m.slots.slot(int32(n)))
	}
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
	f.d.parts.MatMul(f.spreadDense(), compute.Products{{Out: f.out, W: f.w.Down, Bias: f.w.DownBias}})
}

// spreadDense returns a_i of all neurons, zero for those that are not open, for the rows in f.dense. [len(f.dense),
// n_ff]
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
