package hybrid

import (
	"encoding/binary"
	"math"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/fault"
	"github.com/powerinfer-go/powerinfer/internal/monotime"
	"github.com/powerinfer-go/powerinfer/internal/quant"
	"github.com/powerinfer-go/powerinfer/internal/trace"
)

// Streaming says for which prompts weights in RAM are sent to the GPU.
type Streaming struct {
	Tokens  int   // from this many tokens of a step on, sending the rows takes less time than computing with them on the CPU; 0: never
	Experts int   // the same for layers with experts, as few of the tokens use each expert
	Bytes   int64 // bytes of rows that are sent at a time; the GPU has room for Rooms times as many
	Pages   int64 // bytes of a layer's keys and values in RAM that the GPU may hold for attention; with more, the host computes attention
}

// Sends reports whether anything is sent.
func (s Streaming) Sends() bool { return s.Tokens > 0 || s.Experts > 0 }

// Staged returns the bytes of RAM that chunks pass through.
func (s Streaming) Staged() int64 {
	if !s.Sends() {
		return 0
	}
	return Rooms * s.Bytes
}

// Rooms are the chunks of weights that a GPU has memory for: while it computes with one, the next is copied to it and
// the host packs those after that.
const Rooms = 4

// roomSlack is the number of bytes that the matrices in a room lose to alignment.
const roomSlack = 4 << 10

// Stream makes the GPU compute the host's part of large steps.
func (d *Device) Stream(s Streaming) { d.streaming = s }

// Sent returns the bytes of weights, as files have them, that went to the GPU for prompts since d was made.
func (d *Device) Sent() int64 { return d.sent }

// rooms are the buffers that chunks use in turn.
type rooms struct {
	room [Rooms]any
	set  [2]compute.Set // sets with most neurons on the GPU
	most int
	host []byte // a chunk's columns of one matrix, as a file has them

	halves *[1 << 16]uint16 // halvesOfBF16, once they are needed
}

// sender sends weights to the GPU while a step runs. The host packs a chunk as soon as the room that it passes through
// is free, however far the GPU has come.
type sender struct {
	r    *router
	gpu  GPU
	host Host
}

// sender reports whether it pays to send weights for that many rows. It pays from least on; 0: never.
func (r *router) sender(rows, least int) (sender, bool) {
	// A running sequence's token has the same arithmetic in every step: the host computes what it needs of the host's
	// weights.
	return sender{r, r.d.gpu, r.d.host}, least > 0 && rows >= least && r.seg.Decode == 0
}

// reserve allocates rooms on the GPU, once for everything that is sent, and that many bytes of scratch on the host.
func (s *sender) reserve(scratch int) error {
	d := s.r.d
	for i := range d.rooms.room {
		if d.rooms.room[i] != nil {
			continue
		}
		room, err := s.gpu.StreamBuffer(d.streaming.Bytes + roomSlack)
		if err != nil {
			return d.ofGPU(err)
		}
		d.rooms.room[i] = room
	}
	if len(d.rooms.host) < scratch {
		d.rooms.host = make([]byte, scratch)
	}
	return nil
}

// send records the transfer of weights to the GPU, in one chunk that a trace calls name, and returns their matrices.
// fill fills in matrix i, on its own goroutine, and returns the bytes that it read from a file.
func (s *sender) send(name string, weights []compute.Sent, fill func(f compute.Filler, i int) int) []*compute.Matrix {
	return s.sendFetched(name, weights, nil, fill)
}

// sendFetched is send for weights that of fetches from disk; if of is nil, they are in memory.
func (s *sender) sendFetched(name string, weights []compute.Sent, of *fetched, fill func(f compute.Filler, i int) int) []*compute.Matrix {
	d, seg, room := s.r.d, s.r.seg, s.r.fed%Rooms
	s.r.fed++
	var to compute.Filler
	taken := make([]int, len(weights))
	s.r.gpu.Feed(d.rooms.room[room], func(*compute.Params) error {
		if of != nil {
			if err := d.fetches.take(seg, of); err != nil {
				return &hostError{err}
			}
			defer of.release()
		}
		from, begin := d.trace.Now(), monotime.Now()
		var all fault.Group
		for i := range weights { // each with all cores: none waits for the last of another matrix
			all.Go(func() { taken[i] = fill(to, i) })
		}
		all.Wait()
		for _, n := range taken {
			d.sent += int64(n)
		}
		d.watch.Turn(begin)
		d.trace.Span(trace.Host, "pack "+name, from)
		return nil
	})
	var matrices []*compute.Matrix
	matrices, to = s.r.gpu.UploadWeights(d.rooms.room[room], weights)
	return matrices
}

