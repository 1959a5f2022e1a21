package cpu

import (
	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// An AttendLatent makes keys and values of latentPositions positions at a time, and of as many heads as fit
// latentBytes, but of one at least.
const (
	latentPositions = 512
	latentBytes     = 32 << 20
)

// expansion is the state of one AttendLatent. Keys and values of some heads are made for all positions of the step's
// sequences, in memory that is laid out as a cache's, which then is attended to; functions are method values made once,
// so that a call allocates nothing.
type expansion struct {
	d         *Device
	readFn    func(i, worker int)
	productFn func(i, worker int)
	storeFn   func(i, worker int)

	o            *compute.AttendLatent
	shape        compute.KVShape // shape of the keys and values made, with the heads in progress
	first        int             // the first of these heads
	own, shared  int             // elements of a key
	tables       [][]int32       // pages of the step's sequences in k and v
	pages        []int32         // tables' memory
	k, v         []byte
	latents      []float32 // [positions in progress, latent]
	buffer       buffer    // latents
	keys, values []float32 // [positions in progress, heads·key], [positions in progress, heads·value]
	x            operand   // latents
	seq          int32
	from, to     int // positions in progress
	part, parts  int // rows of a chunk of products, and chunks of a head's keys
}

func (e *expansion) init(d *Device) {
	e.d = d
	e.readFn, e.productFn, e.storeFn = e.read, e.product, e.store
}

// expandedType returns the type of keys and values made from cached ones of type t: F16, unless they may be too large
// for it.
func expandedType(t compute.KVType) compute.KVType {
	if t == compute.KVF32 || t == compute.KVBF16 {
		return compute.KVF32
	}
	return compute.KVF16
}

// AttendLatent attends with every token's queries to its sequence, some heads after others.
func (d *Device) AttendLatent(o *compute.AttendLatent) {
	if !o.Fits() {
		panic("cpu: AttendLatent of shapes that do not fit: " + o.Keys.Name)
	}
	if o.Q.Rows == 0 {
		return
	}
	e := &d.expand
	e.o = o
	own, shared, value := o.Sizes()
	typ := expandedType(o.Cache.Layers[o.Layer].KeyType)
	e.own, e.shared = own, shared
	e.shape = compute.KVShape{Heads: 1, Key: own + shared, Value: value, KeyType: typ, ValueType: typ}
	pages := e.place()
	e.shape.Heads = max(1, min(o.Heads, latentBytes/max(1, pages*int(e.shape.PageBytes()))))
	for e.first = 0; e.first < o.Heads; e.first += e.shape.Heads {
		e.shape.Heads = min(e.shape.Heads, o.Heads-e.first)
		e.make(pages)
		d.attendTo(o.Out, o.Q, keysAndValues{e.shape, e.tables, e.k, e.v}, e.first, e.shape.Heads, o.How)
	}
	e.o = nil
}

// place gives every sequence of the step its own pages, in order, and returns their number.
func (e *expansion) place() int {
	p := e.d.p
	e.tables, e.pages = e.tables[:0], e.pages[:0]
	for i, seq := range p.Seq[:e.o.Q.Rows] {
		for int(seq) >= len(e.tables) {
			e.tables = append(e.tables, nil)
		}
		if i == 0 || seq != p.Seq[i-1] {
			n := (p.Last(seq) + compute.PagePositions) / compute.PagePositions
			at := len(e.pages)
			for page := range n {
				e.pages = append(e.pages, int32(at+page))
			}
			e.tables[seq] = e.pages[at:]
		}
	}
	return len(e.pages)
}

// make makes the keys and values of the heads in progress.
func (e *expansion) make(pages int) {
	e.k, e.v = grown(&e.k, pages*int(e.shape.KeyPage())), grown(&e.v, pages*int(e.shape.ValuePage()))
	for i, seq := range e.d.p.Seq[:e.o.Q.Rows] {
		if i > 0 && seq == e.d.p.Seq[i-1] {
			continue
		}
		e.seq = seq
		for e.from = 0; e.from <= e.d.p.Last(seq); e.from = e.to {
			e.to = min(e.from+latentPositions, e.d.p.Last(seq)+1)
			e.positions()
		}
	}
}

// positions makes the keys and values of positions [from, to).
func (e *expansion) positions() {
	o, n, latent := e.o, e.to-e.from, e.o.Keys.Cols
	e.latents = grown(&e.latents, n*latent)
	e.keys, e.values = grown(&e.keys, n*e.shape.Heads*e.shape.Key), grown(&e.values, n*e.shape.Heads*e.shape.Value)
	e.d.pool.Run(n, e.readFn)
	e.buffer.data = e.latents
	x := compute.Tensor{Rows: n, Cols: latent, Mem: &e.buffer}
	e.x = operand{}
	e.x.formOfPrompt(e.d, x, o.Keys)
	e.x.formOfPrompt(e.d, x, o.Values)
	longest := max(e.own, e.shape.Value)
	e.part = min(longest, chunkRows(longest*e.shape.Heads, mem(o.Keys).rowBytes, n, e.d.pool.Threads()))
	if tiled(o.Keys) {
		e.part = min(longest, tiledRows(longest*e.shape.Heads, e.d.pool.Threads()))
	}
	e.parts = (longest + e.part - 1) / e.part
	e.d.pool.Run(2*e.shape.Heads*e.parts, e.productFn)
	e.d.pool.Run(n, e.storeFn)
}

// read reads the cached data of a position: its latent vector, and the shared part of its keys, which it copies for
// every head.
func (e *expansion) read(i, worker int) {
	c, layer, latent := e.o.Cache, e.o.Layer, e.o.Keys.Cols
	l, pos := c.Layers[layer], e.from+i
	bytes := l.KeyType.RowBytes(l.Key)
	page := int(c.Tables(layer, e.d.p)[e.seq][pos/compute.PagePositions])
	cached := c.Mem.(*cache).k[layer][(page*compute.PagePositions+pos%compute.PagePositions)*bytes:][:bytes]
	whole := grown(&e.d.worker(worker).floats, l.Key)
	quant.Decode(l.KeyType.Type(), whole, cached)
	copy(e.latents[i*latent:][:latent], whole)
	for h := range e.shape.Heads {
		copy(e.keys[(i*e.shape.Heads+h)*e.shape.Key+e.own:][:e.shared], whole[latent:])
	}
}

// product is some rows of one head's K_h or V_h for all positions in progress.
func (e *expansion) product(i, worker int) {
	w, out, rows, width := e.o.Keys, e.keys, e.own, e.shape.Key
	if i >= e.shape.Heads*e.parts {
		i -= e.shape.Heads * e.parts
		w, out, rows, width = e.o.Values, e.values, e.shape.Value, e.shape.Value
	}
	head, first := i/e.parts, i%e.parts*e.part
	end := min(rows, first+e.part)
	if first >= end {
		return
	}
	m, at := mem(w), (e.first+head)*rows
	data := m.data[(at+first)*m.rowBytes : (at+end)*m.rowBytes]
	e.d.multiplyOfPrompt(w, data, end-first, out[head*width+first:], e.shape.Heads*width, &e.x, e.to-e.from, worker)
}

// store puts a position's keys and values where attention reads them.
func (e *expansion) store(i, _ int) {
	slot := cacheSlot{shape: e.shape, k: e.k, v: e.v}
	pos := e.from + i
	keys, values := e.shape.Heads*e.shape.Key, e.shape.Heads*e.shape.Value
	e.d.storeAt(&slot, int(e.tables[e.seq][pos/compute.PagePositions]), pos, e.keys[i*keys:][:keys], e.values[i*values:][:values])
}

// ExpandsLatent implements compute.Device.
func (d *Device) ExpandsLatent() bool { return true }
