package hybrid

import (
	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// chunkStep divides the number of neurons in a chunk, because sets are stored in words. Columns also need whole blocks
// of their type.
const chunkStep = 32

// stream is one layer that sends its cold neurons to the GPU in chunks.
type stream struct {
	transfer
	x       compute.Tensor
	set     compute.Set
	f       compute.SparseWeights
	hot, n  int           // the host's neurons are counted from hot
	uses    []compute.Use // the weights' uses
	words   []uint32      // the set's bits, from the first turn on
	perRow  int
	brought []compute.SparseWeights // by chunk
}

// stream computes out on the GPU, if that is possible and pays.
func (r *router) stream(out, x compute.Tensor, s compute.Set, f compute.SparseWeights) bool {
	t, ok := r.transfer(out, r.d.streaming.Tokens, f.Count)
	y := &stream{transfer: t, x: x, set: s, f: f, hot: mem(f.Up).hot, n: f.Up.Rows}
	if !ok || !y.choose() {
		return false
	}
	if err := y.reserve(); err != nil {
		r.fail(err)
		return true // Run returns it
	}
	r.toGPU(x)
	r.setToGPU(s)
	y.seeSet()
	y.record(y.computeHot, y.bring, y.compute)
	return true
}

// choose reports whether the weights can be sent, and in which chunks.
func (y *stream) choose() bool {
	size, step := int64(0), chunkStep // the most bytes of a neuron on the GPU, and what divides the neurons of a chunk
	for _, w := range []*compute.Matrix{y.f.Gate, y.f.Up, y.f.Down} {
		if w == nil {
			continue
		}
		if mem(w).units > 0 || mem(w).passing {
			return false
		}
		cold := mem(w).host
		use := y.host.Restorable(cold)
		y.weights, y.uses = append(y.weights, cold), append(y.uses, use)
		size += y.gpu.StreamedBytes(w.Type, y.width(w))
		if use == compute.Columns {
			step = max(step, cold.Type.BlockElems())
		}
	}
	y.most = int(y.r.d.streaming.Bytes/size) / step * step
	if y.most == 0 {
		return false
	}
	y.chunks = (y.n - y.hot + y.most - 1) / y.most
	return true
}

// width returns the elements of a neuron in w.
func (y *stream) width(w *compute.Matrix) int {
	if w == y.f.Down {
		return y.out.Cols
	}
	return y.x.Cols
}

// rowBytes returns what a neuron takes on the host at most, as a row or as a column of w.
func (y *stream) rowBytes(w *compute.Matrix) int {
	unit := max(quant.QK, w.Type.BlockElems())
	return w.Type.RowBytes((y.width(w) + unit - 1) / unit * unit)
}

// bounds returns chunk c's neurons, counted from hot.
func (y *stream) bounds(c int) (from, to int) {
	return c * y.most, min((c+1)*y.most, y.n-y.hot)
}

// reserve allocates what chunks need, once for all layers.
func (y *stream) reserve() (err error) {
	y.brought = make([]compute.SparseWeights, y.chunks)
	if h := &y.r.d.rooms; y.set.Mem != nil && h.most < y.most {
		for i := range h.set {
			if h.set[i], err = y.r.d.gpu.Set(y.r.d.rows, y.most); err != nil {
				return y.r.d.ofGPU(err)
			}
		}
		h.most = y.most
	}
	scratch := 0
	for _, w := range []*compute.Matrix{y.f.Gate, y.f.Up, y.f.Down} {
		if w != nil {
			scratch = max(scratch, y.most*y.rowBytes(w))
		}
	}
	return y.transfer.reserve(scratch)
}

// seeSet has the first turn of the host keep the set's bits.
func (y *stream) seeSet() {
	m := sets(y.set)
	if m == nil {
		return
	}
	s := y.r.stretch()
	if !m.onHost {
		from := y.r.gpu.DownloadSet(setView(y.set, m.gpu))
		s.loads = append(s.loads, func(*window) {
			words, perRow := from()
			y.words, y.perRow = append(y.words[:0], words...), perRow // other layers' come to the same place
		})
		return
	}
	all, host := setView(y.set, m.host), y.r.d.host
	y.perRow = (y.n + 31) / 32
	y.words = make([]uint32, y.set.Rows*y.perRow)
	s.loads = append(s.loads, func(w *window) { host.SetWords(w.set(all), w.words(all, y.words), y.perRow) })
}

// bring records the way of chunk c to the GPU.
func (y *stream) bring(c int) {
	d := y.r.d
	from, to := y.bounds(c)
	sent := make([]compute.Sent, len(y.weights))
	for i, w := range y.weights {
		width := y.x.Cols
		if i == len(y.weights)-1 {
			width = y.out.Cols
		}
		sent[i] = compute.Sent{Source: compute.Source{Name: w.Name, Type: w.Type, Rows: to - from, Cols: width}, Use: y.uses[i]}
		if y.uses[i] == compute.Columns {
			sent[i].Rows, sent[i].Cols = width, to-from
		}
	}
	w := compute.SparseWeights{Act: y.f.Act}
	w.Gate, w.Up, w.Down = y.parts(y.send(y.f.Up.Name, sent, func(f compute.Filler, i int) int {
		if y.uses[i] != compute.Columns && y.host.KeepsRows(y.weights[i]) {
			return y.rowsOf(f, i, y.weights[i], from, to-from)
		}
		if y.uses[i] == compute.Columns && y.groupsOf(f, i, y.weights[i], from/quant.QK) {
			return sent[i].Rows * sent[i].Type.RowBytes(to-from)
		}
		rows := y.host.Restore(y.weights[i], from, to, d.rooms.host).Data
		f.Fill(i, rows)
		return len(rows)
	}))
	var err error
	if w.UpBias, err = part(y.f.UpBias, d.gpu, y.hot+from, y.hot+to); err != nil {
		y.r.fail(err)
	}
	y.brought[c] = w
}

// bringSet sends chunk c's part of the set to the GPU.
func (y *stream) bringSet(c int) {
	if y.set.Mem == nil {
		return
	}
	from, to := y.bounds(c)
	set := y.chunkSet(c)
	words := y.r.gpu.UploadSet(set)
	y.r.last.stores = append(y.r.last.stores, func(*window) {
		dst, perRow := words()
		for row := range set.Rows {
			bits(dst[row*perRow:][:perRow], y.words[row*y.perRow:][:y.perRow], y.hot+from, to-from)
		}
	})
}

// bits copies n bits of src, from bit first on, to dst, and clears the rest of dst.
func bits(dst, src []uint32, first, n int) {
	at, shift := first/32, uint(first%32)
	for i := range dst {
		left := n - 32*i
		if left <= 0 {
			dst[i] = 0
			continue
		}
		w := src[at+i] >> shift
		if shift > 0 && at+i+1 < len(src) {
			w |= src[at+i+1] << (32 - shift)
		}
		if left < 32 {
			w &= 1<<left - 1
		}
		dst[i] = w
	}
}

// chunkSet returns chunk c's set on the GPU.
func (y *stream) chunkSet(c int) compute.Set {
	from, to := y.bounds(c)
	if y.set.Mem == nil {
		return compute.Set{Rows: y.set.Rows, N: to - from, Outputs: y.set.Outputs}
	}
	return compute.Set{Rows: y.set.Rows, N: y.r.d.rooms.most, Outputs: y.set.Outputs, Mem: y.r.d.rooms.set[c%2].Mem}
}

// computeHot has the GPU compute the neurons that it has.
func (y *stream) computeHot() {
	if y.hot == 0 {
		return
	}
	w := gpuWeights(y.f)
	var err error
	if w.UpBias, err = part(y.f.UpBias, y.r.d.gpu, 0, y.hot); err != nil {
		y.r.fail(err)
	}
	set := gpuSet(y.set)
	if set.Mem == nil {
		set.N = y.hot
	}
	y.add(set, w)
}

// compute has the GPU compute with chunk c.
func (y *stream) compute(c int) {
	y.bringSet(c)
	y.add(y.chunkSet(c), y.brought[c])
}

// add has the GPU compute the neurons of a part of the layer, and adds them to what there is.
func (y *stream) add(s compute.Set, w compute.SparseWeights) {
	y.sum(func(out compute.Tensor, count *compute.NeuronCount, first bool) compute.Op {
		if w.Count = count; first {
			w.DownBias = gpuVector(y.f.DownBias)
		}
		return &compute.SparseFFN{Out: out, X: gpuTensor(y.x), Set: s, Weights: w}
	})
}
