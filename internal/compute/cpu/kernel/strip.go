package kernel

import (
	"unsafe"

	"github.com/powerinfer-go/powerinfer/internal/compute/cpu/layout"
)

// strip is a type's kernels for a panel of few rows and one part of the columns, which stays in the first-level cache while all tokens pass over it. A panel of
// many rows, in the second-level cache, took twice as long to write. Products have the same bits as of packed rows.
type strip struct {
	rows int
	// expand writes n superblocks of packed rows, whose pairs lie pairBytes apart in a strip.
	expand func(dst *byte, pairBytes uintptr, w *byte, rowBytes, n, rows uintptr)
	// four and one compute tiles of so many tokens. They may be called for one part of the columns after the other, as a block's tile.
	four, one stripTile
}

// stripTile computes out[t][r] for a strip's rows and some tiles of tokens, one after the other, whose accumulators lie one after the other at acc. Before
// each it brings lines of memory from next on into the second-level cache.
type stripTile func(out *float32, outStride uintptr, w *byte, rowBytes uintptr, x *byte, xStride, n uintptr, acc *float32, part, tiles uintptr, next *byte, lines uintptr)

const (
	stripTokens = 4 // of a tile
	// From so many tokens on strips are faster than tiles of packed rows, but for 12 of Q4_0 and Q8_0, where these are a tenth faster.
	stripFrom = 9
	// stripActs bounds the bytes of activations that pass over a strip before the next rows, so that they stay in the second-level cache.
	stripActs = 448 << 10
	// stripAll bounds their tokens: a goroutine is not preempted inside a call, which takes about 10 µs for so many.
	stripAll = 128
	// stripAhead is how far beyond the next strip's rows memory is asked for: some strips of few tokens take no longer than memory on a busy machine. [bytes]
	stripAhead = 24 << 10
)

// strips computes rows [0, rows) of all tokens. Rows that would reach past the last begin before it instead. next is what is read after this.
func (c *call) strips(s *blockScratch, rows, tokens int, next Next) {
	k := &c.m.strip
	w := unsafe.Slice((*byte)(c.w), rows*c.rowBytes)
	atOnce := min(stripAll, max(4*stripTokens, stripActs/c.xStride))
	times := (tokens + atOnce - 1) / atOnce
	atOnce = ((tokens+times-1)/times + stripTokens - 1) / stripTokens * stripTokens // as many each time, in whole tiles
	for t := 0; t < tokens; t += atOnce {
		n := min(atOnce, tokens-t)
		then := Next{Weights: w} // for the next tokens
		if t+n == tokens {
			then = next
		}
		f := c.fetchingAhead(w, then.Weights)
		acts := fetching{from: c.fetch, left: then.Acts}
		if c.fetch != nil {
			acts.spread((rows + k.rows - 1) / k.rows)
		}
		for r := 0; r < rows; r += k.rows {
			acts.some()
			f.upTo((r+2*k.rows)*c.rowBytes+stripAhead, max(1, n/stripTokens)*((c.n+c.part-1)/c.part))
			c.strip(s, min(r, rows-k.rows), t, n, &f)
		}
	}
}

// strip computes a strip from row r on, for n tokens from token t on.
func (c *call) strip(s *blockScratch, r, t, n int, f *fetchingAhead) {
	k := &c.m.strip
	step := 2 * c.m.panelSuper
	for from := 0; from < c.n; from += c.part {
		to, part := min(from+c.part, c.n), uintptr(0)
		if from == 0 {
			part |= layout.FirstPart
		}
		if to == c.n {
			part |= layout.LastPart
		}
		rowBytes := (to-from)*step + panelPad
		k.expand(&s.panel[0], uintptr(rowBytes), (*byte)(unsafe.Add(c.w, r*c.rowBytes+from*c.step)), uintptr(c.rowBytes), uintptr(to-from), uintptr(k.rows))
		fours := n / stripTokens
		if fours > 0 {
			next, lines := f.take(fours)
			k.four(&c.out[t*c.outStride+r], uintptr(c.outStride*4), &s.panel[0], uintptr(rowBytes), (*byte)(unsafe.Add(c.x, t*c.xStride+from*c.xStep)),
				uintptr(c.xStride), uintptr(to-from), &s.acc[0], part, uintptr(fours), next, lines)
		}
		if rest := n % stripTokens; rest > 0 {
			done := n - rest
			k.one(&c.out[(t+done)*c.outStride+r], uintptr(c.outStride*4), &s.panel[0], uintptr(rowBytes),
				(*byte)(unsafe.Add(c.x, (t+done)*c.xStride+from*c.xStep)), uintptr(c.xStride), uintptr(to-from), &s.acc[done*k.rows/2*16], part, uintptr(rest), nil, 0)
		}
	}
}

// fetchingAhead is fetching of a call's weights and of those that are read then, some way ahead of what is computed.
type fetchingAhead struct {
	of   [2][]byte
	at   int // up to where, counted through both, lines were asked for
	end  int // up to where they are asked for before the next tiles
	step int // lines before each
}

// fetchingAhead returns what asks for w and next, of which the first stripAhead bytes were asked for before w.
func (c *call) fetchingAhead(w, next []byte) fetchingAhead {
	if c.fetch == nil {
		return fetchingAhead{}
	}
	return fetchingAhead{of: [2][]byte{w, next[:min(len(next), stripAhead)]}, at: min(stripAhead, len(w))}
}

// upTo spreads what there is up to an offset among so many tiles.
func (f *fetchingAhead) upTo(end, tiles int) {
	f.end = min(end, len(f.of[0])+len(f.of[1]))
	f.step = linesOf(f.end-f.at, tiles)
}

// linesOf returns how many lines each of some tiles asks for to have asked for so many bytes: perhaps some more, which does no harm.
func linesOf(bytes, tiles int) int {
	return (max(0, bytes) + tiles*fetchLine - 1) / (tiles * fetchLine)
}

// take returns the next lines for so many tiles: where they begin and how many each asks for.
func (f *fetchingAhead) take(tiles int) (next *byte, lines uintptr) {
	first := len(f.of[0])
	of, at, end := f.of[0], f.at, min(f.end, first)
	if at >= first {
		of, at, end = f.of[1], at-first, f.end-first
	}
	n := min(f.step, linesOf(end-at, tiles))
	if n == 0 {
		return nil, 0
	}
	f.at = min(f.at+tiles*n*fetchLine, f.at+end-at)
	return &of[at], uintptr(n)
}
