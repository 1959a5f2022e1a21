package hybrid

import "github.com/powerinfer-go/powerinfer/internal/compute"

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

// transfer is one layer of which the host's part comes to the GPU in chunks. While the GPU computes with a chunk, the
// next one's rows are copied to it, and the host packs those of the one after that.
type transfer struct {
	r       *router
	gpu     compute.WeightUploader
	rooms   compute.Streamer
	host    compute.Restorer
	weights []*compute.Matrix // gate, if there is one, up, down: the host's
	most    int               // neurons, or experts, of a chunk
	chunks  int
	out     compute.Tensor
	partial compute.Tensor       // of the GPU, like out
	count   *compute.NeuronCount // the layer's
	begun   bool                 // out has a content
}

// transfer begins the transfer of a layer that computes out. It reports whether the devices can do it and it pays,
// which it does from least rows on; 0: never. The caller says what the chunks are.
func (r *router) transfer(out compute.Tensor, least int, count *compute.NeuronCount) (transfer, bool) {
	// A running sequence's token has the same arithmetic in every step: the host computes what it needs of the host's
	// weights.
	if least == 0 || out.Rows < least || r.seg.Decode > 0 {
		return transfer{}, false
	}
	gpu, uploads := r.gpu.(compute.WeightUploader)
	rooms, streams := r.d.gpu.(compute.Streamer)
	host, restores := r.d.host.(compute.Restorer)
	return transfer{r: r, gpu: gpu, rooms: rooms, host: host, out: out, count: count}, uploads && streams && restores
}

// reserve allocates what chunks need, once for all layers: rooms on the GPU, and so many bytes of scratch on the host.
func (t *transfer) reserve(scratch int) error {
	d := t.r.d
	p, err := d.partial(t.out.Cols, 0)
	if err != nil {
		return err
	}
	t.partial = viewed(t.out, p.gpu)
	for i := range d.rooms.room {
		if d.rooms.room[i] != nil {
			continue
		}
		room, err := t.rooms.StreamBuffer(d.streaming.Bytes + roomSlack)
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

// record records the layer. In turn c the host packs chunk c; at the same time bring sends chunk c-1 to the GPU, and
// compute has the GPU compute with chunk c-2. In turn 0 held has it compute with what it holds. The host's turns are
// named after up.
func (t *transfer) record(up *compute.Matrix, held func(), bring func(c int, turn *stretch), compute func(c int)) {
	var turns []*stretch
	for c := range t.chunks + 2 {
		if c < t.chunks {
			turn := t.r.stretch()
			turn.named(up)
			turns = append(turns, turn)
		}
		t.r.meet(func() {
			if c == 0 {
				held()
			} else if c <= t.chunks {
				bring(c-1, turns[c-1])
			}
			if c > 1 {
				compute(c - 2)
			}
		})
	}
	written(t.out, true)
}

// send records the way of chunk c to the GPU, and returns its matrices. Sources are in the order of weights. data
// returns the rows of source i as a file has them: in to, or where they lie.
func (t *transfer) send(c int, turn *stretch, sources []compute.Source, uses []compute.Use, data func(i int, to []byte) []byte) (gate, up, down *compute.Matrix) {
	d := t.r.d
	matrices, fill := t.gpu.UploadWeights(d.rooms.room[c%2], sources, uses)
	turn.stores = append(turn.stores, func(*window) {
		for i := range sources {
			rows := data(i, d.rooms.host)
			d.sent += int64(len(rows))
			fill(i, rows)
		}
	})
	if len(matrices) == 3 {
		gate = matrices[0]
	}
	return gate, matrices[len(matrices)-2], matrices[len(matrices)-1]
}

// sum has the GPU do op, which writes a part of the layer to out and counts neurons in count, and adds the part to
// those before. For the first part first is true: it also does what is done once in a layer.
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
