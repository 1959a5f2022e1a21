package kernel

import (
	"math"
	"unsafe"

	"github.com/powerinfer-go/powerinfer/internal/compute/cpu/layout"
)

// few is a type's tiles of two, three and four tokens over packed rows. Each has as many rows as the type's block. They
// are nil where there is no assembly.
type few [3]blockTile

// tokensOf returns how many of the tokens that are left the next tile takes. Of two or more it never leaves one.
func (f *few) tokensOf(left int) int {
	most := len(f) + 1
	tiles := (left + most - 1) / most
	return (left + tiles - 1) / tiles
}

// leastTokens returns the least number of tokens that there are tiles for.
func (m *tiles) leastTokens() int {
	switch {
	case m.few[0] != nil:
		return 2
	case m.block.tile != nil:
		return m.block.tokens
	}
	return math.MaxInt
}

// goesByFew reports whether this many tokens, too few for strips, use tiles of a few tokens.
func (c *call) goesByFew(tokens int) bool {
	return c.m.few[0] != nil && (c.m.panel.tile == nil || tokens < panelTokens)
}

// fews computes rows [0, rows) of all tokens, which are two or more. Rows that would reach past the last begin before
// it instead.
func (c *call) fews(s *blockScratch, rows, tokens int) {
	step := c.m.block.rows
	for r, n := 0, 0; r < rows; r += n {
		n = min(blockRows, (rows-r+step-1)/step*step)
		for t := 0; t < tokens; {
			of := c.m.few.tokensOf(tokens - t)
			for from := 0; from < c.n; from += c.part {
				c.fewPart(s, of, r, min(r+n, rows), t, from)
			}
			t += of
		}
	}
}

// fewPart computes rows [r, end) of some tokens from token t on and one part of the columns.
func (c *call) fewPart(s *blockScratch, tokens, r, end, t, from int) {
	to, part, step := min(from+c.part, c.n), uintptr(0), c.m.block.rows
	if from == 0 {
		part |= layout.FirstPart
	}
	if to == c.n {
		part |= layout.LastPart
	}
	if t > 0 {
		part |= layout.Fetched
	}
	x, size := (*byte)(unsafe.Add(c.x, t*c.xStride+from*c.xStep)), step*tokens*16
	for i := 0; r+i < end; i += step {
		first := min(r+i, end-step)
		c.m.few[tokens-2](&c.out[t*c.outStride+first], uintptr(c.outStride*4), (*byte)(unsafe.Add(c.w, first*c.rowBytes+from*c.step)), uintptr(c.rowBytes),
			x, uintptr(c.xStride), uintptr(to-from), &s.acc[i/step*size], part)
	}
}
