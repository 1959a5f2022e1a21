// Package gemm multiplies float32 matrices, for training.
//
// Operands are packed into panels a block of the inner dimension at a time, and tiles of the result are accumulated in
// registers (Goto and van de Geijn, "Anatomy of High-Performance Matrix Multiplication", 2008). An element's order of
// accumulation depends on the operands' shapes only: the same bytes for any number of threads.
package gemm

import (
	"fmt"
	"unsafe"

	"github.com/powerinfer-go/powerinfer/internal/compute/cpu/pool"
)

// Matrix is a matrix [Rows, Cols] in Data: element (i, j) lies at i·Stride+j, or at j·Stride+i where Transposed.
type Matrix struct {
	Data       []float32
	Rows, Cols int
	Stride     int // elements; at least Cols, or Rows where Transposed
	Transposed bool
}

// New returns the row-major matrix [rows, cols] in the first rows·cols elements of data.
func New(data []float32, rows, cols int) Matrix {
	return Matrix{Data: data[:rows*cols], Rows: rows, Cols: cols, Stride: cols}
}

// T is m transposed: a view.
func (m Matrix) T() Matrix {
	m.Rows, m.Cols, m.Transposed = m.Cols, m.Rows, !m.Transposed
	return m
}

// check panics where the matrix does not lie within its data.
func (m Matrix) check() {
	lines, length := m.Rows, m.Cols
	if m.Transposed {
		lines, length = length, lines
	}
	if lines < 0 || length < 0 || m.Stride < length || lines > 0 && (lines-1)*m.Stride+length > len(m.Data) {
		panic(fmt.Sprintf("gemm: %d×%d with stride %d does not lie in %d elements", m.Rows, m.Cols, m.Stride, len(m.Data)))
	}
}

// Multiplier computes products on a pool's workers. One goroutine uses it at a time, and the pool with it.
type Multiplier struct {
	pool    *pool.Pool
	set     *kernels
	scratch [][]float32 // [thread] a tile: what hangs over the result's edge is computed there

	// The product in progress.
	c, a, b    Matrix
	alpha      float32
	add        bool // to what c holds
	k0, depth  int  // the block of the inner dimension: [k0, k0+depth)
	packA      []float32
	packB      []float32
	chunksDown int // chunks of rows
	packFn     func(chunk, worker int)
	tileFn     func(chunk, worker int)
}

// Blocking. A panel of the left operand stays in the first-level cache while the panels of the right operand of one
// chunk, which stay in the second-level cache, pass by.
const (
	maxDepth  = 512 // elements of the inner dimension in a block
	chunkRows = 64
	chunkCols = 144 // a multiple of every tile's columns
)

// NewMultiplier computes with the fastest kernels of this machine, or with those of the given name.
func NewMultiplier(p *pool.Pool, name string) (*Multiplier, error) {
	set, err := find(name)
	if err != nil {
		return nil, err
	}
	g := &Multiplier{pool: p, set: set, scratch: make([][]float32, p.Threads())}
	for i := range g.scratch {
		g.scratch[i] = aligned(set.rows * set.cols)
	}
	g.packFn, g.tileFn = g.pack, g.tiles
	return g, nil
}

// Name returns the kernels' name.
func (g *Multiplier) Name() string { return g.set.name }

