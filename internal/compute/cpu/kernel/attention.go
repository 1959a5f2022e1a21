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

// attention is what a chunk is computed with. Tiles have at most maxTile queries; rows of
// s are PagePositions apart, rows of q and acc headDim, rows of k and v headDim.
type attention struct {
	// scores: s[t][j] = q[t]·k[j], keys rounded up to a multiple of 8.
	scores func(s, q []float32, k []uint16, tile, keys, headDim int)
	// softmax replaces the first n of s by e^(s−m) and the others by 0, with m the larger of
	// their maximum and old; it returns m and their sum. s [PagePositions], n >= 1.
	softmax func(s []float32, n int, old float32) (m, sum float32)
	// accumulate: acc[t] += Σ p[t][j]·v[j], one term after the other.
	accumulate func(acc, p []float32, v []uint16, tile, keys, headDim int)
}

const maxTile = 6

// scalarAttention is the definition.
var scalarAttention = attention{scores: scores, softmax: softmax, accumulate: accumulate}

// AttendChunk computes the attention of queries q [tokens·group, head_dim], already times the softmax
// scale, over chunk number chunk of the sequence. visible [tokens] is how many of the sequence's
// positions each token attends to: those before it and its own. The group query heads
// of a token that share this KV head lie in consecutive rows.
//
// A query's result is the same bytes in any company: every score, every sum and
// every output element is accumulated in an order that only its own position decides.
func (v *Vector) AttendChunk(out Partial, q []float32, kv *KV, visible []int32, chunk int) {
	group := len(out.Max) / len(visible)
	n := len(out.Max)
	for i := range n {
		out.Max[i], out.Sum[i] = float32(math.Inf(-1)), 0
	}
	clear(out.Acc)
	a := &v.attention
	if kv.HeadDim%8 != 0 {
		a = &scalarAttention
	}
	last := 0
	for _, p := range visible {
		last = max(last, int(p))
	}
	first := chunk * ChunkPositions
	last = min(last, first+ChunkPositions)
	for ; first < last; first += compute.PagePositions {
		k, vals := kv.page(first / compute.PagePositions)
		for i := 0; i < n; {
			tile := tileOf(n - i)
			v.attendPage(a, out, q, k, vals, visible, group, kv.HeadDim, i, tile, first)
			i += tile
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

// attendPage adds the page of positions first… to queries i…i+tile.
func (v *Vector) attendPage(a *attention, out Partial, q []float32, k, vals []uint16, visible []int32, group, headDim, i, tile, first int) {
	const page = compute.PagePositions
	var seen [maxTile]int // positions of this page that each query attends to
	least, most := page, 0
	for t := range tile {
		seen[t] = min(max(int(visible[(i+t)/group])-first, 0), page)
		least, most = min(least, seen[t]), max(most, seen[t])
	}
	if most == 0 {
		return
	}
	var s [maxTile * page]float32
	a.scores(s[:], q[i*headDim:], k, tile, most, headDim)
	for t := range tile {
		if seen[t] == 0 {
			continue
		}
		old := out.Max[i+t]
		m, sum := a.softmax(s[t*page:][:page], seen[t], old)
		if m != old {
			c := exp32(old - m)
			acc := out.Acc[(i+t)*headDim:][:headDim]
			v.Scale(acc, acc, c)
			out.Sum[i+t] *= c
		}
		out.Max[i+t] = m
		out.Sum[i+t] += sum
	}
	acc := out.Acc[i*headDim:]
	if least > 0 {
		a.accumulate(acc, s[:], vals, tile, least, headDim)
	}
	// What only some see is added one query at a time: a later token's values never meet an earlier one's sum, not even times 0.
	for t := range tile {
		if seen[t] > least {
			a.accumulate(acc[t*headDim:], s[t*page+least:], vals[least*headDim:], 1, seen[t]-least, headDim)
		}
	}
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

func softmax(s []float32, n int, old float32) (m, sum float32) {
	m = max(old, maximum(s[:n]))
	for i, e := range s[:n] {
		s[i] = exp32(e - m)
		sum += s[i]
	}
	clear(s[n:])
	return m, sum
}

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
