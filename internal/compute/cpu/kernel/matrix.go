package kernel

import (
	"unsafe"

	"github.com/powerinfer-go/powerinfer/internal/compute/cpu/layout"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// matrix is a type's kernel for a processor's matrix unit, which multiplies tiles of layout.MatrixRows rows and
// layout.MatrixTokens tokens. Products have the same bits as those of tiles of vectors.
type matrix struct {
	// product computes tiles of tokens, of which blocks holds the quants block by block.
	product func(out *float32, outStride uintptr, w *byte, n uintptr, x, blocks *byte, xStride, tiles uintptr, scratch *byte)
	// fill makes tiles of n superblocks of rows that expand wrote.
	fill   func(dst *byte, dstStep uintptr, w *byte, pairBytes, step, n, offset, form uintptr)
	form   uintptr // layout.FormScales or another
	offset uintptr // that the panel's quants lie above their values
	unused bool
}

const (
	// From so many tokens on: a count of instructions says that tiles pay from 16 on, for twice as many they are made
	// in any case.
	matrixTokens = 2 * layout.MatrixTokens
	// matrixSize is the room for the tiles of some rows, which stay in the second-level cache, in bytes.
	matrixSize = 768 << 10
	// matrixCall bounds the superblocks of one call, during which a goroutine is not preempted: about 30 µs.
	matrixCall = 256
)

// HasMatrix reports whether there is a kernel of the processor's matrix unit for weights of type t.
func (k *Kernels) HasMatrix(t quant.Type) bool { return k.types[t].matrix.product != nil }

// UseMatrix says whether products with weights of type t, which HasMatrix, go by the matrix unit where there are enough
// tokens. They do unless told otherwise.
func (k *Kernels) UseMatrix(t quant.Type, use bool) {
	k.types[t].matrix.unused = !use
	if k.exact != nil {
		k.exact.UseMatrix(t, use)
	}
}

// matrixPlaces says where things lie in the scratch memory of a product by a matrix unit.
type matrixPlaces struct {
	tiles, panel, sums int // tiles come first; then a few superblocks of a panel, then the kernel's own memory
	pair               int // bytes from one pair of rows of the panel to the next
	step               int // bytes of a superblock of tiles
}

// matrixPlaces returns them, and whether there is room.
func (c *call) matrixPlaces() (p matrixPlaces, ok bool) {
	p.step = layout.MatrixBytes(c.m.matrix.form)
	p.pair = min(c.n, partSupers) * 2 * c.m.panelSuper
	p.panel = p.tiles + c.n*p.step
	p.sums = (p.panel + layout.MatrixRows/2*p.pair + fetchLine - 1) &^ (fetchLine - 1)
	return p, p.sums+layout.MatrixScratch <= matrixSize
}

// matrices computes rows [0, rows) of all tokens by the matrix unit, and reports whether it does. Tiles that would
// reach past the last row or token begin before it instead. next is what is read after this.
func (c *call) matrices(s *blockScratch, rows, tokens int, next Next) bool {
	if c.m.matrix.product == nil || c.m.matrix.unused || tokens < matrixTokens || rows < layout.MatrixRows {
		return false
	}
	p, ok := c.matrixPlaces()
	if !ok {
		return false
	}
	limit := max(1, matrixCall/c.n)
	calls := (tokens/layout.MatrixTokens + limit) / limit
	for r := 0; r < rows; r += layout.MatrixRows {
		first := min(r, rows-layout.MatrixRows)
		c.fillTiles(s, &p, first)
		f := c.fetching(first+layout.MatrixRows, min(layout.MatrixRows, rows-first-layout.MatrixRows), next.Weights)
		f.spread(calls)
		for t := 0; t < tokens; {
			f.some()
			n := min(limit, (tokens-t)/layout.MatrixTokens)
			from := t
			if n == 0 {
				n, from = 1, tokens-layout.MatrixTokens
			}
			t = from + n*layout.MatrixTokens
			x := unsafe.Add(c.x, from*c.xStride)
			c.m.matrix.product(&c.out[from*c.outStride+first], uintptr(4*c.outStride), &s.panel[p.tiles], uintptr(c.n),
				(*byte)(x), (*byte)(unsafe.Add(x, c.n*layout.ActBytes)), uintptr(c.xStride), uintptr(n), &s.panel[p.sums])
		}
	}
	return true
}

// fillTiles makes tiles of layout.MatrixRows rows from row first on, a few superblocks at a time.
func (c *call) fillTiles(s *blockScratch, p *matrixPlaces, first int) {
	for from := 0; from < c.n; from += partSupers {
		n := min(partSupers, c.n-from)
		for i := range layout.MatrixRows {
			w := unsafe.Add(c.w, (first+i)*c.rowBytes+from*c.step)
			c.m.expand(&s.panel[p.panel+i/2*p.pair+i%2*c.m.panelPiece], (*byte)(w), uintptr(n))
		}
		c.m.matrix.fill(&s.panel[p.tiles+from*p.step], uintptr(p.step), &s.panel[p.panel], uintptr(p.pair), uintptr(2*c.m.panelSuper), uintptr(n),
			c.m.matrix.offset, c.m.matrix.form)
	}
}
