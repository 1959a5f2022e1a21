package hybrid

import (
	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// Streaming says which prompts cold neurons and experts are sent to the GPU for.
type Streaming struct {
	Tokens  int   // of a step, from which on sending their rows takes less time than computing with them; 0: never
	Experts int   // likewise, of layers with experts, each of which few of the tokens use
	Bytes   int64 // of rows that are sent at a time; twice as many are on the GPU
}

// RoomBytes returns the GPU memory for streaming.
func (s Streaming) RoomBytes() int64 {
	if s.Tokens == 0 && s.Experts == 0 {
		return 0
	}
	return 2 * (s.Bytes + roomSlack)
}

// roomSlack is the number of bytes that three matrices in a room lose to alignment.
const roomSlack = 4 << 10

// chunkStep divides the number of neurons of a chunk, because sets come in words. Columns come in their type's blocks besides.
const chunkStep = 32

// Stream has the cold neurons' part of large steps computed on the GPU.
func (d *Device) Stream(s Streaming) { d.streaming = s }

// Sent returns the bytes of weights, as files have them, that went to the GPU for prompts since d was made.
func (d *Device) Sent() int64 { return d.sent }

// rooms are the buffers that chunks use in turn.
type rooms struct {
	room [2]any
	set  [2]compute.Set // of the GPU, of most neurons
	most int
	host []byte // a chunk's rows of one matrix, as a file has them
}

// stream is one layer whose cold neurons come to the GPU in chunks. While the GPU computes with a chunk, the next one's rows are
// copied to it, and the host packs those of the one after that.
type stream struct {
	r       *router
	gpu     compute.WeightUploader
	rooms   compute.Streamer
	host    compute.Restorer
	out, x  compute.Tensor
	set     compute.Set
	f       compute.SparseWeights
	hot, n  int
	weights []*compute.Matrix // gate, if there is one, up, down: the host's, whose neurons are counted from hot
	uses    []compute.Use
	most    int // neurons of a chunk
	chunks  int
	partial compute.Tensor
	turns   []*stretch // of the host; turn c packs chunk c
	words   []uint32   // the set's bits, from the first turn on
	perRow  int
	brought []compute.SparseWeights // by chunk
	begun   bool                    // out has a content
}

// stream computes out on the GPU, if that is possible and pays.
func (r *router) stream(out, x compute.Tensor, s compute.Set, f compute.SparseWeights) bool {
	// A running sequence's token has the same arithmetic in every step: its cold neurons stay with the host.
	if t := r.d.streaming.Tokens; t == 0 || x.Rows < t || r.seg.Decode > 0 {
		return false
	}
	y := &stream{r: r, out: out, x: x, set: s, f: f, hot: mem(f.Up).hot, n: f.Up.Rows}
	var ok bool
	if y.gpu, ok = r.gpu.(compute.WeightUploader); !ok {
		return false
	}
	if y.rooms, ok = r.d.gpu.(compute.Streamer); !ok {
		return false
	}
	if y.host, ok = r.d.host.(compute.Restorer); !ok || !y.choose() {
		return false
	}
	if r.err == nil {
		r.err = y.reserve()
	}
	if r.err != nil {
		return true // Run returns it
	}
	y.run()
	return true
}

// choose reports whether the weights can be sent, and in which chunks.
func (y *stream) choose() bool {
	size, step := int64(0), chunkStep // of a neuron on the GPU, at most; what chunks are multiples of
	for _, w := range []*compute.Matrix{y.f.Gate, y.f.Up, y.f.Down} {
		if w == nil {
			continue
		}
		cold := mem(w).host
		use := y.host.Restorable(cold)
		y.weights, y.uses = append(y.weights, cold), append(y.uses, use)
		size += y.rooms.StreamedBytes(w.Type, y.width(w))
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
func (y *stream) reserve() error {
	d := y.r.d
	p, err := d.partial(y.out.Cols, 0)
	if err != nil {
		return err
	}
	y.partial = viewed(y.out, p.gpu)
	y.brought = make([]compute.SparseWeights, y.chunks)
	if err := d.streamRooms(y.rooms); err != nil {
		return err
	}
	h := &d.rooms
	for i := range h.room {
		if y.set.Mem != nil && h.most < y.most {
			if h.set[i], err = d.gpu.Set(d.rows, y.most); err != nil {
				return d.ofGPU(err)
			}
		}
	}
	if y.set.Mem != nil {
		h.most = max(h.most, y.most)
	}
	for _, w := range []*compute.Matrix{y.f.Gate, y.f.Up, y.f.Down} {
		if w != nil {
			if size := y.most * y.rowBytes(w); size > len(h.host) {
				h.host = make([]byte, size)
			}
		}
	}
	return nil
}

// streamRooms allocates the buffers of chunks, once for all layers.
func (d *Device) streamRooms(on compute.Streamer) error {
	for i := range d.rooms.room {
		if d.rooms.room[i] != nil {
			continue
		}
		room, err := on.StreamBuffer(d.streaming.Bytes + roomSlack)
		if err != nil {
			return d.ofGPU(err)
		}
		d.rooms.room[i] = room
	}
	return nil
}

// run records the layer: in turn c the host packs chunk c, while chunk c-1 goes to the GPU and the GPU computes with chunk c-2.
func (y *stream) run() {
	r := y.r
	r.toGPU(y.x)
	r.setToGPU(y.set)
	y.seeSet()
	for c := range y.chunks {
		turn := r.stretch()
		turn.named(y.f.Up)
		y.turns = append(y.turns, turn)
		r.meet(func() {
			if c == 0 {
				y.computeHot()
				return
			}
			y.bring(c - 1)
			if c > 1 {
				y.compute(c - 2)
			}
		})
	}
	y.bring(y.chunks - 1)
	if y.chunks > 1 {
		y.compute(y.chunks - 2)
	}
	y.compute(y.chunks - 1)
	written(y.out, true)
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
	s.loads = append(s.loads, func(w *window) { host.SetWords(w.set(all), w.words(y.words, y.perRow), y.perRow) })
}

// bring records the way of chunk c to the GPU.
func (y *stream) bring(c int) {
	d := y.r.d
	from, to := y.bounds(c)
	sources := make([]compute.Source, len(y.weights))
	for i, w := range y.weights {
		width := y.x.Cols
		if i == len(y.weights)-1 {
			width = y.out.Cols
		}
		sources[i] = compute.Source{Name: w.Name, Type: w.Type, Rows: to - from, Cols: width}
		if y.uses[i] == compute.Columns {
			sources[i].Rows, sources[i].Cols = width, to-from
		}
	}
	matrices, fill := y.gpu.UploadWeights(d.rooms.room[c%2], sources, y.uses)
	turn := y.turns[c]
	turn.stores = append(turn.stores, func(*window) {
		for i, w := range y.weights {
			data := y.host.Restore(w, from, to, d.rooms.host).Data
			d.sent += int64(len(data))
			fill(i, data)
		}
	})
	w := compute.SparseWeights{Up: matrices[len(matrices)-2], Down: matrices[len(matrices)-1], Act: y.f.Act}
	if y.f.Gate != nil {
		w.Gate = matrices[0]
	}
	var err error
	if w.UpBias, err = part(y.f.UpBias, d.gpu, y.hot+from, y.hot+to); err != nil {
		y.r.fail(err)
	}
	y.brought[c] = w
	if y.set.Mem != nil {
		set := y.chunkSet(c)
		words := y.r.gpu.UploadSet(set)
		turn.stores = append(turn.stores, func(*window) {
			dst, perRow := words()
			for row := range set.Rows {
				bits(dst[row*perRow:][:perRow], y.words[row*y.perRow:][:y.perRow], y.hot+from, to-from)
			}
		})
	}
}

// bits copies n bits of src, from bit first on, to dst, and clears the rest of it.
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
		return compute.Set{Rows: y.set.Rows, N: to - from}
	}
	return compute.Set{Rows: y.set.Rows, N: y.r.d.rooms.most, Mem: y.r.d.rooms.set[c%2].Mem}
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
	y.r.gpu.Do(&compute.SparseFFN{Out: gpuTensor(y.out), X: gpuTensor(y.x), Set: set, Weights: w})
	y.begun = true
}

// compute has the GPU compute with chunk c, and adds that to what there is.
func (y *stream) compute(c int) {
	r, w := y.r, y.brought[c]
	if !y.begun {
		y.begun = true
		w.Count, w.DownBias = y.f.Count, gpuVector(y.f.DownBias)
		r.gpu.Do(&compute.SparseFFN{Out: gpuTensor(y.out), X: gpuTensor(y.x), Set: y.chunkSet(c), Weights: w})
		return
	}
	w.Count = &compute.NeuronCount{}
	r.d.joins[r.seg] = append(r.d.joins[r.seg], join{y.f.Count, w.Count})
	r.gpu.Do(&compute.SparseFFN{Out: y.partial, X: gpuTensor(y.x), Set: y.chunkSet(c), Weights: w})
	r.gpu.Do(&compute.Add{Dst: gpuTensor(y.out), X: y.partial})
}

// join holds the counts of a part of a layer's neurons, and the layer that they belong to.
type join struct{ to, part *compute.NeuronCount }