// Mul computes c = alpha·a·b, plus c where add is set. c [m, n] is not transposed and overlaps neither a [m, k] nor b
// [k, n].
func (g *Multiplier) Mul(c Matrix, alpha float32, a, b Matrix, add bool) {
	c.check()
	a.check()
	b.check()
	if c.Transposed || a.Rows != c.Rows || b.Cols != c.Cols || a.Cols != b.Rows {
		panic(fmt.Sprintf("gemm: %d×%d = %d×%d · %d×%d", c.Rows, c.Cols, a.Rows, a.Cols, b.Rows, b.Cols))
	}
	if c.Rows == 0 || c.Cols == 0 {
		return
	}
	if a.Cols == 0 {
		if !add {
			for i := range c.Rows {
				clear(c.Data[i*c.Stride:][:c.Cols])
			}
		}
		return
	}
	g.c, g.a, g.b, g.alpha, g.add = c, a, b, alpha, add
	blocks := ceil(a.Cols, maxDepth)
	deepest := ceil(a.Cols, blocks)
	g.packA = grown(g.packA, round(c.Rows, panelRows)*deepest)
	g.packB = grown(g.packB, round(c.Cols, g.set.cols)*deepest)
	g.chunksDown = ceil(c.Rows, chunkRows)
	for i := range blocks {
		g.k0 = a.Cols * i / blocks
		g.depth = a.Cols*(i+1)/blocks - g.k0
		g.pool.Run(g.chunksDown+ceil(c.Cols, chunkCols), g.packFn)
		g.pool.Run(g.chunksDown*ceil(c.Cols, chunkCols), g.tileFn)
		g.add = true
	}
	g.c, g.a, g.b = Matrix{}, Matrix{}, Matrix{}
}

// pack packs one chunk of the left operand's rows or of the right operand's columns.
func (g *Multiplier) pack(chunk, _ int) {
	if chunk < g.chunksDown {
		row := chunk * chunkRows
		n := min(chunkRows, g.c.Rows-row)
		g.set.pack(g.packA[row*g.depth:], panelRows, lines{g.a.Data, g.a.Stride, g.a.Transposed}, row, n, g.k0, g.depth)
		return
	}
	col := (chunk - g.chunksDown) * chunkCols
	n := min(chunkCols, g.c.Cols-col)
	g.set.pack(g.packB[col*g.depth:], g.set.cols, lines{g.b.Data, g.b.Stride, !g.b.Transposed}, col, n, g.k0, g.depth)
}

// tiles computes one chunk of the result. Rows vary fastest, so that neighbours in time share the right operand.
func (g *Multiplier) tiles(chunk, worker int) {
	row0, col0 := chunk%g.chunksDown*chunkRows, chunk/g.chunksDown*chunkCols
	row1, col1 := min(row0+chunkRows, g.c.Rows), min(col0+chunkCols, g.c.Cols)
	var add uintptr
	if g.add {
		add = 1
	}
	depth := uintptr(g.depth)
	for row := row0; row < row1; row += g.set.rows {
		a := &g.packA[row/panelRows*panelRows*g.depth+row%panelRows]
		for col := col0; col < col1; col += g.set.cols {
			b := &g.packB[col*g.depth]
			if row+g.set.rows <= row1 && col+g.set.cols <= col1 {
				g.set.tile(&g.c.Data[row*g.c.Stride+col], uintptr(4*g.c.Stride), a, b, depth, g.alpha, add)
				continue
			}
			s := g.scratch[worker]
			g.set.tile(&s[0], uintptr(4*g.set.cols), a, b, depth, g.alpha, 0)
			g.edge(s, row, col, min(g.set.rows, row1-row), min(g.set.cols, col1-col))
		}
	}
}

// edge puts the part of a tile that lies within the result there.
func (g *Multiplier) edge(tile []float32, row, col, rows, cols int) {
	for i := range rows {
		dst, src := g.c.Data[(row+i)*g.c.Stride+col:][:cols], tile[i*g.set.cols:][:cols]
		if !g.add {
			copy(dst, src)
			continue
		}
		for j, v := range src {
			dst[j] += v
		}
	}
}

func ceil(n, by int) int { return (n + by - 1) / by }

func round(n, to int) int { return ceil(n, to) * to }

// grown is b, or a larger one.
func grown(b []float32, n int) []float32 {
	if len(b) >= n {
		return b
	}
	return aligned(n)
}

// aligned is n floats that begin on a cache line.
func aligned(n int) []float32 {
	const line = 64 / 4
	b := make([]float32, n+line-1)
	at := int(-uintptr(unsafe.Pointer(unsafe.SliceData(b)))%64) / 4
	return b[at:][:n:n]
}
