package kernel

import (
	"math"
	"unsafe"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// ChunkPositions is the length of a chunk: the piece of a sequence that attention treats as
// one unit of work. It is fixed, so that the order of an output's sums depends on its position alone.
const ChunkPositions = 4 * compute.PagePositions

// Chunks returns the number of chunks over n positions.
func Chunks(n int) int { return (n + ChunkPositions - 1) / ChunkPositions }

// KV is the cache of one KV head of one sequence in one layer.
type KV struct {
	K, V    []byte          // the layer's cache [pages, heads, Shape.Rows()] of rows of the shape's keys or values, in its types
	Pages   []int32         // page ids of the sequence
	Head    int             // this one
	Shape   compute.KVShape // widths that are not multiples of 8 take the scalar way
	Scratch []float32       // [ScratchLen(Shape)]
	Picks   Picks           // positions that are read instead of the whole sequence; the zero value: the whole sequence
}

// Picks are positions of a sequence in ascending order. Those that a chunk reads are gathered from the cache's pages, so
// that kernels find them as they find a sequence's.
type Picks struct {
	Blocks []float32 // numbers of blocks: positions of blocks that follow one another; nil: the last position of every block
	Block  int       // positions of a block; 0: there are no picks
	Last   int       // no position is after this
	Room   []byte    // [GatherLen(Shape)]
}

// at returns pick number i.
func (p *Picks) at(i int) int {
	if p.Blocks == nil {
		return min(i*p.Block+p.Block-1, p.Last)
	}
	return min(min(max(int(p.Blocks[i/p.Block]), 0), p.Last/p.Block)*p.Block+i%p.Block, p.Last)
}

// GatherLen returns the room that a page of gathered keys and values takes.
func GatherLen(s compute.KVShape) int {
	n := s.KeyType.RowBytes(s.Key)
	if !s.Within {
		n += s.ValueType.RowBytes(s.Value)
	}
	return compute.PagePositions * n
}

// ScratchLen returns the elements of KV.Scratch. It holds a tile's scores, and for quantised types a page of one head in
// the form that kernels read.
func ScratchLen(s compute.KVShape) int {
	n := 0
	if s.KeyType.Type().Quantised() {
		n += compute.PagePositions * s.Key
	}
	if s.ValueType.Type().Quantised() && !s.Within {
		n += compute.PagePositions * s.Value
	}
	_, blocks := newBlockRoom(s, nil)
	return scoresLen + max(n, blocks)
}

// gathered returns keys and values of the first n picks of the i-th page of picks, in the form of page.
func (kv *KV) gathered(i, n int) (k, v []byte) {
	const page = compute.PagePositions
	first := kv.Picks.at(i * page)
	if n == page && first%page == 0 && kv.Picks.at(i*page+n-1) == first+n-1 { // they are a whole page of the cache
		return kv.page(first / page)
	}
	nk, nv := kv.Shape.KeyType.RowBytes(kv.Shape.Key), 0
	if !kv.Shape.Within {
		nv = kv.Shape.ValueType.RowBytes(kv.Shape.Value)
	}
	k, v = kv.Picks.Room[:page*nk], kv.Picks.Room[page*nk:][:page*nv]
	for j := range n {
		at := kv.Picks.at(i*page + j)
		keys, values := kv.page(at / page)
		row, _ := kv.Shape.Row(at)
		copy(k[j*nk:][:nk], keys[row*nk:])
		copy(v[j*nv:][:nv], values[row*nv:])
	}
	if kv.Shape.Within {
		return k, k
	}
	return k, v
}

// page returns keys [Shape.Rows()] and values [Shape.Rows()] of the i-th page of the sequence, in the cache's form. If
// values are within keys, both are the keys.
func (kv *KV) page(i int) (k, v []byte) {
	rows := kv.Shape.Rows()
	at := (int(kv.Pages[i])*kv.Shape.Heads + kv.Head) * rows
	nk, nv := kv.Shape.KeyType.RowBytes(kv.Shape.Key), kv.Shape.ValueType.RowBytes(kv.Shape.Value)
	k = kv.K[at*nk:][:rows*nk]
	if kv.Shape.Within {
		return k, k
	}
	return k, kv.V[at*nv:][:rows*nv]
}

// rows are some positions' keys or values.
type rows struct {
	t     compute.KVType
	data  []byte
	width int    // elements from one row to the next; a value within a key is the first elements of it
	ahead []byte // what will be read next, to be fetched meanwhile
}

// from returns r without its first i rows.
func (r rows) from(i int) rows {
	r.data = r.data[i*r.t.RowBytes(r.width):]
	return r
}

// half returns element i of 16 bits.
func (r rows) half(i int) uint16 { return uint16(r.data[2*i]) | uint16(r.data[2*i+1])<<8 }

// at returns element i.
func (r rows) at(i int) float32 {
	switch r.t {
	case compute.KVF16:
		return quant.F32FromF16(r.half(i))
	case compute.KVBF16:
		return quant.F32FromBF16(r.half(i))
	}
	return math.Float32frombits(uint32(r.half(2*i)) | uint32(r.half(2*i+1))<<16)
}

// Span is the positions [From, To) of a sequence that the token at position At attends to.
type Span struct{ From, To, At int32 }

// Scores says how scores are changed before the softmax, as compute.Attention does.
type Scores struct {
	SoftCap float32   // 0: none
	Slopes  []float32 // [group] by which they fall with the distance, or nil
}

// Partial is attention over some of the positions, not yet normalised: with scores s,
// Max = max s, Sum = Σ e^(s−Max), Acc = Σ e^(s−Max)·v. No positions: -Inf, 0, 0.
type Partial struct {
	Max, Sum []float32 // [queries]
	Acc      []float32 // [queries, value]
}

// NewPartial carves a Partial for n queries out of mem, which has PartialLen(n, value) elements.
func NewPartial(mem []float32, n, value int) Partial {
	return Partial{Max: mem[:n:n], Sum: mem[n : 2*n : 2*n], Acc: mem[2*n : 2*n+n*value]}
}

// PartialLen returns the number of elements that NewPartial needs for n queries and values of the given width.
func PartialLen(n, value int) int { return n * (value + 2) }

// attention names the kernels that a chunk is computed with: scores, softmax and accumulate below, or an
// instruction set's.
// Tiles have at most maxTile queries; rows of s and p are PagePositions apart, all others headDim.
type attention int

const (
	scalarAttention attention = iota // the definition
	vectorAttention                  // widths are multiples of 8
	wideAttention                    // and tiles of maxTile queries are computed in 512-bit vectors
)

const maxTile = 6

// scoresLen is the number of a tile's scores.
const scoresLen = blockMost * compute.PagePositions

// AttendChunk computes the attention of queries q [tokens·group, key], already times the softmax scale, over chunk
// number chunk of the sequence. spans [tokens] are the positions that each token attends to. The group query heads of a
// token that share this KV head are in consecutive rows.
//
// A query's result has the same bytes whatever other queries are in the call: only its own position decides the order
// in which its scores, sums and output elements are accumulated.
func (v *Vector) AttendChunk(out Partial, q []float32, kv *KV, spans []Span, how Scores, chunk int) {
	for i := range out.Max {
		out.Max[i], out.Sum[i] = float32(math.Inf(-1)), 0
	}
	clear(out.Acc)
	w := walk{v: v, kernels: v.attention, out: out, q: q, spans: spans, how: how, group: len(out.Max) / len(spans), key: kv.Shape.Key, value: kv.Shape.Value, scores: kv.Scratch[:scoresLen], queries: len(out.Max)}
	if w.key%8 != 0 || w.value%8 != 0 {
		w.kernels = scalarAttention
	}
	most := len(out.Max)
	if v.blocks != nil && w.value%quant.QK == 0 {
		w.keyBlocks, w.valueBlocks = kv.Shape.KeyType.Type().Quantised(), kv.Shape.ValueType.Type().Quantised()
	}
	if w.keyBlocks || w.valueBlocks {
		w.blocks = v.blocks
		w.room, _ = newBlockRoom(kv.Shape, kv.Scratch[scoresLen:])
	}
	if w.keyBlocks {
		most = blockQueries
	}
	begin, last := int(spans[0].From), 0
	for _, s := range spans {
		begin, last = min(begin, int(s.From)), max(last, int(s.To))
	}
	first := chunk * ChunkPositions
	last = min(last, first+ChunkPositions)
	first = max(first, begin/compute.PagePositions*compute.PagePositions)
	for i := 0; i < len(out.Max); i += most {
		w.pages(kv, i, min(i+most, len(out.Max)), first, last)
	}
}

// pages adds positions [first, last) to queries [i, end).
func (w *walk) pages(kv *KV, i, end, first, last int) {
	if w.keyBlocks {
		w.roundQueries(i, end)
	}
	for ; first < last; first += compute.PagePositions {
		w.first = first
		w.load(kv, first/compute.PagePositions, min(last-first, compute.PagePositions))
		for at := i; at < end; {
			n := tileOf(end - at)
			if w.keyBlocks || w.valueBlocks {
				n = blockTileOf(end - at)
			}
			w.tile(at, n)
			at += n
		}
	}
}

// tileOf returns how many of n queries go through the kernels together.
func tileOf(n int) int {
	switch {
	case n >= maxTile:
		return maxTile
	case n == 5:
		return 3
	}
	return n
}

// walk is one AttendChunk at one of its pages.
type walk struct {
	v          *Vector
	kernels    attention
	out        Partial
	q          []float32 // [queries, key]
	spans      []Span    // [queries/group]
	how        Scores
	group      int
	key, value int // widths

	queries   int
	first     int       // position at which the page begins
	positions int       // the number of the page's positions that are read
	keys      rows      // [PagePositions, key]
	raw       rows      // the values in the cache's form
	values    rows      // [PagePositions, value] as kernels read them; none before a tile has its scores
	scores    []float32 // [blockMost, PagePositions]
	scratch   []float32 // for decoded rows

	blocks                 *blockKernels
	keyBlocks, valueBlocks bool // keys, or values, are multiplied in integers
	room                   blockRoom
	rounded                int // the first query in room.queries
}

// load makes page number i of the sequence the walk's page. The walk reads its first positions.
func (w *walk) load(kv *KV, i, positions int) {
	var k, v []byte
	if kv.Picks.Block > 0 {
		k, v = kv.gathered(i, positions)
	} else {
		k, v = kv.page(i)
	}
	next := v
	if kv.Picks.Block == 0 && i+1 < len(kv.Pages) { // even of the next chunk: +40 % with one thread
		next, _ = kv.page(i + 1)
	}
	w.positions, w.scratch = positions, kv.Scratch[scoresLen:]
	keys, values := rows{t: kv.Shape.KeyType, data: k, width: w.key, ahead: v}, rows{t: kv.Shape.ValueType, data: v, width: w.value, ahead: next}
	if kv.Shape.Within {
		keys.ahead, values.width = next, w.key
	}
	w.values = rows{}
	switch {
	case w.keyBlocks:
		w.keyPanels(keys)
		w.keys = keys
	case kv.Shape.Within:
		w.keys = w.readable(keys)
		w.values = w.keys
	default:
		w.keys = w.readable(keys)
	}
	w.raw = values
}

// readable returns r in a form that kernels read. If r must be decoded, it decodes into scratch and prefetches r.ahead
// meanwhile. Rows after those that are read, up to a multiple of 8, may have any contents.
func (w *walk) readable(r rows) rows {
	if w.kernels.direct(r.t, w.value, w.queries) {
		return r
	}
	n := compute.PagePositions * r.width
	out := w.scratch[:n]
	w.scratch = w.scratch[n:]
	w.kernels.decode(r.t, out[:w.positions*r.width], r.data[:w.positions*r.t.RowBytes(r.width)], r.ahead)
	data := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(out))), 4*n)
	return rows{t: compute.KVF32, data: data, width: r.width, ahead: data}
}

