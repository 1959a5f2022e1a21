package kernel

import (
	"encoding/binary"
	"math"
	"unsafe"

	"github.com/powerinfer-go/powerinfer/internal/compute/cpu/layout"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// Products of tiles of pairs: of prompts' floats by vectors (pairs.go), and of attention by a matrix unit in terms,
// numbers of BF16 that add up to what is multiplied: two of keys and values, and two or three of queries and weights.
// Three are exactly a float32, and the products of five pairs of terms leave out what is below 2⁻²⁴ of a product. Two
// terms, and three products, leave out about 2⁻¹⁶. Products of terms are exact; sums are float32 in the order of
// dotTermsGeneric.

// pairTiles is a type's kernel for tiles of pairs of BF16.
type pairTiles struct {
	vectors []pairVector // those for the most tokens first
	// narrow says that vectors have layout.MatrixRows rows rather than pairRows, and go by multiplyNarrow.
	narrow bool
	// fill makes tiles of n groups of layout.MatrixRows rows of BF16; nil where prompts have no products of their own.
	fill func(dst *byte, dstStep uintptr, w *byte, rowBytes, n uintptr)
	// shorten writes up to pairGroups groups of a row as integers of 16 bits and returns their
	// scale.
	shorten func(dst, w *byte, n uintptr) (scale float32)
}

// termProducts lists the terms of weights and activations that are multiplied, by the number of terms of activations.
var termProducts = [layout.ActTerms + 1][][2]int{2: {{1, 0}, {0, 0}, {0, 1}}, 3: {{0, 0}, {0, 1}, {0, 2}, {1, 0}, {1, 1}}}

const (
	pairRows   = 2 * layout.MatrixRows
	pairTokens = 2 * layout.MatrixTokens
	// pairGroups is the number of groups that are brought into pairs at a time, pairTerm the room for their rows.
	pairGroups = 16
	pairLine   = pairGroups * 2 * bf16Group
	pairTerm   = layout.MatrixRows * pairLine
)

// tileConfigs are what configures tiles, by the number of tokens: palette 1, then each tile's bytes of a row and its
// rows.
var tileConfigs = func() (all [pairTokens + 1][64]byte) {
	for tokens := 1; tokens <= pairTokens; tokens++ {
		c, first := &all[tokens], min(tokens, layout.MatrixTokens)
		c[0] = 1
		for i, rows := range [8]int{first, first, tokens - first, tokens - first, first, tokens - first, layout.MatrixRows, layout.MatrixRows} {
			if rows > 0 {
				binary.LittleEndian.PutUint16(c[16+2*i:], 64)
				c[48+i] = byte(rows)
			}
		}
	}
	return all
}()

// SplitsPrompts reports whether prompts' rows have products of their own with weights of type t: MatMulPrompt's.
func (k *Kernels) SplitsPrompts(t quant.Type) bool {
	return k.types[t].prompt.terms > 0 || k.types[t].pairs.fill != nil
}

// PromptForm returns the form in which MatMulPrompt reads activations.
func (k *Kernels) PromptForm(t quant.Type) Form {
	switch m := &k.types[t]; {
	case m.prompt.panel != nil:
		return SuperTiles
	case m.prompt.terms > 1:
		return TermTiles
	case m.prompt.terms > 0:
		return Tiles
	case m.pairs.shorten != nil:
		return Shorts
	}
	return k.Form(t)
}

// PromptRows is the number of rows that MatMulPrompt computes at a time. Other numbers take as long as the next multiple.
const PromptRows = pairRows

// MatMulPrompt is MatMulBefore for a prompt's rows, with activations in the form of PromptForm. Its products may add up
// in another order, and be rounded otherwise.
func (k *Kernels) MatMulPrompt(next Next, t quant.Type, out []float32, outStride int, w []byte, rows, cols int, x unsafe.Pointer, xStride, tokens int) {
	if !k.SplitsPrompts(t) {
		k.MatMulBefore(next, t, out, outStride, w, rows, cols, x, xStride, tokens)
		return
	}
	if rows == 0 || tokens == 0 {
		return
	}
	c := k.call(t, out, outStride, w, cols, x, xStride)
	c.form = k.PromptForm(t)
	_ = w[rows*c.rowBytes-1]
	_ = out[(tokens-1)*outStride+rows-1]
	if c.form.Tiled() {
		c.n, c.tail, c.offset = c.form.groups(cols), 0, float32(layout.Offset(t))
		if !t.Quantised() {
			c.tail = cols % bf16Group
		}
		c.byTiles(k, rows, tokens, next)
		return
	}
	c.n, c.tail, c.term = bf16Groups(cols), cols%bf16Group, bf16Acts(cols)
	s := k.scratch.Get().(*blockScratch)
	c.byPairs(s, rows, tokens, next)
	k.scratch.Put(s)
}

// bf16Groups returns the groups of n elements. The last one may be padded.
func bf16Groups(n int) int { return (n + bf16Group - 1) / bf16Group }

// byPairs computes rows [0, rows) of all tokens, one part of the columns after the other. A part's tiles stay in the
// second-level cache. Rows that would reach past the last begin earlier instead. next is read after this.
func (c *call) byPairs(s *blockScratch, rows, tokens int, next Next) {
	part := c.pairPart(s)
	if rows < pairRows {
		for t := 0; t < tokens; t += pairTokens {
			n := min(pairTokens, tokens-t)
			for from := 0; from < c.n; from += part {
				c.fillPairs(s, 0, rows, from, min(part, c.n-from))
				c.multiplyPairs(s, &s.acc[0], pairRows, t, n, from, min(part, c.n-from), &fetching{})
			}
			for i := range n {
				copy(c.out[(t+i)*c.outStride:][:rows], s.acc[i*pairRows:])
			}
		}
		return
	}
	for r := 0; r < rows; r += pairRows {
		first := min(r, rows-pairRows)
		f := c.fetching(first+pairRows, min(pairRows, rows-first-pairRows), next.Weights)
		for from := 0; from < c.n; from += part {
			n := min(part, c.n-from)
			c.fillPairs(s, first, pairRows, from, n)
			c.multiplyPairs(s, &c.out[first], c.outStride, 0, tokens, from, n, &f)
		}
	}
}

// pairStep returns the bytes of a group of tiles.
func (c *call) pairStep() int { return 2 * layout.PairTile }

// pairPart returns how many groups there is room for, in whole parts that share a scale.
func (c *call) pairPart(s *blockScratch) int {
	if c.m.pairs.narrow {
		return pairGroups
	}
	return (len(s.panel) - pairTerm) / c.pairStep() / pairGroups * pairGroups
}

// multiplyPairs computes n groups, from group from on, of the rows with tiles in s, for tokens from token t on. It
// writes outputs from out on.
func (c *call) multiplyPairs(s *blockScratch, out *float32, outStride, t, tokens, from, n int, f *fetching) {
	part := uintptr(0)
	if from == 0 {
		part = layout.FirstPart
	}
	if c.m.pairs.narrow {
		c.multiplyNarrow(s, out, outStride, t, tokens, from, n, part, f)
		return
	}
	c.multiplyVectors(s, out, outStride, t, tokens, from, n, part, f)
}

// fillPairs makes tiles of n groups, from group from on, of rows [first, first+rows), of which there are at most
// pairRows; the others are zero, and so is what the last group has behind the row's elements, as activations have.
func (c *call) fillPairs(s *blockScratch, first, rows, from, n int) {
	m, step := &c.m.pairs, c.pairStep()
	split := s.panel[len(s.panel)-pairTerm:]
	for tile := range 2 {
		r, have := first+tile*layout.MatrixRows, min(max(0, rows-tile*layout.MatrixRows), layout.MatrixRows)
		at := func(r, g int) *byte { return (*byte)(unsafe.Add(c.w, r*c.rowBytes+2*bf16Group*g)) }
		whole := have == layout.MatrixRows && m.shorten == nil
		for g := 0; g < n; g += pairGroups {
			groups, to := min(pairGroups, n-g), s.panel[g*step+tile*layout.PairTile:]
			padded := c.tail > 0 && from+g+groups == c.n
			if whole && !padded {
				m.fill(&to[0], uintptr(step), at(r, from+g), uintptr(c.rowBytes), uintptr(groups))
				continue
			}
			if have < layout.MatrixRows {
				clear(split)
			}
			for i := range have {
				row, w := &split[i*pairLine], at(r+i, from+g)
				if padded {
					n := copy(s.row[:], unsafe.Slice(w, 2*(bf16Group*(groups-1)+c.tail)))
					clear(s.row[n:])
					w = &s.row[0]
				}
				switch {
				case m.shorten != nil:
					s.scales[g/pairGroups*pairRows+tile*layout.MatrixRows+i] = m.shorten(row, w, uintptr(groups))
				default:
					copy(split[i*pairLine:], unsafe.Slice(w, 2*bf16Group*groups))
				}
			}
			m.fill(&to[0], uintptr(step), &split[0], pairLine, uintptr(groups))
		}
	}
}

// fillPairsGeneric defines fill.
func fillPairsGeneric(dst []byte, dstStep int, w []byte, rowBytes, n int) {
	for g := range n {
		for r := range layout.MatrixRows {
			for i := range bf16Group / 2 {
				copy(dst[g*dstStep+64*i+4*r:][:4], w[r*rowBytes+2*bf16Group*g+4*i:])
			}
		}
	}
}

// zipPairsGeneric defines zip.
func zipPairsGeneric(dst []byte, step int, even, odd []byte, n int) {
	for i := range n * bf16Group {
		to := dst[i/bf16Group*step+i%bf16Group/layout.MatrixRows*layout.PairTile+i%layout.MatrixRows*4:]
		copy(to[:2], even[2*i:])
		copy(to[2:4], odd[2*i:])
	}
}

// splitGeneric writes x as this many terms, term bytes apart. Each term is a number less its earlier terms, rounded to
// BF16.
func splitGeneric(dst []byte, term int, x []float32, terms int) {
	for i, v := range x {
		for t := range terms {
			bits := flushBF16(v)
			binary.LittleEndian.PutUint16(dst[t*term+2*i:], bits)
			v -= math.Float32frombits(uint32(bits) << 16)
		}
	}
}

// dotTermsGeneric returns the product of n groups of a row's terms and an activation's. For each group and each product
// of terms, it adds two sums to the result: the sum over even elements and the sum over odd ones, each starting from
// zero. It defines the products of tiles of pairs.
func dotTermsGeneric(w, x [][]uint16, n int) (sum float32) {
	return dotGroups(termProducts[len(x)], w, x, n)
}

func dotGroups(products [][2]int, w, x [][]uint16, n int) (sum float32) {
	value := func(v uint16) float32 { return flushed(math.Float32frombits(uint32(v) << 16)) }
	for g := range n {
		for _, p := range products {
			var acc [2]float32
			for i := g * bf16Group; i < (g+1)*bf16Group; i += 2 {
				for odd := range acc {
					acc[odd] = flushed(fma(value(w[p[0]][i+odd]), value(x[p[1]][i+odd]), acc[odd]))
				}
			}
			sum = flushed(sum + flushed(acc[0]+acc[1]))
		}
	}
	return sum
}
