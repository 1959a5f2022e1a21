package kernel

import (
	"unsafe"

	"github.com/powerinfer-go/powerinfer/internal/compute/cpu/layout"
)

// block is a tile of several tokens. Its tile may be called for one part of the columns after the other; acc keeps the
// accumulators in between and part tells the first and the last call.
type block struct {
	rows, tokens int
	tile         blockTile
}

type blockTile func(out *float32, outStride uintptr, w *byte, rowBytes uintptr, x *byte, xStride, n uintptr, acc *float32, part uintptr)

// A panel is a few packed rows expanded to bytes and float scales, so that unpacking is paid once for many tokens. It
// stays in the second-level cache while all tokens pass over it. Products have the same bits as of packed rows.
const (
	panelTokens = 16        // the least number of tokens
	panelSize   = 384 << 10 // bytes
	panelPad    = 64        // bytes between rows: of a tile they would share the sets of the first-level cache else
)

// blockRows bounds the rows that a token tile's activations meet before the next part of the columns.
const blockRows = 64

// Parts of the columns: what a tile of tokens reads of activations, and of weights at once, stays in the first-level
// cache. BF16 tiles compute less for what they read, and came out ahead with fewer sums to keep.
const (
	partSupers  = 8    // superblocks
	partFloats  = 512  // elements
	partBFloats = 1024 // elements
)

// blockScratch is the scratch memory of one MatMul of many tokens; a pool keeps them.
type blockScratch struct {
	acc   [blockRows * maxTokens * 16]float32
	panel []byte                                             // panelSize, on a cache line
	acts  [maxTokens / 2 * partSupers * layout.PairActs]byte // a tile's tokens of one part of the columns, arranged
	// scales of 16-bit integers, for each part of the columns of pairRows rows.
	scales [panelSize / (2 * layout.PairTile) / pairGroups * pairRows]float32
	row    [pairLine]byte // the end of a row that is no whole groups
	rest   [expandedTokens * maxRows]float32
}

// maxRows is the largest each.rows, and accPerRow the largest number of accumulators of a row and a token.
const (
	maxRows   = 8
	accPerRow = 8
)

// maxTokens is the largest block.tokens.
const maxTokens = 8

// panelPlace describes the arrangement of a panel's rows.
type panelPlace struct {
	together int // rows that are stored together: 2 in pairs, otherwise 1
	piece    int // bytes of a pair's row that alternate with the other row's
	step     int // bytes of their superblocks
	rowBytes int // bytes from one row, or pair, to the next
}

// panelPlace returns the form of panels that the call makes.
func (c *call) panelPlace() panelPlace {
	p := panelPlace{together: 1}
	if c.m.panelPiece > 0 {
		p.together, p.piece = 2, c.m.panelPiece
	}
	p.step = p.together * c.m.panelSuper
	p.rowBytes = c.n*p.step + panelPad
	return p
}

// panelRows returns how many whole rows a panel has room for. 0: this many rows and tokens do not use a panel.
func (c *call) panelRows(rows, tokens int) int {
	if c.m.panel.tile == nil || c.m.expand == nil || tokens < panelTokens || rows < c.m.panel.rows {
		return 0
	}
	place := c.panelPlace()
	return min(blockRows, panelSize/place.rowBytes*place.together) / c.m.panel.rows * c.m.panel.rows
}

func newBlockScratch() *blockScratch {
	b := make([]byte, panelSize+fetchLine-1)
	at := int(-uintptr(unsafe.Pointer(unsafe.SliceData(b))) & (fetchLine - 1))
	return &blockScratch{panel: b[at:][:panelSize]}
}

// blocks computes rows [0, rows) of all tokens. There are at least as many tokens as a tile has. A tile that would
// reach past the last row or token begins earlier instead and computes some outputs again, with the same result. next
// is read after this.
func (c *call) blocks(s *blockScratch, rows, tokens int, next Next) {
	b, limit := &c.m.block, blockRows
	at, expand := panelPlace{together: 1, step: c.step, rowBytes: c.rowBytes}, false
	if fit := c.panelRows(rows, tokens); fit > 0 {
		b, limit, at, expand = &c.m.panel, fit, c.panelPlace(), true
	}
	limit = limit / b.rows * b.rows
	for r, n := 0, 0; r < rows; r += n {
		n = max(b.rows, min(limit, rows-r)/b.rows*b.rows)
		first := min(r, rows-n)
		w := unsafe.Add(c.w, first*c.rowBytes)
		var f fetching
		if expand {
			for i := range n {
				to := &s.panel[i/at.together*at.rowBytes+i%at.together*at.piece]
				c.expandPanelRow(s, to, unsafe.Add(w, i*c.rowBytes), at.step)
			}
			w = unsafe.Pointer(&s.panel[0])
			f = c.fetching(first+n, min(limit, rows-first-n), next.Weights)
			f.spread(n / b.rows * ((tokens + b.tokens - 1) / b.tokens) * ((c.n + c.part - 1) / c.part))
		}
		for t := 0; t < tokens; t += b.tokens {
			c.tokenTile(b, s, w, at, first, n, min(t, tokens-b.tokens), &f)
		}
	}
}

