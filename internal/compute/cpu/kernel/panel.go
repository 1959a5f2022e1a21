package kernel

import (
	"unsafe"

	"github.com/powerinfer-go/powerinfer/internal/compute/cpu/layout"
)

// block is a tile of several tokens. Its tile may be called for one part of the columns after the other; acc keeps the
// accumulators in between and part tells the first and the last call.
type block struct {
	rows, tokens int
	tile         func(out *float32, outStride uintptr, w *byte, rowBytes uintptr, x *byte, xStride, n uintptr, acc *float32, part uintptr)
}

// A panel is a few packed rows expanded to bytes and float scales, so that unpacking is paid once for many tokens. It
// stays in the second-level cache while all tokens pass over it. Products have the same bits as of packed rows.
const (
	panelTokens = 16        // from so many tokens on
	panelSize   = 384 << 10 // bytes
	panelPad    = 64        // bytes between rows: of a tile they would share the sets of the first-level cache else
)

// blockRows bounds the rows that a token tile's activations meet before the next part of the columns.
const blockRows = 64

// Parts of the columns: what a tile of tokens reads of activations, and of weights at once, stays in the first-level cache.
// BF16 tiles compute less for what they read, and came out ahead with fewer sums to keep.
const (
	partSupers  = 8    // superblocks
	partFloats  = 512  // elements
	partBFloats = 4096 // elements
)

// blockScratch is the scratch memory of one MatMul of many tokens; a pool keeps them.
type blockScratch struct {
	acc   [blockRows * maxTokens * 16]float32
	panel []byte // panelSize, on a cache line
}

// maxTokens is the largest block.tokens.
const maxTokens = 4

func newBlockScratch() any {
	b := make([]byte, panelSize+63)
	at := int(-uintptr(unsafe.Pointer(unsafe.SliceData(b))) & 63)
	return &blockScratch{panel: b[at:][:panelSize]}
}

// blocks computes rows [0, rows) of all tokens.
func (c *call) blocks(s *blockScratch, rows, tokens int) {
	b := &c.m.block
	limit, expand := blockRows, false
	if c.m.expand != nil && tokens >= panelTokens {
		fit := min(blockRows, panelSize/(c.n*c.m.panelSuper+panelPad)) / c.m.panel.rows * c.m.panel.rows
		if fit > 0 {
			b, limit, expand = &c.m.panel, fit, true
		}
	}
	whole := rows / b.rows * b.rows
	for r := 0; r < whole; r += limit {
		n := min(limit, whole-r)
		w, rowBytes, step := unsafe.Add(c.w, r*c.rowBytes), c.rowBytes, c.step
		if expand {
			step = c.m.panelSuper
			rowBytes = c.n*step + panelPad
			for i := range n {
				c.m.expand(&s.panel[i*rowBytes], (*byte)(unsafe.Add(w, i*c.rowBytes)), uintptr(c.n))
			}
			w = unsafe.Pointer(&s.panel[0])
		}
		for t := 0; t+b.tokens <= tokens; t += b.tokens {
			c.tokenTile(b, s, w, rowBytes, step, r, n, t)
		}
	}
	rest := tokens / b.tokens * b.tokens
	for t := range tokens {
		if t < rest {
			c.column(whole, rows, t)
		} else {
			c.column(0, rows, t)
		}
	}
}

// tokenTile computes n rows from row r on, which lie at w, for a tile of tokens from token t on.
func (c *call) tokenTile(b *block, s *blockScratch, w unsafe.Pointer, rowBytes, step, r, n, t int) {
	size := b.rows * b.tokens * 16
	for from := 0; from < c.n; from += c.part {
		to, part := min(from+c.part, c.n), uintptr(0)
		if from == 0 {
			part |= layout.FirstPart
		}
		if to == c.n {
			part |= layout.LastPart
		}
		x := (*byte)(unsafe.Add(c.x, t*c.xStride+from*c.xStep))
		for i := 0; i < n; i += b.rows {
			b.tile(&c.out[t*c.outStride+r+i], uintptr(c.outStride*4), (*byte)(unsafe.Add(w, i*rowBytes+from*step)), uintptr(rowBytes),
				x, uintptr(c.xStride), uintptr(to-from), &s.acc[i/b.rows*size], part)
		}
	}
}