// tile adds the page to queries i…i+n.
func (w *walk) tile(i, n int) {
	const page = compute.PagePositions
	var from, to [blockMost]int      // the positions of this page that each query attends to
	begin, least, most := 0, page, 0 // all attend to [begin, least), and none from most on
	for t := range n {
		s := w.spans[(i+t)/w.group]
		to[t] = min(max(int(s.To)-w.first, 0), page)
		from[t] = min(max(int(s.From)-w.first, 0), to[t])
		begin, least, most = max(begin, from[t]), min(least, to[t]), max(most, to[t])
	}
	if most == 0 {
		return
	}
	s := w.scores
	w.score(i, n, most)
	if w.values.data == nil {
		w.values = w.readableValues()
	}
	for t := range n {
		if from[t] < to[t] {
			w.weigh(i+t, s[t*page:][:page], from[t], to[t])
		}
	}
	if w.valueBlocks {
		for t := range n {
			clear(s[t*page:][:from[t]])
			clear(s[t*page:][to[t]:page])
		}
		w.addBlocks(i, n, most)
		return
	}
	// What only some see is added one query at a time: a later token's values never meet an earlier one's sum, not even
	// times 0.
	together := begin < least
	if !together {
		begin = page
	}
	for t := range n {
		w.add(i+t, s[t*page:][:page], from[t], min(begin, to[t]))
	}
	if !together {
		return
	}
	for t := 0; t < n; {
		m := tileOf(n - t)
		w.kernels.accumulate(w.out.Acc[(i+t)*w.value:], s[t*page+begin:], w.values.from(begin), m, least-begin, w.value)
		t += m
	}
	for t := range n {
		w.add(i+t, s[t*page:][:page], least, to[t])
	}
}

