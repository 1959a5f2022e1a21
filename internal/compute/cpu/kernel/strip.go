package kernel

import (
	"unsafe"

	"github.com/powerinfer-go/powerinfer/internal/compute/cpu/layout"
)

// strip is a type's kernels for a panel of few rows and one part of the columns, which stays in the first-level cache
// while all tokens pass over it. A panel of many rows, in the second-level cache, took twice as long to write. Products
// have the same bits as of packed rows.
type strip struct {
	rows int
	from int // the number of tokens from which on strips are faster than tiles of packed rows
	// expand writes n superblocks of packed rows to a strip with pairs pairBytes apart; nil: expandPair does.
	expand func(dst *byte, pairBytes uintptr, w *byte, rowBytes, n, rows uintptr)
	// first computes a tile of stripTokens tokens, and expands all superblocks but the first meanwhile, and then the
	// first of another strip. nil: they are expanded before.
	first firstTile
	// four and one compute tiles of four tokens and of one. They may be called for one part of the columns after the
	// other, as a block's tile.
	four, one stripTile
}

// stripTile computes out[t][r] for a strip's rows and consecutive tiles of tokens. The tiles' accumulators are
// consecutive at acc. Before each tile it prefetches lines of memory from next on into the second-level cache.
type stripTile func(out *float32, outStride uintptr, w *byte, rowBytes uintptr, x *byte, xStride, n uintptr, acc *float32, part, tiles uintptr, next *byte, lines uintptr)

// firstTile is stripTile for one tile of a strip with only the first superblock expanded. The packed rows begin at
// from. It expands the others, and then the superblock of packed rows at thenFrom to then, the beginning of a strip
// with the same rowBytes between its pairs.
type firstTile func(out *float32, outStride uintptr, w *byte, rowBytes uintptr, x *byte, xStride, n uintptr, acc *float32, part uintptr, next *byte, lines uintptr,
	from *byte, fromBytes uintptr, then, thenFrom *byte)

const (
	stripTokens = 4 // tokens of a tile
	// stripActs bounds the bytes of activations that pass over a strip before the next rows, so that they stay in the
	// second-level cache.
	stripActs = 448 << 10
	// stripAll bounds their tokens: a goroutine is not preempted inside a call, which takes about 10 µs for this many.
	stripAll = 128
	// stripAhead is the distance beyond the next strip's rows at which memory is prefetched, because on a busy machine
	// memory may take longer than a strip of few tokens. [bytes]
	stripAhead = 24 << 10
)

// strips computes rows [0, rows) of all tokens. Rows that would reach past the last begin before it instead. next is
// what is read after this.
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
		f := fetchingAhead{} // expandPair asks
		if k.expand != nil {
			f = c.fetchingAhead(w, then.Weights)
		}
		acts := fetching{from: c.fetch, left: then.Acts}
		if c.fetch != nil {
			acts.spread((rows + k.rows - 1) / k.rows)
		}
		p := c.pieces(s, rows, n)
		for r := 0; r < rows; r += k.rows {
			acts.some()
			f.upTo((r+2*k.rows)*c.rowBytes+stripAhead, max(1, n/stripTokens)*((c.n+c.part-1)/c.part))
			for from := 0; from < c.n; from += c.part {
				c.strip(s, &p, t, n, &f)
			}
		}
	}
}

// pieces are the strips of a call in order: all parts of the columns of some rows, then the next rows. If fewer rows
// are left than a strip has, the last strip begins earlier.
type pieces struct {
	rows      int
	r, from   int // the piece in progress
	to        int
	pairBytes int
	ahead     bool     // the first superblock of the next piece is expanded during this one
	begun     bool     // the first superblock of this piece is expanded
	panels    [2]*byte // the panel of this piece and of the next
}

// pieces returns the pieces of a call, before the first one.
func (c *call) pieces(s *blockScratch, rows, tokens int) pieces {
	pairBytes := min(c.n, c.part)*2*c.m.panelSuper + panelPad
	size := (c.m.strip.rows/2*pairBytes + fetchLine - 1) / fetchLine * fetchLine
	return pieces{
		rows: rows, to: min(c.part, c.n), pairBytes: pairBytes, ahead: tokens >= stripTokens && c.m.strip.first != nil,
		panels: [2]*byte{&s.panel[0], &s.panel[size]},
	}
}

