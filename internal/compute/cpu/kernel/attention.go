package kernel

import (
	"math"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// ChunkPositions is the length of a chunk: the piece of a sequence that attention treats as
// one unit of work. It is fixed, so that the order of an output's sums depends on its position alone.
const ChunkPositions = 4 * compute.PagePositions

// Chunks is the number of chunks over n positions.
func Chunks(n int) int { return (n + ChunkPositions - 1) / ChunkPositions }

// KV is what one KV head of one sequence has cached in one layer, in halves.
type KV struct {
	K, V    []uint16 // the layer's cache [pages, heads, PagePositions, head_dim]
	Pages   []int32  // page ids of the sequence
	Heads   int      // KV heads in a page
	Head    int      // this one
	HeadDim int      // anything but a multiple of 8 takes the scalar way
}

// page returns keys and values of the i-th page of the sequence. [PagePositions, head_dim]
func (kv *KV) page(i int) (k, v []uint16) {
	n := compute.PagePositions * kv.HeadDim
	at := (int(kv.Pages[i])*kv.Heads + kv.Head) * n
	return kv.K[at:][:n], kv.V[at:][:n]
}

// Partial is attention over some of the positions, not yet normalised: with scores s,
// Max = max s, Sum = Σ e^(s−Max), Acc = Σ e^(s−Max)·v. No positions: -Inf, 0, 0.
type Partial struct {
	Max, Sum []float32 // [queries]
	Acc      []float32 // [queries, head_dim]
}

// NewPartial carves a Partial for n queries out of mem, which has PartialLen(n, headDim) elements.
func NewPartial(mem []float32, n, headDim int) Partial {
	return Partial{Max: mem[:n:n], Sum: mem[n : 2*n : 2*n], Acc: mem[2*n : 2*n+n*headDim]}
}

// PartialLen is the number of elements that NewPartial needs.
func PartialLen(n, headDim int) int { return n * (headDim + 2) }

// attention names the kernels that a chunk is computed with: scores, softmax and accumulate below, or an
// instruction set's. They are called by name, not through function values, so that scratch stays on the stack.
// Tiles have at most maxTile queries; rows of s and p are PagePositions apart, all others headDim.
// ahead is what will be read next, to be fetched meanwhile.
type attention int

const (
	scalarAttention attention = iota // the definition
	avx2Attention                    // head_dim is a multiple of 8
)

const maxTile = 6

// AttendChunk computes the attention of queries q [tokens·group, head_dim], already times the softmax
// scale, over chunk number chunk of the sequence. visible [tokens] is how many of the sequence's
// positions each token attends to: those before it and its own. The group query heads
// of a token that share this KV head lie in consecutive rows.
//
// A query's result is the same bytes in any company: every score, every sum and
// every output element is accumulated in an order that only its own position decides.
func (v *Vector) AttendChunk(out Partial, q []float32, kv *KV, visible []int32, chunk int) {
	for i := range out.Max {
		out.Max[i], out.Sum[i] = float32(math.Inf(-1)), 0
	}
	clear(out.Acc)
	w := walk{v: v, kernels: v.attention, out: out, q: q, visible: visible, group: len(out.Max) / len(visible), headDim: kv.HeadDim}
	if kv.HeadDim%8 != 0 {
		w.kernels = scalarAttention
	}
	last := 0
	for _, p := range visible {
		last = max(last, int(p))
	}
	first := chunk * ChunkPositions
	last = min(last, first+ChunkPositions)
	for ; first < last; first += compute.PagePositions {
		w.first = first
		w.keys, w.values = kv.page(first / compute.PagePositions)
		w.next = w.values
		if first/compute.PagePositions+1 < len(kv.Pages) { // even of the next chunk: +40 % with one thread
			w.next, _ = kv.page(first/compute.PagePositions + 1)
		}
		for i := 0; i < len(out.Max); {
			n := tileOf(len(out.Max) - i)
			w.tile(i, n)
			i += n
		}
	}
}

// tileOf is how many of n queries go through the kernels together.
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
	v              *Vector
	kernels        attention
	out            Partial
	q              []float32 // [queries, head_dim]
	visible        []int32   // [queries/group]
	group, headDim int

	first        int      // position at which the page begins
	keys, values []uint16 // [PagePositions, head_dim]
	next         []uint16 // what is read after the values
}

