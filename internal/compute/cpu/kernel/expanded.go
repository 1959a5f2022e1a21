package kernel

import (
	"unsafe"

	"github.com/powerinfer-go/powerinfer/internal/compute/cpu/layout"
)

// A rare type is expanded: a type that few people run has at most one product of its own, that of one token with
// consecutive rows, which takes most of the time of generation. All other products use panels, for one token or many,
// for consecutive rows or rows chosen by index. tiles.expand writes a few superblocks at a time to a panel in memory that
// stays in the first-level cache. The kernels of the type's form of scales (layout.FormOf) multiply from there.
// superblock.read is the scalar twin of every expander, and dotGeneric the scalar twin of the products, so they have the
// bits that the type's own kernel would have.

const (
	// expandedTokens bounds the tokens that pass over a panel of a few superblocks, before the next one.
	expandedTokens = 32
	// expandedAhead is the least distance, in bytes, at which rows are asked for.
	expandedAhead = 16 << 10
)

// expanded reports whether products of a few tokens use panels. Products of rare types always do.
func (m *tiles) expanded() bool { return m.each.tile != nil }

// expanded reports whether products of this many tokens with rows in order o use panels only. One token of a type that
// has kernels for it does not.
func (c *call) expanded(o Order, tokens int) bool {
	return c.m.expanded() && (tokens > 1 || len(c.ways[o].all) == 0)
}

// eachRow computes the products of tokens with count rows by tiles of some rows and one token. The rows are those that
// index lists; if it is nil, rows from row first on.
func (c *call) eachRow(s *blockScratch, out []float32, first, count int, index []int32, tokens int) {
	p := expanding{call: *c, s: s, first: first, count: count, index: index, place: c.panelPlace()}
	if c.m.pairRow != nil {
		p.place = panelPlace{together: 1, step: c.m.rowSuper}
	}
	p.pair = min(c.n, c.part)*p.place.step + panelPad
	p.ahead = c.soonRows()
	for t := 0; t < tokens; t += expandedTokens {
		for at := 0; at < count; at += c.m.each.rows {
			p.rows(out[t*c.outStride:], at, t, min(expandedTokens, tokens-t))
		}
	}
}

// soonRows returns how many rows ahead memory is asked for.
func (c *call) soonRows() int {
	return (expandedAhead/(c.m.each.rows*c.rowBytes) + 1) * c.m.each.rows
}

// expanding is a product by panels in progress.
type expanding struct {
	call
	s     *blockScratch
	first int
	count int
	index []int32
	pair  int // bytes from a row, or a pair of rows, of the panel to the next
	place panelPlace
	ahead int // the prefetch distance in rows
}

// row returns the address of the product's row number i. For rows past the last it returns the last row's.
func (p *expanding) row(i int) unsafe.Pointer {
	i = min(i, p.count-1)
	if p.index != nil {
		i = int(p.index[i])
	} else {
		i += p.first
	}
	return unsafe.Add(p.w, i*p.rowBytes)
}

// soon returns the address that is asked for while a part of row number i is expanded. It may be past the end of the
// weights, which the processor ignores, so it is no pointer.
func (p *expanding) soon(i, from int) uintptr {
	at := uintptr(p.w) + uintptr((p.first+i+p.ahead)*p.rowBytes)
	if p.index != nil {
		at = uintptr(p.row(i + p.ahead))
	}
	return at + uintptr(from*p.step)
}

// rows computes a tile's rows from number at on for n tokens from token t on, and writes to out. Near the end there may
// be fewer rows than a tile has.
func (p *expanding) rows(out []float32, at, t, n int) {
	each, tile, stride := &p.m.each, out, p.outStride
	if p.count < each.rows { // the tile's other rows are the last once more
		at, tile, stride = 0, p.s.rest[:], each.rows
	} else {
		at = min(at, p.count-each.rows)
		tile = out[at:]
	}
	for from := 0; from < p.n; from += p.part {
		to, part := min(from+p.part, p.n), p.m.panelPart
		if from == 0 {
			part |= layout.FirstPart
		}
		if to == p.n {
			part |= layout.LastPart
		}
		for i := 0; i < each.rows; i += p.place.together {
			place := func(row unsafe.Pointer) *byte { return (*byte)(unsafe.Add(row, from*p.step)) }
			panel := &p.s.panel[i/p.place.together*p.pair]
			i := at + i
			if p.place.together == 1 {
				p.expandRow(panel, place(p.row(i)), to-from, p.soon(i, from))
				continue
			}
			p.expand(panel, place(p.row(i)), place(p.row(i+1)), to-from, p.soon(i, from), p.soon(i+1, from))
		}
		for i := range n {
			each.tile(&tile[i*stride], uintptr(4*stride), &p.s.panel[0], uintptr(p.pair), (*byte)(unsafe.Add(p.x, (t+i)*p.xStride+from*p.xStep)),
				uintptr(p.xStride), uintptr(to-from), &p.s.acc[i*each.rows*accPerRow], part)
		}
	}
	if p.count < each.rows {
		for i := range n {
			copy(out[i*p.outStride:][:p.count], p.s.rest[i*each.rows:])
		}
	}
}

// expand writes n superblocks of a row of a panel, or of the two rows of a pair, and prefetches from soon and
// soonSecond meanwhile.
func (c *call) expand(dst, row, second *byte, n int, soon, soonSecond uintptr) {
	if c.m.expandPair != nil {
		c.m.expandPair(dst, row, second, uintptr(n), soon, soonSecond)
		return
	}
	c.expandRow(dst, row, n, soon)
	if c.m.panelPiece > 0 {
		c.expandRow((*byte)(unsafe.Add(unsafe.Pointer(dst), c.m.panelPiece)), second, n, soonSecond)
	}
}

func (c *call) expandRow(dst, row *byte, n int, soon uintptr) {
	if distance := soon - uintptr(unsafe.Pointer(row)); c.fetch != nil && distance != 0 && soon < c.end {
		c.fetch((*byte)(unsafe.Add(unsafe.Pointer(row), distance)), uintptr((n*c.step+fetchLine-1)/fetchLine))
	}
	c.m.expand(dst, row, uintptr(n))
}
