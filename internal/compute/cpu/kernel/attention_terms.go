package kernel

import (
	"math"
	"unsafe"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/compute/cpu/layout"
)

// A matrix unit that multiplies tiles of BF16 also computes attention of prompts, by the terms of terms.go. Keys and
// values are two terms, which hold a half exactly and a float32 with a relative error of 2⁻¹⁷. Queries and weights are
// three terms, which are exact, if keys or values are float32, else two. One product has a chunk's keys as rows, and its
// sums are scores. In the other product a row is an element of the chunk's values, and a column is a position. Keys and
// values become tiles once for many queries. A query's bytes do not depend on the other queries.

// TermQueries is a number of queries with which making tiles of keys and values is a small part of the work, and the
// queries' data and a chunk's tiles stay in the second-level cache.
const TermQueries = 512

// termForm holds the kernels with which a matrix unit computes attention if queries and weights have the given number of
// BF16 terms.
type termForm struct {
	terms   int
	product [2]termProduct // for one tile of queries, or two
	split   func(dst *byte, term uintptr, x *float32, n uintptr)
	// weigh writes e^(s-m) of n groups of scores as terms, and returns their sum.
	weigh func(dst *byte, term uintptr, s *float32, n uintptr, m float32) (sum float32)
}

// termProduct computes n groups of pairRows rows for as many queries as config says, which are rows of terms.
type termProduct func(config *byte, out *float32, outStride uintptr, w *byte, n uintptr, x *byte, xStride, term, part uintptr)

// row returns the bytes of a row of n elements.
func (f *termForm) row(n int) int { return f.terms * bf16Acts(n) }

// write writes x as a row. It pads the last group with zeros.
func (f *termForm) write(dst []byte, x []float32) {
	term := bf16Acts(len(x))
	_ = dst[:f.terms*term]
	whole := len(x) / bf16Group
	if whole > 0 {
		f.split(&dst[0], uintptr(term), &x[0], uintptr(whole))
	}
	if rest := x[whole*bf16Group:]; len(rest) > 0 {
		var group [bf16Group]float32
		copy(group[:], rest)
		f.split(&dst[whole*bf16Group*2], uintptr(term), &group[0], 1)
	}
}

// AttendsByTerms reports whether AttendByTerms computes attention to keys and values of a shape.
func (k *Kernels) AttendsByTerms(s compute.KVShape) bool {
	return k.unit != nil && !s.Within && s.Every == 0
}

// termForm returns how attention to keys and values of a shape is computed.
func (k *Kernels) termForm(s compute.KVShape) *termForm {
	if s.KeyType == compute.KVF32 || s.ValueType == compute.KVF32 {
		return &k.unit.attention[layout.ActTerms]
	}
	return &k.unit.attention[layout.TileTerms]
}

// termRoom is the memory of one AttendByTerms, cut off a slice in lines.
type termRoom struct {
	queries []byte    // [n] rows of terms
	keys    []byte    // tiles [positions/pairRows, groups of key]
	values  []byte    // tiles [value/pairRows, groups of positions]
	rows    []byte    // terms of layout.MatrixRows keys, or of two values
	weights []byte    // [pairTokens] rows of terms
	decoded []float32 // a key or a value
	scores  []float32 // [pairTokens, ChunkPositions]
	sums    []float32 // [n, width]

	width int // elements of a value, rounded up to whole tiles
}

const pairPanel = 2 * layout.PairTile * layout.WeightTerms // bytes of a group of pairRows rows

// newTermRoom cuts the parts off room, or only counts them where it is nil. It returns their size in bytes.
func (k *Kernels) newTermRoom(s compute.KVShape, n int, room []byte) (r termRoom, size int) {
	at := 0
	if room != nil {
		at = int(-uintptr(unsafe.Pointer(&room[0])) % fetchLine)
	}
	begin := at
	take := func(n int) []byte {
		from := at
		at += (n + fetchLine - 1) / fetchLine * fetchLine
		if room == nil {
			return nil
		}
		return room[from:][:n:n]
	}
	floats := func(n int) []float32 {
		b := take(4 * n)
		return unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/4)
	}
	f, pair := k.termForm(s), &k.unit.attention[layout.WeightTerms]
	r.width = (s.Value + pairRows - 1) / pairRows * pairRows
	r.queries = take(n * f.row(s.Key))
	r.keys = take(ChunkPositions / pairRows * bf16Groups(s.Key) * pairPanel)
	r.values = take(r.width / pairRows * bf16Groups(ChunkPositions) * pairPanel)
	r.rows = take(max(layout.MatrixRows*pair.row(s.Key), 2*pair.row(s.Value)))
	r.weights = take(pairTokens * f.row(ChunkPositions))
	r.decoded = floats(max(s.Key, s.Value))
	r.scores = floats(pairTokens * ChunkPositions)
	r.sums = floats(n * r.width)
	return r, at - begin + fetchLine
}

// TermRoom returns the bytes that AttendByTerms takes for n queries.
func (k *Kernels) TermRoom(s compute.KVShape, n int) int {
	_, size := k.newTermRoom(s, n, nil)
	return size
}