// tile adds the page to queries i…i+n.
func (w *walk) tile(i, n int) {
	const page = compute.PagePositions
	var seen [maxTile]int // positions of this page that each query attends to
	least, most := page, 0
	for t := range n {
		seen[t] = min(max(int(w.visible[(i+t)/w.group])-w.first, 0), page)
		least, most = min(least, seen[t]), max(most, seen[t])
	}
	if most == 0 {
		return
	}
	var s [maxTile * page]float32
	w.kernels.scores(s[:], w.q[i*w.headDim:], w.keys, w.values, n, most, w.headDim)
	for t := range n {
		if seen[t] > 0 {
			w.weigh(i+t, s[t*page:][:page], seen[t])
		}
	}
	acc := w.out.Acc[i*w.headDim:]
	if least > 0 {
		w.kernels.accumulate(acc, s[:], w.values, w.next, n, least, w.headDim)
	}
	// What only some see is added one query at a time: a later token's values never meet an earlier one's sum, not even times 0.
	for t := range n {
		if seen[t] > least {
			w.kernels.accumulate(acc[t*w.headDim:], s[t*page+least:], w.values[least*w.headDim:], w.next, 1, seen[t]-least, w.headDim)
		}
	}
}

// weigh turns query i's first n scores into weights, and brings what it has summed so far to their maximum.
func (w *walk) weigh(i int, s []float32, n int) {
	old := w.out.Max[i]
	m, sum := w.kernels.softmax(s, n, old)
	if m != old {
		c := exp32(old - m)
		acc := w.out.Acc[i*w.headDim:][:w.headDim]
		w.v.Scale(acc, acc, c)
		w.out.Sum[i] *= c
	}
	w.out.Max[i] = m
	w.out.Sum[i] += sum
}

// Merge adds next, the chunk that follows, to sum. Chunks are merged in their order.
func (v *Vector) Merge(sum, next Partial) {
	headDim := len(sum.Acc) / len(sum.Max)
	for i, m := range next.Max {
		if next.Sum[i] == 0 {
			continue
		}
		m = max(m, sum.Max[i])
		a, b := exp32(sum.Max[i]-m), exp32(next.Max[i]-m)
		sum.Max[i] = m
		sum.Sum[i] = sum.Sum[i]*a + next.Sum[i]*b
		acc := sum.Acc[i*headDim:][:headDim]
		v.Scale(acc, acc, a)
		v.AddScaled(acc, next.Acc[i*headDim:][:headDim], b)
	}
}

// Finish writes query i's attention, normalised, to out [head_dim].
func (v *Vector) Finish(out []float32, p Partial, i int) {
	v.Scale(out, p.Acc[i*len(out):][:len(out)], 1/p.Sum[i])
}

// scores: s[t][j] = q[t]·k[j]; the fast ones round keys up to a multiple of 8.
func scores(s, q []float32, k []uint16, tile, keys, headDim int) {
	for t := range tile {
		for j := range keys {
			dot := float32(0)
			for d, h := range k[j*headDim:][:headDim] {
				dot += q[t*headDim+d] * quant.F32FromF16(h)
			}
			s[t*compute.PagePositions+j] = dot
		}
	}
}

// softmax replaces the first n of s by e^(s−m) and the others by 0, with m the larger of
// their maximum and old; it returns m and their sum. s [PagePositions], n >= 1.
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
func accumulate(acc, p []float32, v []uint16, tile, keys, headDim int) {
	for t := range tile {
		a := acc[t*headDim:][:headDim]
		for j := range keys {
			w := p[t*compute.PagePositions+j]
			for d, h := range v[j*headDim:][:headDim] {
				a[d] += w * quant.F32FromF16(h)
			}
		}
	}
}
