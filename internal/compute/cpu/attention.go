package cpu

import (
	"unsafe"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/compute/cpu/kernel"
	"github.com/powerinfer-go/powerinfer/internal/quant"
	"github.com/powerinfer-go/powerinfer/internal/setting"
)

// cache is a KV cache in the arena. k [layers][pages, kv_heads, PagePositions] are rows of keys in the layer's type; v
// are rows of values, or nil if values are within keys. In a recurrent layer k is [slots] of a state.
type cache struct{ k, v [][]byte }

// cacheAlign is the alignment of a layer's part: a cache line.
const cacheAlign = 64

// Cache allocates a KV cache.
func (d *Device) Cache(spec compute.CacheSpec) (*compute.Cache, error) {
	if err := spec.Check(); err != nil {
		return nil, err
	}
	all, err := d.mem.bytes(int(spec.Bytes()) + 2*cacheAlign*len(spec.Layers))
	if err != nil {
		return nil, setting.Errorf("KV cache of %d MiB: %w; a smaller %s takes less", spec.Bytes()>>20, err, setting.Context)
	}
	cut := func(page func(compute.KVShape) int64) (layers [][]byte) {
		for i, l := range spec.Layers {
			n := spec.PagesOf(i) * int(page(l))
			layers = append(layers, all[:n:n])
			all = all[(n+cacheAlign-1)/cacheAlign*cacheAlign:]
		}
		return layers
	}
	m := &cache{k: cut(compute.KVShape.KeyPage), v: cut(compute.KVShape.ValuePage)}
	return &compute.Cache{CacheSpec: spec, Mem: m}, nil
}

// CopyPage copies one page in every layer.
func (d *Device) CopyPage(c *compute.Cache, to, from compute.Page) {
	m := c.Mem.(*cache)
	for i, l := range c.Layers {
		from, to := c.In(i, from), c.In(i, to)
		if min(from, to) < 0 {
			continue
		}
		for side, memory := range [][]byte{m.k[i], m.v[i]} {
			n := int([...]int64{l.KeyPage(), l.ValuePage()}[side])
			copy(memory[int(to)*n:][:n], memory[int(from)*n:][:n])
		}
	}
}

// ReadPage reads a page's first positions in every layer.
func (d *Device) ReadPage(c *compute.Cache, page compute.Page, layers [][]byte) error {
	pageRows(c, page, layers, func(row, out []byte) { copy(out, row) })
	return nil
}

// WritePage writes them.
func (d *Device) WritePage(c *compute.Cache, page compute.Page, layers [][]byte) error {
	pageRows(c, page, layers, func(row, in []byte) { copy(row, in) })
	return nil
}

// pageRows calls visit for each position and head of a page, with its key and then with its value: the row in the
// cache, and its place in layers.
func pageRows(c *compute.Cache, page compute.Page, layers [][]byte, visit func(row, outside []byte)) {
	m := c.Mem.(*cache)
	for i, l := range c.Layers {
		if l.State > 0 && len(layers[i]) > 0 {
			visit(m.k[i][int(page.State)*l.StateBytes():][:l.StateBytes()], layers[i])
			continue
		}
		n, rest := l.Positions(layers[i]), layers[i]
		for _, side := range []struct {
			memory []byte
			width  int
		}{{m.k[i], l.KeyType.RowBytes(l.Key)}, {m.v[i], l.ValueType.RowBytes(l.Value)}} {
			if len(side.memory) == 0 {
				continue
			}
			for pos := range n {
				for h := range l.Heads {
					at := (int(c.In(i, page))*l.Heads+h)*l.Rows() + pos
					visit(side.memory[at*side.width:][:side.width], rest[:side.width])
					rest = rest[side.width:]
				}
			}
		}
	}
}

// cacheSlot is the place in the cache that StoreKV writes to and LoadKeys reads.
type cacheSlot struct {
	shape  compute.KVShape
	tables [][]int32 // the step's sequences
	k, v   []byte    // the layer's memory
}

// StoreKV writes keys and values to their tokens' positions.
func (d *Device) StoreKV(o *compute.StoreKV) {
	m := o.Cache.Mem.(*cache)
	d.rows.slot = cacheSlot{shape: o.Cache.Layers[o.Layer], tables: o.Cache.Tables(o.Layer, d.p), k: m.k[o.Layer], v: m.v[o.Layer]}
	d.rows.run(o, o.K.Rows, o.K.Cols)
}

// LoadKeys reads keys from their tokens' positions.
func (d *Device) LoadKeys(o *compute.LoadKeys) {
	d.rows.slot = cacheSlot{shape: o.Cache.Layers[o.Layer], tables: o.Cache.Tables(o.Layer, d.p), k: o.Cache.Mem.(*cache).k[o.Layer]}
	d.rows.run(o, o.K.Rows, o.K.Cols)
}