// rowsOf has rows of w, those from first on, fill in the weights i.
func (s *sender) rowsOf(f compute.Filler, i int, w *compute.Matrix, first, n int) int {
	compute.FillFrom(f, i, s.host, w, func(row int) int { return first + row })
	return n * w.Type.RowBytes(w.Cols)
}

// groupsOf makes groups of w's columns, from first on, fill in the weights i, if both host and GPU have such groups.
func (s *sender) groupsOf(f compute.Filler, i int, w *compute.Matrix, first int) bool {
	return w.Type.Traits().Columns && s.host.HasPlanes(w) &&
		f.FillPlanes(i, func(group int, planes [][]byte) { s.host.Planes(w, first+group, planes) })
}

// roundedRowsOf is rowsOf for a matrix of F16 weights that the host has rounded to BF16. They are sent as F16, because
// GPUs multiply F16 faster.
func (s *sender) roundedRowsOf(f compute.Filler, i int, w *compute.Matrix, first, n int) int {
	halves := s.r.d.rooms.halves
	f.FillRows(i, func(row int, scratch []byte) []byte {
		data := s.host.Rows(w, first+row, first+row+1, scratch).Data
		for at := 0; at < len(data); at += 2 {
			binary.LittleEndian.PutUint16(scratch[at:], halves[binary.LittleEndian.Uint16(data[at:])])
		}
		return scratch
	})
	return n * w.Type.RowBytes(w.Cols)
}

// roundings makes the table of halves, once.
func (r *rooms) roundings() {
	if r.halves == nil {
		r.halves = halvesOfBF16()
	}
}

// halvesOfBF16 returns each BF16 number as a half; those beyond halves' range, which rounding up the largest ones gives,
// as the largest.
func halvesOfBF16() *[1 << 16]uint16 {
	const largest = 65504
	all := new([1 << 16]uint16)
	for i := range all {
		v := quant.F32FromBF16(uint16(i))
		if !math.IsInf(float64(v), 0) {
			v = max(-largest, min(v, largest))
		}
		all[i] = quant.F16FromF32(v)
	}
	return all
}

// transfer is one layer that is computed in parts: weights on the GPU, and chunks that are sent to it.
type transfer struct {
	sender
	weights []*compute.Matrix // gate, if there is one, up, down: the host's
	most    int               // neurons, or experts, of a chunk
	chunks  int
	out     compute.Tensor
	partial compute.Tensor       // on the GPU, shaped like out
	count   *compute.NeuronCount // the layer's
	begun   bool                 // out has a content
}

// transfer begins the transfer of a layer that computes out. It reports whether it pays, which it does from least rows
// on; 0: never. The caller says what the chunks are.
func (r *router) transfer(out compute.Tensor, least int, count *compute.NeuronCount) (transfer, bool) {
	s, ok := r.sender(out.Rows, least)
	return transfer{sender: s, out: out, count: count}, ok
}

// reserve allocates what chunks need, once for all layers.
func (t *transfer) reserve(scratch int) error {
	p, err := t.r.d.partial(t.out.Cols, 0)
	if err != nil {
		return err
	}
	t.partial = viewed(t.out, p.gpu)
	return t.sender.reserve(scratch)
}

// record records the layer. bring sends chunk c to the GPU, and compute makes the GPU compute with it. held makes it
// compute with what it holds, at the same time as the host's turn, if there is one.
func (t *transfer) record(held func(), bring, compute func(c int)) {
	for c := range t.chunks {
		bring(c)
		if c == 0 {
			t.r.meet(held)
		}
		compute(c)
	}
	written(t.out, true)
}

// parts returns a layer's matrices in the order of weights.
func (t *transfer) parts(matrices []*compute.Matrix) (gate, up, down *compute.Matrix) {
	if len(matrices) == 3 {
		gate = matrices[0]
	}
	return gate, matrices[len(matrices)-2], matrices[len(matrices)-1]
}

// sum makes the GPU do op, which writes a part of the layer to out and counts neurons in count, and adds the part to
// the earlier ones. For the first part first is true: it also does the operations that a layer needs once.
func (t *transfer) sum(op func(out compute.Tensor, count *compute.NeuronCount, first bool) compute.Op) {
	r, out := t.r, gpuTensor(t.out)
	if !t.begun {
		t.begun = true
		r.gpu.Do(op(out, t.count, true))
		return
	}
	count := &compute.NeuronCount{}
	r.d.joins[r.seg] = append(r.d.joins[r.seg], join{t.count, count})
	r.gpu.Do(op(t.partial, count, false))
	r.gpu.Do(&compute.Add{Dst: out, X: t.partial})
}

// join holds the counts of a part of a layer's neurons, and the layer that they belong to.
type join struct{ to, part *compute.NeuronCount }
