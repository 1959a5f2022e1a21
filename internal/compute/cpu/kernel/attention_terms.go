package kernel

import (
	"math"
	"unsafe"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/compute/cpu/layout"
)

// A matrix unit that multiplies tiles of BF16 also computes float32 attention of long sequences, by the terms of
// terms.go. Keys and values are two terms, with a relative error of 2⁻¹⁷. Queries and weights are three terms, which
// are exact. One product has a chunk's keys as rows; its sums are scores. The other product has the chunk's values by
// position as columns. Keys and values become tiles once for many queries. A query's bytes do not depend on the other
// queries.

const (
	// TermQueries is the number of queries from which on making tiles of keys and values is a small part of the work.
	// The queries' data and a chunk's tiles stay in the second-level cache.
	TermQueries = 512
	// TermPositions is the least number of positions that are attended to by terms: a chunk.
	TermPositions = ChunkPositions
)

// AttendsByTerms reports whether AttendByTerms computes attention to keys and values of a shape.
func (k *Kernels) AttendsByTerms(s compute.KVShape) bool {
	return k.unit != nil && s.KeyType == compute.KVF32 && s.ValueType == compute.KVF32 && !s.Within && s.Every == 0
}

// termRoom is the memory of one AttendByTerms, cut off a slice in lines.
type termRoom struct {
	queries []byte    // [n] rows of terms
	keys    []byte    // tiles [positions/pairRows, groups of key]
	values  []byte    // tiles [value/pairRows, groups of positions]
	rows    []byte    // terms of layout.MatrixRows keys, or of two values
	weights []byte    // [pairTokens] rows of terms
	scores  []float32 // [pairTokens, ChunkPositions]
	sums    []float32 // [n, width]

	width int // elements of a value, rounded up to whole tiles
}

const pairPanel = 2 * layout.PairTile * layout.WeightTerms // bytes of a group of pairRows rows

// newTermRoom cuts the parts off room, or only counts them where it is nil. It returns their size in bytes.
func newTermRoom(s compute.KVShape, n int, room []byte) (r termRoom, size int) {
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
	r.width = (s.Value + pairRows - 1) / pairRows * pairRows
	r.queries = take(n * Terms.ActRow(s.Key))
	r.keys = take(ChunkPositions / pairRows * bf16Groups(s.Key) * pairPanel)
	r.values = take(r.width / pairRows * bf16Groups(ChunkPositions) * pairPanel)
	r.rows = take(max(layout.MatrixRows*Terms.ActRow(s.Key), 2*Terms.ActRow(s.Value)))
	r.weights = take(pairTokens * Terms.ActRow(ChunkPositions))
	r.scores = floats(pairTokens * ChunkPositions)
	r.sums = floats(n * r.width)
	return r, at - begin + fetchLine
}

// TermRoom returns the bytes that AttendByTerms takes for n queries.
func TermRoom(s compute.KVShape, n int) int {
	_, size := newTermRoom(s, n, nil)
	return size
}

// termAttention is one AttendByTerms.
type termAttention struct {
	termRoom
	k     *Kernels
	unit  *matrixUnit
	kv    *KV
	limit float32 // soft cap of scores; 0: none
}

// AttendByTerms computes the attention of queries q [n, key], already times the softmax scale, to the sequence's first
// positions. positions is their number. room [TermRoom(kv.Shape, n)]
func (k *Kernels) AttendByTerms(out Partial, q []float32, kv *KV, positions int, softCap float32, room []byte) {
	n := len(out.Max)
	r, _ := newTermRoom(kv.Shape, n, room)
	a := termAttention{termRoom: r, k: k, unit: k.unit, kv: kv, limit: softCap}
	row := Terms.ActRow(kv.Shape.Key)
	for i := range n {
		out.Max[i], out.Sum[i] = float32(math.Inf(-1)), 0
		k.unit.terms(a.queries[i*row:][:row], q[i*kv.Shape.Key:][:kv.Shape.Key])
	}
	clear(a.sums)
	for first := 0; first < positions; first += ChunkPositions {
		a.chunk(out, first, min(ChunkPositions, positions-first))
	}
	for i := range n {
		copy(out.Acc[i*kv.Shape.Value:][:kv.Shape.Value], a.sums[i*a.width:])
	}
}

// chunk adds n positions from first on.
func (a *termAttention) chunk(out Partial, first, n int) {
	a.loadKeys(first, n)
	a.loadValues(first, n)
	key, row := Terms.ActRow(a.kv.Shape.Key), Terms.ActRow(ChunkPositions)
	keyGroups, groups := bf16Groups(a.kv.Shape.Key), bf16Groups(n)
	for i := 0; i < len(out.Max); i += pairTokens {
		now := min(pairTokens, len(out.Max)-i)
		for j := range groups { // a group of positions is as many keys as a product has rows
			a.multiply(&a.scores[j*pairRows], ChunkPositions, a.keys[j*keyGroups*pairPanel:], keyGroups, a.queries[i*key:], key, now, layout.FirstPart)
		}
		for t := range now {
			a.weigh(out, i+t, a.weights[t*row:][:row], a.scores[t*ChunkPositions:][:ChunkPositions], n)
		}
		for j := range a.width / pairRows {
			a.multiply(&a.sums[i*a.width+j*pairRows], a.width, a.values[j*bf16Groups(ChunkPositions)*pairPanel:], groups, a.weights, row, now, 0)
		}
	}
}