// score writes the scores of queries i…i+n with the page's first keys.
func (w *walk) score(i, n, keys int) {
	if w.keyBlocks {
		w.scoreBlocks(i, n, keys)
		return
	}
	for t := 0; t < n; {
		m := tileOf(n - t)
		w.kernels.scores(w.scores[t*compute.PagePositions:], w.q[(i+t)*w.key:], w.keys, m, keys, w.key)
		t += m
	}
}

// readableValues brings the page's values to the form that kernels read: rows, or the panel in w.room.
func (w *walk) readableValues() rows {
	if w.valueBlocks {
		w.valuePanel(w.raw)
		return w.raw
	}
	return w.readable(w.raw)
}

// add adds the page's values [from, to), times their weights, to query i's sum. s [PagePositions]
func (w *walk) add(i int, s []float32, from, to int) {
	if from < to {
		w.kernels.accumulate(w.out.Acc[i*w.value:], s[from:], w.values.from(from), 1, to-from, w.value)
	}
}

// weigh turns query i's scores [from, to) into weights, and rescales its sums so far to the scores' maximum.
func (w *walk) weigh(i int, s []float32, from, to int) {
	if w.how.SoftCap > 0 {
		SoftCap(s[from:to], w.how.SoftCap)
	}
	if w.how.Slopes != nil {
		slope, at := w.how.Slopes[i%w.group], w.spans[i/w.group].At-int32(w.first)
		for j := from; j < to; j++ {
			s[j] -= float32(slope * float32(max(int(at)-j, j-int(at))))
		}
	}
	old := w.out.Max[i]
	var m, sum float32
	if from == 0 {
		m, sum = w.kernels.softmax(s, to, old)
	} else { // the fast one begins where a page does
		m, sum = softmax(s[from:to], to-from, old)
	}
	if m != old {
		c := exp32(old - m)
		acc := w.out.Acc[i*w.value:][:w.value]
		w.v.Scale(acc, acc, c)
		w.out.Sum[i] *= c
	}
	w.out.Max[i] = m
	w.out.Sum[i] += sum
}