// load reads token i's k [kv_heads·key].
func (d *Device) load(s *cacheSlot, i int, k []float32) {
	pos := int(d.p.Pos[i])
	page := int(s.tables[d.p.Seq[i]][pos/compute.PagePositions])
	n := s.shape.KeyType.RowBytes(s.shape.Key)
	for h := range s.shape.Heads {
		quant.Decode(s.shape.KeyType.Type(), k[h*s.shape.Key:][:s.shape.Key], s.k[s.place(page, pos, h)*n:][:n])
	}
}

// place returns the number of a position's row among the keys, or the values, of a layer's heads.
func (s *cacheSlot) place(page, pos, head int) int {
	at, _ := s.shape.Row(pos)
	return (page*s.shape.Heads+head)*s.shape.Rows() + at
}

// store writes token i's k [kv_heads·key] and v [kv_heads·value]. v is nil if no values are stored.
func (d *Device) store(s *cacheSlot, i int, k, v []float32) {
	pos := int(d.p.Pos[i])
	if _, kept := s.shape.Row(pos); !kept {
		return
	}
	d.storeAt(s, int(s.tables[d.p.Seq[i]][pos/compute.PagePositions]), pos, k, v)
}

// storeAt writes keys and values to a position in the given page.
func (d *Device) storeAt(s *cacheSlot, page, pos int, k, v []float32) {
	for h := range s.shape.Heads {
		at := s.place(page, pos, h)
		d.storeRow(s.k, at, s.shape.KeyType, k[h*s.shape.Key:][:s.shape.Key])
		if v == nil {
			continue
		}
		d.storeRow(s.v, at, s.shape.ValueType, v[h*s.shape.Value:][:s.shape.Value])
	}
}

// storeRow writes row number at of a layer's keys or values.
func (d *Device) storeRow(memory []byte, at int, t compute.KVType, x []float32) {
	n := t.RowBytes(len(x))
	to := memory[at*n:][:n]
	if t == compute.KVF16 {
		d.k.ToF16(unsafe.Slice((*uint16)(unsafe.Pointer(unsafe.SliceData(to))), len(x)), x)
		return
	}
	quant.Encode(t.Type(), to, x)
}

// Query rows of a KV head that a worker computes with a chunk together. They are so many that reading the cache is a
// small part of the work. Even for few tokens a head may have more of them; workers then share it.
const (
	tileQueries  = 48
	groupQueries = 24
)

// attention is the state of one Attention. Partial results of chunks are merged in chunk order in both of its
// ways of cutting, so an output's bytes do not depend on the way.
type attention struct {
	d       *Device
	chunkFn func(chunk, worker int)
	tileFn  func(chunk, worker int)
	mergeFn func(chunk, worker int)

	out, q   compute.Tensor // [tokens, heads·key], [tokens, heads·value]
	how      compute.Attention
	slopes   []float32 // [heads] or nil
	sinks    []float32 // [heads] or nil
	shape    compute.KVShape
	tables   [][]int32     // the step's sequences
	k, v     []byte        // the layer's memory
	from     int           // the first token in progress
	end      int           // the token after the last one in progress
	byTerms  bool          // the tokens in progress are computed by terms
	first    int           // the first query head
	group    int           // query heads of a KV head
	part     int           // query heads that a worker takes together, of a KV head's
	parts    int           // parts of a KV head
	chunks   int           // chunks of the longest sequence
	tile     int           // tokens of a tile
	partials []float32     // [tokens, kv_heads, parts, chunks] of PartialLen(part, value)
	spans    []kernel.Span // [tokens] positions attended to; with how.Seen several spans for each of [tokens, kv_heads]
}

func (a *attention) init(d *Device) {
	a.d = d
	a.chunkFn, a.tileFn, a.mergeFn = a.chunk, a.tiled, a.merge
}

// keysAndValues are the keys and values of the step's sequences, in pages that tables name.
type keysAndValues struct {
	shape  compute.KVShape
	tables [][]int32
	k, v   []byte
}

// Attend attends with every token's queries to its sequence.
func (d *Device) Attend(o *compute.Attend) {
	m, shape := o.Cache.Mem.(*cache), o.Cache.Layers[o.Layer]
	d.attendTo(o.Out, o.Q, keysAndValues{shape, o.Cache.Tables(o.Layer, d.p), m.k[o.Layer], m.v[o.Layer]}, 0, o.Q.Cols/shape.Key, o.How)
}

