package hybrid

import "github.com/powerinfer-go/powerinfer/internal/compute"

// expertStream is one layer whose experts that are not on the GPU come to it in chunks, in their order; which these are may differ from step to step. While the GPU computes with those of a chunk,
// the next one's rows are copied to it, and the host packs those of the one after that.
type expertStream struct {
	r       *router
	o       *compute.Experts
	gpu     compute.WeightUploader
	rooms   compute.Streamer
	host    compute.Restorer
	hot     compute.ExpertWeights // those that the GPU holds, if it holds any
	slots   *slotted              // nil: they are always the same
	first   int                   // the host's first expert
	n       int
	weights []*compute.Matrix // gate, if there is one, up, down: the host's
	rows    []int             // of an expert in each of them
	sent    int               // experts, at most
	most    int               // experts of a chunk
	chunks  int
	partial compute.Tensor
	turns   []*stretch // of the host; turn c packs chunk c
	brought []compute.ExpertWeights
	begun   bool // the output has a content
}

// streamExperts has the GPU compute all experts of a layer, and reports whether that is possible and pays.
func (r *router) streamExperts(o *compute.Experts) bool {
	// A running sequence's token has the same arithmetic in every step: its experts stay where they are.
	if t := r.d.streaming.Experts; t == 0 || o.X.Rows < t || r.seg.Decode > 0 {
		return false
	}
	if o.Weights.Exact { // the host has down projections by neuron, which it does not give back by row
		return false
	}
	y := &expertStream{r: r, o: o, n: o.Choice.N}
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
	p, err := r.d.partial(o.Out.Cols, 0)
	if err == nil {
		err = r.d.streamRooms(y.rooms)
	}
	if err != nil {
		r.fail(err)
		return true // Run returns it
	}
	y.partial = viewed(o.Out, p.gpu)
	y.run()
	return true
}

// choose reports whether the experts can be sent, and in which chunks.
func (y *expertStream) choose() bool {
	w := &y.o.Weights
	y.hot, _ = y.r.split(w, y.o.Choice)
	y.hot.Bins = w.Bins
	y.slots = mem(w.Down).slotted
	if mem(w.Down).slots && y.slots == nil {
		return false // the host has all experts, and nothing says which are on the GPU
	}
	held := mem(w.Down).hot / (w.Down.Rows / y.n)
	if y.first, y.sent = held, y.n-held; y.slots != nil {
		y.first, y.sent = 0, min(y.n, y.sent+1)
		y.hot.Bins = &y.slots.bins
	}
	size, scratch := int64(0), 0 // of an expert on the GPU, at most; of its rows of one matrix in a file
	for _, m := range []*compute.Matrix{w.Gate, w.Up, w.Down} {
		if m == nil {
			continue
		}
		cold, rows := mem(m).host, m.Rows/y.n
		if y.host.Restorable(cold) != compute.Rows {
			return false
		}
		y.weights, y.rows = append(y.weights, cold), append(y.rows, rows)
		size += int64(rows) * y.rooms.StreamedBytes(m.Type, m.Cols)
		scratch = max(scratch, rows*m.Type.RowBytes(m.Cols))
	}
	y.most = min(int(y.r.d.streaming.Bytes/size), y.sent)
	if y.most == 0 {
		return false
	}
	if y.slots != nil {
		y.slots.chunked(y.most)
	}
	y.chunks = (y.sent + y.most - 1) / y.most
	y.brought = make([]compute.ExpertWeights, y.chunks)
	if h := &y.r.d.rooms; len(h.host) < y.most*scratch {
		h.host = make([]byte, y.most*scratch)
	}
	return true
}

// room returns how many experts chunk c has room for.
func (y *expertStream) room(c int) int { return min(y.most, y.sent-c*y.most) }

// table says which experts chunk c brings.
func (y *expertStream) table(c int) *compute.ExpertTable {
	if y.slots != nil {
		return y.slots.chunks[c]
	}
	return compute.NewExpertTable(y.n, y.first+c*y.most, y.room(c))
}

// data returns chunk c's rows of the weights w of weights, as files have them, in to, or where they lie. What is behind the last expert that is absent may be anything.
func (y *expertStream) data(c, w int, to []byte) []byte {
	m, rows := y.weights[w], y.rows[w]
	if y.slots == nil {
		from := c * y.most
		return y.host.Restore(m, from*rows, (from+y.room(c))*rows, to).Data
	}
	size := rows * m.Type.RowBytes(m.Cols)
	for i, e := range y.slots.chunk(c, y.most) {
		at := to[i*size:][:size]
		copy(at, y.host.Restore(m, int(e)*rows, (int(e)+1)*rows, at).Data)
	}
	return to[:y.room(c)*size]
}

// run records the layer: in turn c the host packs chunk c, while chunk c-1 goes to the GPU and the GPU computes with chunk c-2, and at first with the
// experts that it holds.
func (y *expertStream) run() {
	r := y.r
	r.toGPU(y.o.X)
	r.choiceToGPU(&y.o.Choice)
	for c := range y.chunks {
		turn := r.stretch()
		turn.named(y.o.Weights.Up)
		y.turns = append(y.turns, turn)
		r.meet(func() {
			if c == 0 {
				if y.hot.Up != nil {
					y.sum(y.hot)
				}
				return
			}
			y.bring(c - 1)
			if c > 1 {
				y.sum(y.brought[c-2])
			}
		})
	}
	y.bring(y.chunks - 1)
	if y.chunks > 1 {
		y.sum(y.brought[y.chunks-2])
	}
	y.sum(y.brought[y.chunks-1])
	written(y.o.Out, true)
}

// bring records the way of chunk c to the GPU.
func (y *expertStream) bring(c int) {
	d := y.r.d
	var sources []compute.Source
	var uses []compute.Use
	for i, m := range y.weights {
		sources = append(sources, compute.Source{Name: m.Name, Type: m.Type, Rows: y.room(c) * y.rows[i], Cols: m.Cols})
		uses = append(uses, compute.Rows)
	}
	matrices, fill := y.gpu.UploadWeights(d.rooms.room[c%2], sources, uses)
	turn := y.turns[c]
	turn.stores = append(turn.stores, func(*window) {
		for i := range y.weights {
			data := y.data(c, i, d.rooms.host)
			d.sent += int64(len(data))
			fill(i, data)
		}
	})
	w := y.hot
	w.Up, w.Down = matrices[len(matrices)-2], matrices[len(matrices)-1]
	if y.o.Weights.Gate != nil {
		w.Gate = matrices[0]
	}
	w.Table = y.table(c)
	y.brought[c] = w
}

// sum has the GPU compute with w, and adds that to what there is. The first to be computed counts what tokens chose.
func (y *expertStream) sum(w compute.ExpertWeights) {
	r := y.r
	if !y.begun {
		y.begun = true
		y.do(gpuTensor(y.o.Out), w)
		return
	}
	w.Bins, w.Count = nil, &compute.NeuronCount{}
	r.d.joins[r.seg] = append(r.d.joins[r.seg], join{y.o.Weights.Count, w.Count})
	y.do(y.partial, w)
	r.gpu.Do(&compute.Add{Dst: gpuTensor(y.o.Out), X: y.partial})
}

func (y *expertStream) do(out compute.Tensor, w compute.ExpertWeights) {
	y.r.gpu.Do(&compute.Experts{Out: out, X: gpuTensor(y.o.X), Choice: gpuChoice(y.o.Choice), Weights: w})
}