// next goes on to the next piece; after the last it stays where it is.
func (p *pieces) next(c *call) {
	if p.begun = p.ahead; p.ahead {
		p.panels[0], p.panels[1] = p.panels[1], p.panels[0]
	}
	switch k := &c.m.strip; {
	case p.to < c.n:
		p.from = p.to
	case p.r+k.rows < p.rows:
		p.r, p.from = min(p.r+k.rows, p.rows-k.rows), 0
	}
	p.to = min(p.from+c.part, c.n)
}

// packed is where the piece's packed rows begin.
func (p *pieces) packed(c *call) *byte { return (*byte)(unsafe.Add(c.w, p.r*c.rowBytes+p.from*c.step)) }

// strip computes piece p, for n tokens from token t on, and goes on to the next one.
func (c *call) strip(s *blockScratch, p *pieces, t, n int, f *fetchingAhead) {
	k, part := &c.m.strip, uintptr(0)
	if p.from == 0 {
		part |= layout.FirstPart
	}
	if p.to == c.n {
		part |= layout.LastPart
	}
	out, outStride := c.out[t*c.outStride+p.r:], uintptr(c.outStride*4)
	x, xStride := unsafe.Add(c.x, t*c.xStride+p.from*c.xStep), uintptr(c.xStride)
	panel, packed, supers, pairBytes, rowBytes := p.panels[0], p.packed(c), uintptr(p.to-p.from), uintptr(p.pairBytes), uintptr(c.rowBytes)
	if !p.begun {
		expanded := supers
		if p.ahead {
			expanded = 1
		}
		if k.expand != nil {
			k.expand(panel, pairBytes, packed, rowBytes, expanded, uintptr(k.rows))
		} else {
			for i := 0; i < k.rows; i += 2 {
				first := (*byte)(unsafe.Add(unsafe.Pointer(packed), i*c.rowBytes))
				second := (*byte)(unsafe.Add(unsafe.Pointer(first), c.rowBytes))
				soon := uintptr(c.soonRows() * c.rowBytes)
				c.m.expandPair((*byte)(unsafe.Add(unsafe.Pointer(panel), i/2*int(pairBytes))), first, second, supers,
					uintptr(unsafe.Pointer(first))+soon, uintptr(unsafe.Pointer(second))+soon)
			}
		}
	}
	p.next(c)
	fours, done := n/stripTokens, 0
	next, lines := f.take(fours)
	if fours > 0 && k.first != nil {
		k.first(&out[0], outStride, panel, pairBytes, (*byte)(x), xStride, supers, &s.acc[0], part, next, lines, packed, rowBytes, p.panels[0], p.packed(c))
		if next != nil {
			next = (*byte)(unsafe.Add(unsafe.Pointer(next), lines*fetchLine))
		}
		done = stripTokens
	}
	if left := fours - done/stripTokens; left > 0 {
		k.four(&out[done*c.outStride], outStride, panel, pairBytes, (*byte)(unsafe.Add(x, done*c.xStride)), xStride, supers,
			&s.acc[done*k.rows/2*16], part, uintptr(left), next, lines)
	}
	if rest := n % stripTokens; rest > 0 {
		done = n - rest
		k.one(&out[done*c.outStride], outStride, panel, pairBytes, (*byte)(unsafe.Add(x, done*c.xStride)), xStride, supers, &s.acc[done*k.rows/2*16], part,
			uintptr(rest), nil, 0)
	}
}

// fetchingAhead is fetching of a call's weights and of the weights that are read next, some way ahead of the
// computation.
type fetchingAhead struct {
	of   [2][]byte
	at   int // up to where, counted through both, lines were asked for
	end  int // up to where they are asked for before the next tiles
	step int // lines before each
}

// fetchingAhead returns a prefetcher of w and next. The first stripAhead bytes of w were prefetched before.
func (c *call) fetchingAhead(w, next []byte) fetchingAhead {
	if c.fetch == nil {
		return fetchingAhead{}
	}
	return fetchingAhead{of: [2][]byte{w, next[:min(len(next), stripAhead)]}, at: min(stripAhead, len(w))}
}

// upTo spreads the lines up to offset end among this many tiles.
func (f *fetchingAhead) upTo(end, tiles int) {
	f.end = min(end, len(f.of[0])+len(f.of[1]))
	f.step = linesOf(f.end-f.at, tiles)
}

// linesOf returns how many lines each tile prefetches, so that all tiles together prefetch this many bytes. They may
// prefetch some more, which does no harm.
func linesOf(bytes, tiles int) int {
	return (max(0, bytes) + tiles*fetchLine - 1) / (tiles * fetchLine)
}

// take returns the next lines for this many tiles: their address and how many lines each tile prefetches.
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