// attendTo attends to kv with heads query heads of each token, from first on.
func (d *Device) attendTo(out, q compute.Tensor, kv keysAndValues, first, heads int, how compute.Attention) {
	a := &d.att
	a.out, a.q, a.how, a.shape, a.first = out, q, how, kv.shape, first
	a.tables, a.k, a.v, a.slopes, a.sinks = kv.tables, kv.k, kv.v, vector(how.Slopes), vector(how.Sinks)
	a.group = heads / a.shape.Heads
	longest := a.span(q.Rows)
	single := q.Rows
	if a.terms() {
		single = d.single(q)
	}
	a.byTerms = false
	a.compute(0, single, longest)
	a.byTerms = true
	a.compute(single, q.Rows, longest)
}

// compute computes tokens [from, end). None attends to more than longest positions.
func (a *attention) compute(from, end, longest int) {
	rows := end - from
	if rows == 0 {
		return
	}
	d := a.d
	a.from, a.end = from, end
	few := rows <= compute.FewTokens && !a.byTerms // the chunks of a sequence are spread over workers; else the tokens are
	a.part = min(a.group, tileQueries)
	if few {
		a.part = min(a.group, groupQueries)
	}
	a.parts = (a.group + a.part - 1) / a.part
	parts := a.shape.Heads * a.parts
	if few {
		a.chunks = kernel.Chunks(longest)
		grown(&a.partials, rows*parts*a.chunks*a.partialLen())
		d.pool.Run(rows*parts*a.chunks, a.chunkFn)
		d.pool.Run(rows*parts, a.mergeFn)
		return
	}
	a.tile = max(1, tileQueries/a.part)
	if a.byTerms { // many queries share the tiles of keys and values, but every thread needs some
		a.tile = max(a.tile, min(kernel.TermQueries/a.part, rows*parts/(tilesOfThread*d.pool.Threads())))
	}
	if !a.how.Seen.All() { // tokens see different positions
		a.tile = 1
	}
	d.pool.Run((rows+a.tile-1)/a.tile*parts, a.tileFn)
}

// tilesOfThread is about the smallest number of tiles for each thread. With fewer, threads wait long for others.
const tilesOfThread = 4

// terms reports whether prompts' tokens use kernel.AttendByTerms.
func (a *attention) terms() bool {
	return a.slopes == nil && a.how.Seen.All() && a.d.k.AttendsByTerms(a.shape)
}

// span fills spans for the given number of tokens, and returns the largest number of positions before the end of one.
func (a *attention) span(tokens int) (longest int) {
	p := a.d.p
	if !a.how.Seen.All() {
		n := a.shape.Heads
		for i := range grown(&a.spans, tokens*n) {
			pos := p.Pos[i/n]
			to := a.how.Seen.Len(a.seen(i/n, i%n), int(pos))
			a.spans[i] = kernel.Span{To: int32(to), At: pos}
			longest = max(longest, to)
		}
		return longest
	}
	last := 0
	spans := grown(&a.spans, tokens)
	for i := range spans {
		if a.how.Later && (i == 0 || p.Seq[i] != p.Seq[i-1]) {
			last = p.Last(p.Seq[i])
		}
		pos := p.Pos[i]
		from, to := p.Span(i, &a.how, last)
		spans[i] = kernel.Span{From: int32(from), To: int32(to), At: pos}
		longest = max(longest, to)
	}
	return longest
}

// seen returns the blocks that a token sees of a KV head.
func (a *attention) seen(token, head int) []float32 {
	s := &a.how.Seen
	return s.List(row(s.Blocks, token), head*s.Groups/a.shape.Heads)
}

// spansOf returns the spans of tokens [t, end) for a KV head.
func (a *attention) spansOf(t, end, head int) []kernel.Span {
	if a.how.Seen.All() {
		return a.spans[t:end]
	}
	return a.spans[t*a.shape.Heads+head:][:end-t]
}

// queries are n query heads from first on, which share a KV head.
type queries struct{ kv, first, n int }

// queries returns the queries of part i, counted over the parts of all KV heads.
func (a *attention) queries(i int) queries {
	kv, at := i/a.parts, i%a.parts*a.part
	return queries{kv, a.first + kv*a.group + at, min(a.part, a.group-at)}
}

func (a *attention) partialLen() int { return kernel.PartialLen(a.part, a.shape.Value) }

// partial returns the result of one token, part of the heads and chunk.
func (a *attention) partial(token, part, chunk int) kernel.Partial {
	n := a.partialLen()
	at := (token*a.shape.Heads*a.parts+part)*a.chunks + chunk
	return kernel.NewPartial(a.partials[at*n:][:n], a.queries(part).n, a.shape.Value)
}

// kv returns the keys and values of a KV head that a token, and the others of its tile, attend to.
func (a *attention) kv(token, head int, w *workerScratch) kernel.KV {
	kv := kernel.KV{K: a.k, V: a.v, Pages: a.tables[a.d.p.Seq[token]], Head: head, Shape: a.shape, Scratch: grown(&w.decoded, kernel.ScratchLen(a.shape))}
	if !a.how.Seen.All() {
		kv.Picks = kernel.Picks{Blocks: a.seen(token, head), Block: a.how.Seen.Block, Last: int(a.d.p.Pos[token]), Room: grown(&w.gathered, kernel.GatherLen(a.shape))}
	}
	return kv
}