// multiply computes products of a panel's rows with tokens' terms over the given number of groups. Rows of terms are
// stride bytes apart.
func (a *termAttention) multiply(out *float32, outStride int, w []byte, groups int, x []byte, stride, tokens int, part uintptr) {
	product := a.unit.attention[(tokens-1)/layout.MatrixTokens]
	product(&tileConfigs[tokens][0], out, uintptr(4*outStride), &w[0], uintptr(groups), &x[0], uintptr(stride), uintptr(stride/layout.ActTerms), part)
}

// weigh turns query i's scores s [ChunkPositions] into the terms of weights. The first n scores belong to positions;
// zeros follow up to whole groups. It rescales the query's sums so far to the new maximum.
func (a *termAttention) weigh(out Partial, i int, terms []byte, s []float32, n int) {
	if a.limit > 0 {
		SoftCap(s[:n], a.limit)
	}
	old := out.Max[i]
	m := max(old, a.k.Max(s[:n]))
	groups := bf16Groups(n)
	for j := n; j < groups*bf16Group; j++ {
		s[j] = float32(math.Inf(-1))
	}
	sum := a.unit.weigh(&terms[0], uintptr(len(terms)/layout.ActTerms), &s[0], uintptr(groups), m)
	if m != old {
		c := exp32(old - m)
		sums := a.sums[i*a.width:][:a.width]
		a.k.Scale(sums, sums, c)
		out.Sum[i] *= c
	}
	out.Max[i] = m
	out.Sum[i] += sum
}

// position returns the key and the value of a position.
func (a *termAttention) position(at int) (k, v []float32) {
	keys, values := a.kv.page(at / compute.PagePositions)
	at %= compute.PagePositions
	part := func(b []byte, n int) []float32 {
		return unsafe.Slice((*float32)(unsafe.Pointer(&b[4*at*n])), n)
	}
	return part(keys, a.kv.Shape.Key), part(values, a.kv.Shape.Value)
}

// loadKeys makes tiles of n positions' keys; others up to whole tiles are zero.
func (a *termAttention) loadKeys(first, n int) {
	row, groups := Terms.ActRow(a.kv.Shape.Key), bf16Groups(a.kv.Shape.Key)
	for from := 0; from < bf16Groups(n)*pairRows; from += layout.MatrixRows {
		for i := range layout.MatrixRows {
			if from+i >= n {
				clear(a.rows[i*row:][:row])
				continue
			}
			key, _ := a.position(first + from + i)
			a.unit.terms(a.rows[i*row:][:row], key)
		}
		to := a.keys[from/pairRows*groups*pairPanel+from%pairRows/layout.MatrixRows*layout.PairTile:]
		for term := range layout.WeightTerms {
			a.unit.pairs(&to[2*term*layout.PairTile], pairPanel, &a.rows[term*row/layout.ActTerms], uintptr(row), uintptr(groups))
		}
	}
}

// loadValues makes tiles of values. A row is an element of the values, and a pair is that element at two positions.
func (a *termAttention) loadValues(first, n int) {
	row := Terms.ActRow(a.kv.Shape.Value)
	term := row / layout.ActTerms
	clear(a.rows[:2*row])
	for from := 0; from < bf16Groups(n)*bf16Group; from += 2 {
		for i := range 2 {
			if from+i >= n {
				clear(a.rows[i*row:][:row])
				continue
			}
			_, value := a.position(first + from + i)
			a.unit.terms(a.rows[i*row:][:row], value)
		}
		line := from/bf16Group*pairPanel + from%bf16Group/2*fetchLine
		for t := range layout.WeightTerms {
			even, odd := halfwords(a.rows[t*term:][:term]), halfwords(a.rows[row+t*term:][:term])
			for d := 0; d < a.width; d += layout.MatrixRows {
				at := d/pairRows*bf16Groups(ChunkPositions)*pairPanel + line + (2*t+d%pairRows/layout.MatrixRows)*layout.PairTile
				to := (*[layout.MatrixRows]uint32)(unsafe.Pointer(&a.values[at:][:fetchLine][0]))
				low, high := even[d:][:layout.MatrixRows], odd[d:][:layout.MatrixRows]
				for r := range to {
					to[r] = uint32(low[r]) | uint32(high[r])<<16
				}
			}
		}
	}
}

// halfwords is b, which is aligned, as numbers of 16 bits.
func halfwords(b []byte) []uint16 {
	return unsafe.Slice((*uint16)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/2)
}