// termAttention is one AttendByTerms.
type termAttention struct {
	termRoom
	*termForm           // of queries and weights
	pair      *termForm // of keys and values
	k         *Kernels
	kv        *KV
	spans     []Span
	group     int     // queries of a token
	limit     float32 // soft cap of scores; 0: none
}

// AttendByTerms computes the attention of queries q [tokens·group, key], already times the softmax scale, to the
// positions of spans [tokens]. room [TermRoom(kv.Shape, tokens·group)]
func (k *Kernels) AttendByTerms(out Partial, q []float32, kv *KV, spans []Span, softCap float32, room []byte) {
	n := len(out.Max)
	r, _ := k.newTermRoom(kv.Shape, n, room)
	a := termAttention{termRoom: r, termForm: k.termForm(kv.Shape), pair: &k.unit.attention[layout.WeightTerms], k: k, kv: kv, spans: spans, group: n / len(spans), limit: softCap}
	row := a.row(kv.Shape.Key)
	for i := range n {
		out.Max[i], out.Sum[i] = float32(math.Inf(-1)), 0
		a.write(a.queries[i*row:][:row], q[i*kv.Shape.Key:][:kv.Shape.Key])
	}
	clear(a.sums)
	from, to := a.seen(0, n)
	for first := from / ChunkPositions * ChunkPositions; first < to; first += ChunkPositions {
		a.chunk(out, first)
	}
	for i := range n {
		if copy(out.Acc[i*kv.Shape.Value:][:kv.Shape.Value], a.sums[i*a.width:]); !finite(a.sums[i*a.width:][:a.width]) {
			a.byVectors(out, q, i)
		}
	}
}

// byVectors computes query i again. Tiles also multiply values that the query does not see, by zero, and that gives NaN
// if such a value is infinite or NaN.
func (a *termAttention) byVectors(out Partial, q []float32, i int) {
	key, value := a.kv.Shape.Key, a.kv.Shape.Value
	sum := Partial{out.Max[i:][:1], out.Sum[i:][:1], out.Acc[i*value:][:value]}
	next := NewPartial(make([]float32, PartialLen(1, value)), 1, value)
	span, how := a.spans[i/a.group:][:1], Scores{SoftCap: a.limit}
	first := int(span[0].From) / ChunkPositions
	a.k.AttendChunk(sum, q[i*key:][:key], a.kv, span, how, first)
	for c := first + 1; c < Chunks(int(span[0].To)); c++ {
		a.k.AttendChunk(next, q[i*key:][:key], a.kv, span, how, c)
		a.k.Merge(sum, next)
	}
}

// finite reports whether the sum of x is finite. x has a multiple of four elements.
func finite(x []float32) bool {
	var sum [4]float32
	for i := 0; i < len(x); i += 4 {
		for j, v := range x[i:][:4] {
			sum[j] += v
		}
	}
	all := sum[0] + sum[1] + sum[2] + sum[3]
	return all-all == 0
}

// seen returns the range of the positions that any of the n queries from query i on attends to.
func (a *termAttention) seen(i, n int) (from, to int) {
	spans := a.spans[i/a.group : (i+n-1)/a.group+1]
	first, end := spans[0].From, spans[0].To
	for _, s := range spans {
		first, end = min(first, s.From), max(end, s.To)
	}
	return int(first), int(end)
}

// inChunk returns the part of the positions [from, to) that is in the chunk which begins with first, counted from there.
func inChunk(first, from, to int) (int, int) {
	return max(0, from-first), min(ChunkPositions, to-first)
}

// chunk adds the positions of the chunk that begins with first.
func (a *termAttention) chunk(out Partial, first int) {
	from, to := a.seen(0, len(out.Max))
	from, to = inChunk(first, from, to)
	a.loadKeys(first, from, to)
	a.loadValues(first, from, to)
	key, row, line := a.row(a.kv.Shape.Key), a.row(ChunkPositions), a.row(ChunkPositions)/a.terms
	keyGroups := bf16Groups(a.kv.Shape.Key)
	for i := 0; i < len(out.Max); i += pairTokens {
		now := min(pairTokens, len(out.Max)-i)
		from, to := a.seen(i, now)
		from, to = inChunk(first, from, to)
		if from >= to {
			continue
		}
		begin, end := from/bf16Group, bf16Groups(to) // groups: as many positions as a product has rows
		for j := begin; j < end; j++ {
			a.multiply(&a.scores[j*pairRows], ChunkPositions, a.keys[j*keyGroups*pairPanel:], keyGroups, a.queries[i*key:], key, now, layout.FirstPart)
		}
		for t := range now {
			s := a.spans[(i+t)/a.group]
			from, to := inChunk(first, int(s.From), int(s.To))
			weights := a.weights[t*row+begin*2*bf16Group:]
			if from < to {
				a.weighQuery(out, i+t, weights, a.scores[t*ChunkPositions:][:ChunkPositions], from, to, begin, end)
				continue
			}
			for term := range a.terms {
				clear(weights[term*line:][:(end-begin)*2*bf16Group])
			}
		}
		for j := range a.width / pairRows {
			panel := a.values[(j*bf16Groups(ChunkPositions)+begin)*pairPanel:]
			a.multiply(&a.sums[i*a.width+j*pairRows], a.width, panel, end-begin, a.weights[begin*2*bf16Group:], row, now, 0)
		}
	}
}