// scores returns how the scores of query heads are changed.
func (a *attention) scores(h queries) kernel.Scores {
	s := kernel.Scores{SoftCap: a.how.SoftCap}
	if a.slopes != nil {
		s.Slopes = a.slopes[h.first:][:h.n]
	}
	return s
}

// scaled copies the queries of tokens [t, end) and some heads to dst, times the scale.
func (a *attention) scaled(dst []float32, t, end int, h queries) {
	n := h.n * a.shape.Key
	for i := t; i < end; i++ {
		a.d.k.Scale(dst[(i-t)*n:][:n], row(a.q, i)[h.first*a.shape.Key:][:n], a.how.Scale)
	}
}

// chunk is one token, part of the heads and chunk of its sequence.
func (a *attention) chunk(i, worker int) {
	heads := a.shape.Heads * a.parts
	token, part, chunk := i/a.chunks/heads, i/a.chunks%heads, i%a.chunks
	h := a.queries(part)
	spans := a.spansOf(token, token+1, h.kv)
	if first, end := chunksOf(spans); chunk < first || chunk >= end {
		return
	}
	q := grown(&a.d.worker(worker).floats, h.n*a.shape.Key)
	a.scaled(q, token, token+1, h)
	kv := a.kv(token, h.kv, a.d.worker(worker))
	a.d.k.AttendChunk(a.partial(token, part, chunk), q, &kv, spans, a.scores(h), chunk)
}

// chunksOf returns the chunks [first, end) with positions of some span.
func chunksOf(spans []kernel.Span) (first, end int) {
	from, to := spans[0].From, spans[0].To
	for _, s := range spans {
		from, to = min(from, s.From), max(to, s.To)
	}
	return int(from) / kernel.ChunkPositions, kernel.Chunks(int(to))
}

// merge puts one token's chunks together.
func (a *attention) merge(i, _ int) {
	heads := a.shape.Heads * a.parts
	token, part := i/heads, i%heads
	first, end := chunksOf(a.spansOf(token, token+1, a.queries(part).kv))
	sum := a.partial(token, part, first)
	for c := first + 1; c < end; c++ {
		a.d.k.Merge(sum, a.partial(token, part, c))
	}
	a.finish(sum, token, token+1, a.queries(part))
}

func (a *attention) finish(sum kernel.Partial, t, end int, h queries) {
	n := a.shape.Value
	for i := t; i < end; i++ {
		out := row(a.out, i)[h.first*n:]
		for g := range h.n {
			if a.sinks != nil {
				a.d.k.FinishWithSink(out[g*n:][:n], sum, (i-t)*h.n+g, a.sinks[h.first+g])
			} else {
				a.d.k.Finish(out[g*n:][:n], sum, (i-t)*h.n+g)
			}
		}
	}
}

// tiled is a part of the heads for a tile of tokens, cut where sequences change, over all chunks.
func (a *attention) tiled(i, worker int) {
	heads := a.shape.Heads * a.parts
	t, h := a.from+i/heads*a.tile, a.queries(i%heads)
	stop := min(a.end, t+a.tile)
	for t < stop {
		end := t + 1
		for end < stop && a.d.p.Seq[end] == a.d.p.Seq[t] {
			end++
		}
		a.tokens(t, end, h, a.d.worker(worker))
		t = end
	}
}

func (a *attention) tokens(t, end int, h queries, w *workerScratch) {
	n := (end - t) * h.n
	size := kernel.PartialLen(n, a.shape.Value)
	mem := grown(&w.floats, n*a.shape.Key+2*size)
	q, mem := mem[:n*a.shape.Key], mem[n*a.shape.Key:]
	sum, next := kernel.NewPartial(mem[:size], n, a.shape.Value), kernel.NewPartial(mem[size:], n, a.shape.Value)
	a.scaled(q, t, end, h)
	kv, spans := a.kv(t, h.kv, w), a.spansOf(t, end, h.kv)
	first, last := chunksOf(spans)
	how := a.scores(h)
	if a.byTerms {
		a.d.k.AttendByTerms(sum, q, &kv, spans, how.SoftCap, grown(&w.packed, a.d.k.TermRoom(a.shape, n)))
		a.finish(sum, t, end, h)
		return
	}
	a.d.k.AttendChunk(sum, q, &kv, spans, how, first)
	for c := first + 1; c < last; c++ {
		a.d.k.AttendChunk(next, q, &kv, spans, how, c)
		a.d.k.Merge(sum, next)
	}
	a.finish(sum, t, end, h)
}