// expandPanelRow writes a row of a panel, in which its superblocks are step bytes apart.
func (c *call) expandPanelRow(s *blockScratch, to *byte, row unsafe.Pointer, step int) {
	if c.m.pairRow == nil {
		c.m.expand(to, (*byte)(row), uintptr(c.n))
		return
	}
	for from := 0; from < c.n; from += c.part { // through what tiles later use for activations
		n := uintptr(min(c.part, c.n-from))
		c.m.expand(&s.acts[0], (*byte)(unsafe.Add(row, from*c.step)), n)
		c.m.pairRow((*byte)(unsafe.Add(unsafe.Pointer(to), from*step)), &s.acts[0], n)
	}
}

// fetching is memory that is brought into the second-level cache while tiles are computed from the first-level one:
// some lines before each tile, which are no more than a core waits for at a time.
type fetching struct {
	from func(p *byte, lines uintptr)
	left []byte
	step int // lines before a tile
}

// fetching returns what comes after a panel: n of the call's rows from row r on, or next if there are none.
func (c *call) fetching(r, n int, next []byte) fetching {
	if n > 0 {
		next = unsafe.Slice((*byte)(unsafe.Add(c.w, r*c.rowBytes)), n*c.rowBytes)
	}
	if c.fetch == nil {
		next = nil
	}
	return fetching{from: c.fetch, left: next}
}

// fetchLine is the number of bytes of a line.
const fetchLine = 64

// spread divides the remaining lines among this many tiles.
func (f *fetching) spread(tiles int) { f.step = (len(f.left)/fetchLine + tiles - 1) / tiles }

// some prefetches the next lines.
func (f *fetching) some() {
	n := min(f.step, len(f.left)/fetchLine)
	if n == 0 {
		return
	}
	f.from(&f.left[0], uintptr(n))
	f.left = f.left[n*fetchLine:]
}

// take returns the address of the next n lines, for a kernel that prefetches them itself, and the distance between
// them; 0: there are none.
func (f *fetching) take(n int) (at *byte, step uintptr) {
	if len(f.left) == 0 {
		return nil, 0
	}
	at = &f.left[0]
	f.left = f.left[min(n*fetchLine, len(f.left)):]
	return at, fetchLine
}

// tokenTile computes n rows from row r on, stored at w, for a tile of tokens from token t on.
func (c *call) tokenTile(b *block, s *blockScratch, w unsafe.Pointer, at panelPlace, r, n, t int, f *fetching) {
	size := b.rows * b.tokens * 16
	for from := 0; from < c.n; from += c.part {
		to, part := min(from+c.part, c.n), c.m.panelPart
		if from == 0 {
			part |= layout.FirstPart
		}
		if to == c.n {
			part |= layout.LastPart
		}
		x, stride := (*byte)(unsafe.Add(c.x, t*c.xStride+from*c.xStep)), c.xStride
		if b == &c.m.panel && c.m.arrange != nil {
			stride = (to - from) * c.m.pairActs
			for p := range b.tokens / 2 {
				c.m.arrange(&s.acts[p*stride], (*byte)(unsafe.Add(c.x, (t+2*p)*c.xStride+from*c.xStep)), uintptr(c.xStride), uintptr(to-from))
			}
			x = &s.acts[0]
		}
		if b == &c.m.panel && c.form == Floats {
			x, stride = c.apart(s, t, from, to, b.tokens)
		}
		for i := 0; i < n; i += b.rows {
			f.some()
			b.tile(&c.out[t*c.outStride+r+i], uintptr(c.outStride*4), (*byte)(unsafe.Add(w, i/at.together*at.rowBytes+from*at.step)),
				uintptr(at.rowBytes), x, uintptr(stride), uintptr(to-from), &s.acc[i/b.rows*size], part)
		}
	}
}

// apart copies a part of some tokens' activations to rows that do not share the sets of the first-level cache, and
// returns the address and the distance of the rows. In a tensor with a power of two as its row size, the rows share
// sets. That took two fifths of the products' time.
func (c *call) apart(s *blockScratch, t, from, to, tokens int) (*byte, int) {
	size := (to - from) * c.xStep
	stride := size + panelPad
	for i := range tokens {
		x := unsafe.Add(c.x, (t+i)*c.xStride+from*c.xStep)
		copy(s.acts[i*stride:][:size], unsafe.Slice((*byte)(x), size))
	}
	return &s.acts[0], stride
}