// SoftCap brings numbers smoothly into (-limit, limit): limit·tanh(s/limit).
func SoftCap(s []float32, limit float32) {
	for i, e := range s {
		s[i] = limit * (1 - 2/(1+exp32(2*e/limit)))
	}
}

// Merge adds next, the chunk that follows, to sum. Chunks are merged in their order.
func (v *Vector) Merge(sum, next Partial) {
	width := len(sum.Acc) / len(sum.Max)
	for i, m := range next.Max {
		if next.Sum[i] == 0 {
			continue
		}
		if sum.Sum[i] == 0 { // its window begins in this chunk: copying gives the bytes of a walk that begins here
			sum.Max[i], sum.Sum[i] = m, next.Sum[i]
			copy(sum.Acc[i*width:][:width], next.Acc[i*width:])
			continue
		}
		m = max(m, sum.Max[i])
		a, b := exp32(sum.Max[i]-m), exp32(next.Max[i]-m)
		sum.Max[i] = m
		sum.Sum[i] = sum.Sum[i]*a + next.Sum[i]*b
		acc := sum.Acc[i*width:][:width]
		v.Scale(acc, acc, a)
		v.AddScaled(acc, next.Acc[i*width:][:width], b)
	}
}

// Finish writes query i's attention, normalised, to out [value].
func (v *Vector) Finish(out []float32, p Partial, i int) {
	v.Scale(out, p.Acc[i*len(out):][:len(out)], 1/p.Sum[i])
}

// FinishWithSink is Finish with one more score that takes its share of the softmax and has no value.
func (v *Vector) FinishWithSink(out []float32, p Partial, i int, sink float32) {
	top := max(p.Max[i], sink)
	c := exp32(p.Max[i] - top)
	v.Scale(out, p.Acc[i*len(out):][:len(out)], c/(p.Sum[i]*c+exp32(sink-top)))
}

// scores: s[t][j] = q[t]·k[j]; the fast ones round keys up to a multiple of 8.
func scores(s, q []float32, k rows, tile, keys, headDim int) {
	for t := range tile {
		for j := range keys {
			dot := float32(0)
			for d := range headDim {
				dot += q[t*headDim+d] * k.at(j*headDim+d)
			}
			s[t*compute.PagePositions+j] = dot
		}
	}
}

// softmax replaces the first n of s by e^(s−m) and the others by 0, with m the larger of their maximum and old; it
// returns m and their sum. s [PagePositions], n >= 1; the scalar one takes any s from n elements on.
func softmax(s []float32, n int, old float32) (m, sum float32) {
	m = max(old, maximum(s[:n]))
	for i, e := range s[:n] {
		s[i] = exp32(e - m)
		sum += s[i]
	}
	clear(s[n:])
	return m, sum
}

// accumulate: acc[t] += Σ p[t][j]·v[j], one term after the other.
func accumulate(acc, p []float32, v rows, tile, keys, headDim int) {
	for t := range tile {
		a := acc[t*headDim:][:headDim]
		for j := range keys {
			w := p[t*compute.PagePositions+j]
			for d := range a {
				a[d] += w * v.at(j*v.width+d)
			}
		}
	}
}