// multiply computes products of a panel's rows with tokens' terms over the given number of groups. Rows of terms are
// stride bytes apart.
func (a *termAttention) multiply(out *float32, outStride int, w []byte, groups int, x []byte, stride, tokens int, part uintptr) {
	product := a.product[(tokens-1)/layout.MatrixTokens]
	product(&tileConfigs[tokens][0], out, uintptr(4*outStride), &w[0], uintptr(groups), &x[0], uintptr(stride), uintptr(stride/a.terms), part)
}

// weighQuery turns query i's scores s [ChunkPositions] of positions [from, to) into the terms of weights, of groups
// [begin, end). Other positions have no weight. It rescales the query's sums so far to the new maximum.
func (a *termAttention) weighQuery(out Partial, i int, terms []byte, s []float32, from, to, begin, end int) {
	if a.limit > 0 {
		SoftCap(s[from:to], a.limit)
	}
	old := out.Max[i]
	m := max(old, a.k.Max(s[from:to]))
	for _, unseen := range [][]float32{s[begin*bf16Group : from], s[to : end*bf16Group]} {
		for j := range unseen {
			unseen[j] = float32(math.Inf(-1))
		}
	}
	sum := a.weigh(&terms[0], uintptr(bf16Acts(ChunkPositions)), &s[begin*bf16Group], uintptr(end-begin), m)
	if m != old {
		c := exp32(old - m)
		sums := a.sums[i*a.width:][:a.width]
		a.k.Scale(sums, sums, c)
		out.Sum[i] *= c
	}
	out.Max[i] = m
	out.Sum[i] += sum
}

// writeRow writes the n elements of row at of keys or values in the cache's form as terms. Rows outside of [from, to)
// are zero: they may hold anything.
func (a *termAttention) writeRow(dst []byte, t compute.KVType, rows []byte, at, n int) {
	raw := rows[at*t.RowBytes(n):][:t.RowBytes(n)]
	x := a.decoded[:n]
	switch t {
	case compute.KVF32:
		x = unsafe.Slice((*float32)(unsafe.Pointer(&raw[0])), n)
	case compute.KVF16:
		a.k.FromF16(x, halfwords(raw))
	default:
		a.k.attention.decode(t, x, raw, raw)
	}
	a.pair.write(dst, x)
}

// loadKeys makes tiles of the keys of positions [from, to) of the chunk that begins with first; others up to whole tiles
// are zero, whatever the cache holds there.
func (a *termAttention) loadKeys(first, from, to int) {
	n := a.kv.Shape.Key
	row, groups := a.pair.row(n), bf16Groups(n)
	for tile := from / pairRows * pairRows; tile < bf16Groups(to)*pairRows; tile += layout.MatrixRows {
		for i := range layout.MatrixRows {
			dst, at := a.rows[i*row:][:row], tile+i
			if at < from || at >= to {
				clear(dst)
				continue
			}
			keys, _ := a.kv.page((first + at) / compute.PagePositions)
			a.writeRow(dst, a.kv.Shape.KeyType, keys, at%compute.PagePositions, n)
		}
		panel := a.keys[tile/pairRows*groups*pairPanel+tile%pairRows/layout.MatrixRows*layout.PairTile:]
		for term := range layout.WeightTerms {
			a.k.unit.pairs(&panel[2*term*layout.PairTile], pairPanel, &a.rows[term*row/layout.WeightTerms], uintptr(row), uintptr(groups))
		}
	}
}

// loadValues does the same with values. A row is an element of the values, and a pair is that element at two positions.
func (a *termAttention) loadValues(first, from, to int) {
	n := a.kv.Shape.Value
	row := a.pair.row(n)
	even, odd := a.rows[:row], a.rows[row:][:row]
	for pair := from / bf16Group * bf16Group; pair < bf16Groups(to)*bf16Group; pair += 2 {
		for i, dst := range [][]byte{even, odd} {
			at := pair + i
			if at < from || at >= to {
				clear(dst)
				continue
			}
			_, values := a.kv.page((first + at) / compute.PagePositions)
			a.writeRow(dst, a.kv.Shape.ValueType, values, at%compute.PagePositions, n)
		}
		line := a.values[pair/bf16Group*pairPanel+pair%bf16Group/2*fetchLine:]
		for t := range layout.WeightTerms {
			at := t * row / layout.WeightTerms
			a.k.unit.zip(&line[2*t*layout.PairTile], uintptr(bf16Groups(ChunkPositions)*pairPanel), &even[at], &odd[at], uintptr(a.width/pairRows))
		}
	}
}

// halfwords is b, which is aligned, as numbers of 16 bits.
func halfwords(b []byte) []uint16 {
	return unsafe.Slice((*uint16)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/2)
}
