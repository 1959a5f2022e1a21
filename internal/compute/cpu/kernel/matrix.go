package kernel

import (
	"unsafe"

	"github.com/powerinfer-go/powerinfer/internal/compute/cpu/layout"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// matrix is a type's kernel for a processor's matrix unit, which multiplies tiles of layout.MatrixRows rows and
// layout.MatrixTokens tokens. Products have the same bits as those of tiles of vectors.
type matrix struct {
	// product computes layout.MatrixTokens tokens, which gather arranged at acts, and groups of rows, whose tiles follow
	// each other.
	product func(out *float32, outStride uintptr, w *byte, n uintptr, acts *byte, groups uintptr, scratch *byte)
	// gather arranges n superblocks of tokens' activations.
	gather func(dst, x *byte, xStride, n uintptr)
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
	// matrixSize is the room for the tiles of some rows and for a tile's tokens, in bytes. They stay in the second-level
	// cache, which has 2 MiB in the processors that have a matrix unit.
	matrixSize = 1280 << 10
	// matrixCall bounds the superblocks of one call, during which a goroutine is not preempted: about 30 µs.
	matrixCall = 512
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

// matrixPlaces says what is where in the scratch memory of a product by a matrix unit: a tile's tokens at its beginning,
// then tiles of rows.
type matrixPlaces struct {
	tiles, panel, sums int // panel is for a few superblocks of rows, sums the kernel's own memory
	most               int // groups of rows that there is room for
	pair               int // bytes from one pair of rows of the panel to the next
	step               int // bytes of a superblock of tiles
}

// matrixPlaces returns them, and whether there is room.
func (c *call) matrixPlaces() (p matrixPlaces, ok bool) {
	p.step = layout.MatrixBytes(c.m.matrix.form)
	p.pair = min(c.n, partSupers) * 2 * c.m.panelSuper
	panel := (layout.MatrixRows/2*p.pair + fetchLine - 1) &^ (fetchLine - 1)
	p.tiles = c.n * layout.MatrixActs
	p.most = (matrixSize - p.tiles - panel - layout.MatrixScratch) / (c.n * p.step)
	p.panel = p.tiles + p.most*c.n*p.step
	p.sums = p.panel + panel
	return p, p.most > 0
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
	for r := 0; r < rows; r += p.most * layout.MatrixRows {
		end := min(r+p.most*layout.MatrixRows, rows)
		whole := (end - r) / layout.MatrixRows
		for g := range whole {
			c.fillTiles(s, &p, g, r+g*layout.MatrixRows)
		}
		last := end - layout.MatrixRows // begins a group that overlaps the one before
		over := last >= r+(whole-1)*layout.MatrixRows+1
		if over {
			c.fillTiles(s, &p, whole, last)
		}
		f := c.fetching(end, min(p.most*layout.MatrixRows, rows-end), next.Weights)
		f.spread((tokens + layout.MatrixTokens - 1) / layout.MatrixTokens)
		for t := 0; t < tokens; t += layout.MatrixTokens {
			f.some()
			from := min(t, tokens-layout.MatrixTokens)
			c.m.matrix.gather(&s.panel[0], (*byte)(unsafe.Add(c.x, from*c.xStride)), uintptr(c.xStride), uintptr(c.n))
			limit := max(1, matrixCall/c.n)
			for g := 0; g < whole; g += limit {
				c.multiplyTiles(s, &p, g, min(limit, whole-g), r+g*layout.MatrixRows, from)
			}
			if over {
				c.multiplyTiles(s, &p, whole, 1, last, from)
			}
		}
	}
	return true
}

// multiplyTiles computes groups of rows, the first of which is tile g and begins with row r, of the tokens from token t
// on that were gathered.
func (c *call) multiplyTiles(s *blockScratch, p *matrixPlaces, g, groups, r, t int) {
	c.m.matrix.product(&c.out[t*c.outStride+r], uintptr(4*c.outStride), &s.panel[p.tiles+g*c.n*p.step], uintptr(c.n), &s.panel[0], uintptr(groups), &s.panel[p.sums])
}

// fillTiles makes tile g of layout.MatrixRows rows from row first on, a few superblocks at a time.
func (c *call) fillTiles(s *blockScratch, p *matrixPlaces, g, first int) {
	to := p.tiles + g*c.n*p.step
	for from := 0; from < c.n; from += partSupers {
		n := min(partSupers, c.n-from)
		for i := 0; i < layout.MatrixRows; i += 2 {
			w := (*byte)(unsafe.Add(c.w, (first+i)*c.rowBytes+from*c.step))
			second := (*byte)(unsafe.Add(unsafe.Pointer(w), c.rowBytes))
			c.expand(&s.panel[p.panel+i/2*p.pair], w, second, n, uintptr(unsafe.Pointer(w)), uintptr(unsafe.Pointer(second)))
		}
		c.m.matrix.fill(&s.panel[to+from*p.step], uintptr(p.step), &s.panel[p.panel], uintptr(p.pair), uintptr(2*c.m.panelSuper), uintptr(n),
			c.m.matrix.offset, c.m.matrix.form)
	}
}
