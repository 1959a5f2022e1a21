package hybrid

import (
	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/residency"
)

// expertStream is one layer that sends experts to the GPU that are not there, in chunks, in order. They may differ from
// step to step.
type expertStream struct {
	transfer
	o       *compute.Experts
	hot     compute.ExpertWeights // the experts that the GPU holds, if it holds any
	slots   *slotted              // nil: they are always the same
	first   int                   // the host's first expert
	n       int
	rows    []int // rows of an expert in each of weights
	sent    int   // experts, at most
	brought []compute.ExpertWeights
	lent    bool // by the host, which has them on disk
}

// streamExperts has the GPU compute all experts of a layer, and reports whether that is possible and pays.
func (r *router) streamExperts(o *compute.Experts) bool {
	if o.Weights.Table != nil { // the model's own, by which several experts have one place
		return false
	}
	if o.Weights.Exact { // the host has down projections by neuron, which it does not give back by row
		return false
	}
	t, ok := r.transfer(o.Out, r.d.streaming.Experts, o.Weights.Count)
	y := &expertStream{transfer: t, o: o, n: o.Choice.N}
	if !ok || !y.choose() {
		return false
	}
	if err := y.reserve(0); err != nil {
		r.fail(err)
		return true // Run returns it
	}
	r.toGPU(o.X)
	r.choiceToGPU(&o.Choice)
	y.record(y.computeHeld, y.bring, y.compute)
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
		y.first, y.sent = 0, min(y.n, y.sent+residency.Copies)
		y.hot.Bins = &y.slots.bins
	}
	size := int64(0) // the most bytes of an expert on the GPU
	for _, m := range []*compute.Matrix{w.Gate, w.Up, w.Down} {
		if m == nil {
			continue
		}
		cold, rows := mem(m).host, m.Rows/y.n
		switch {
		case mem(m).units == 0 && y.host.KeepsRows(cold):
		case mem(m).units > 0 && y.r.d.lends && y.host.Lends(cold):
			y.lent = true
		default:
			return false
		}
		y.weights, y.rows = append(y.weights, cold), append(y.rows, rows)
		size += int64(rows) * y.gpu.StreamedBytes(m.Type, m.Cols)
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

// experts returns which of the host's experts chunk c brings.
func (y *expertStream) experts(c int) []int32 {
	if y.slots != nil {
		return y.slots.chunk(c, y.most)
	}
	list := make([]int32, y.room(c))
	for i := range list {
		list[i] = int32(c*y.most + i)
	}
	return list
}

// fillFetched is fill for experts on disk.
func (y *expertStream) fillFetched(units compute.UnitFetch, n, c int, f compute.Filler, i int) int {
	m, rows := y.weights[i], y.rows[i]
	f.FillRows(i, func(row int, scratch []byte) []byte {
		if row/rows >= n {
			return scratch
		}
		return units.Row(m, row/rows, row%rows, scratch)
	})
	return y.room(c) * rows * m.Type.RowBytes(m.Cols)
}

// fill fills in chunk c's rows of the weights i. Rows after the last absent expert may hold anything.
func (y *expertStream) fill(c int, f compute.Filler, i int) int {
	m, rows, room := y.weights[i], y.rows[i], y.room(c)
	if y.slots == nil {
		return y.rowsOf(f, i, m, c*y.most*rows, room*rows)
	}
	experts := y.slots.chunk(c, y.most)
	compute.FillFrom(f, i, y.host, m, func(row int) int {
		if row/rows >= len(experts) {
			return compute.AbsentRow
		}
		return int(experts[row/rows])*rows + row%rows
	})
	return room * rows * m.Type.RowBytes(m.Cols)
}

// bring records the way of chunk c to the GPU.
func (y *expertStream) bring(c int) {
	var sent []compute.Sent
	for i, m := range y.weights {
		sent = append(sent, compute.Sent{Source: compute.Source{Name: m.Name, Type: m.Type, Rows: y.room(c) * y.rows[i], Cols: m.Cols}, Use: compute.Rows})
	}
	w := y.hot
	name := y.o.Weights.Up.Name
	if y.lent {
		of := y.r.d.fetches.add(y.r.seg, y.host, y.weights[0], func() []int32 { return y.experts(c) })
		w.Gate, w.Up, w.Down = y.parts(y.sendFetched(name, sent, of, func(f compute.Filler, i int) int {
			return y.fillFetched(of.units, of.n, c, f, i)
		}))
	} else {
		w.Gate, w.Up, w.Down = y.parts(y.send(name, sent, func(f compute.Filler, i int) int { return y.fill(c, f, i) }))
	}
	w.Table = y.table(c)
	y.brought[c] = w
}

// computeHeld has the GPU compute the experts that it has.
func (y *expertStream) computeHeld() {
	if y.hot.Up != nil {
		y.add(y.hot)
	}
}

// compute has the GPU compute with chunk c.
func (y *expertStream) compute(c int) { y.add(y.brought[c]) }

// add makes the GPU compute with w and adds the result to the sum so far. The first one counts the tokens' choices.
func (y *expertStream) add(w compute.ExpertWeights) {
	y.sum(func(out compute.Tensor, count *compute.NeuronCount, first bool) compute.Op {
		if w.Count = count; !first {
			w.Bins = nil
		}
		return &compute.Experts{Out: out, X: gpuTensor(y.o.X), Choice: gpuChoice(y.o.Choice), Weights: w}
	})
}
