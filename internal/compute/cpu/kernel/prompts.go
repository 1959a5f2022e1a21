package kernel

import (
	"encoding/binary"
	"unsafe"

	"github.com/powerinfer-go/powerinfer/internal/compute/cpu/layout"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// Processors with a matrix unit for tiles of BF16 compute prompts' products with it. Weights of quantised types and BF16,
// and their activations, are rounded to BF16. An activation loses less by that than by int8 in blocks, and sums stay in
// the tiles, because nothing is scaled in between. F16 weights and their activations are two BF16 numbers each, their
// terms. Three of the four products of terms are added; the fourth is about 2⁻¹⁶ of the whole. Sums are float32 in the order
// of dotTilesGeneric, which is not the order of single tokens. All rows of prompts are computed in this way, so a row's
// bytes do not depend on what else is in the step.
//
// A part of the columns of some rows is expanded to tiles once for all tokens of a step. These tiles stay in the
// second-level cache while they are multiplied by all of the tokens' tiles.

// promptTiles is a type's kernels for prompts; without products there is no matrix unit.
type promptTiles struct {
	product [2]promptProduct // for one tile of tokens, or two
	terms   int
	// fill makes tiles of n groups of some rows of floats. For quantised types panel makes tiles of layout.MatrixRows rows
	// of a panel.
	fill  func(dst *byte, step uintptr, w *byte, rowBytes, n, rows uintptr)
	panel func(dst *byte, step uintptr, panel *byte, pairBytes, superBytes, n uintptr, offset float32, form uintptr)
	form  uintptr // the panel's: layout.FormScales or one of those after it
	// rows makes tiles of n superblocks of some packed rows, and is used instead of panel; nil for types that have none.
	rows func(dst *byte, step uintptr, w *byte, rowBytes, n, rows, ahead uintptr)
}

// promptProduct adds n groups' products of blocks times pairRows rows to sums. For each group of a block it prefetches
// two lines at ahead, which moves on by aheadStep bytes.
type promptProduct func(sums *float32, w *byte, n uintptr, x *byte, blocks, part uintptr, ahead *byte, aheadStep uintptr)

// matrixUnit has the kernels of a matrix unit that serve all types.
type matrixUnit struct {
	turn   func(out *float32, outStride uintptr, sums *float32, sumStep, n, tokens uintptr)
	supers func(dst *byte, x *float32, n uintptr)                         // rounds superblocks in the order of quantised types' tiles
	split  func(dst *byte, term uintptr, x *float32, n uintptr)           // makes two terms of n groups
	pairs  func(dst *byte, dstStep uintptr, w *byte, rowBytes, n uintptr) // makes tiles of tokens' rows

	zip func(dst *byte, step uintptr, even, odd *byte, n uintptr) // makes lines of tiles of two rows' pairs

	attention [layout.ActTerms + 1]termForm // by the number of terms of queries and weights
}

// tileProducts lists the terms of weights and activations that are multiplied, by the number of terms.
var tileProducts = [layout.TileTerms + 1][][2]int{1: {{0, 0}}, 2: {{0, 0}, {0, 1}, {1, 0}}}

const (
	// promptGroups is the number of groups in a part of the columns.
	promptGroups = 64
	// promptRoom is the size of the tiles of promptMost rows' part. [bytes] Tiles, activations and sums share the
	// second-level cache, which has 2 MiB in processors with such a unit.
	promptRoom = promptMost * promptGroups * 2 * bf16Group
	// promptMost bounds the rows of a call, because a goroutine is not preempted in it: it takes about 15 µs. With fewer
	// rows activations, which the second-level cache does not hold, would be read more often.
	promptMost = 8 * pairRows
	// promptTokens bounds the tokens that a row's tiles are multiplied by at a time, and so the memory for their sums.
	promptTokens = 1024
	// promptSupers is the number of superblocks in a panel that becomes tiles, so that it stays in the first-level cache.
	promptSupers = 2
)

// promptScratch is the scratch memory of prompts' products.
type promptScratch struct {
	tiles [promptRoom]byte
	sums  [promptMost * promptTokens]float32
	panel [layout.MatrixRows * promptSupers * panelSuper / 2]byte
	rows  [layout.MatrixRows * promptLine]byte // rows of activations that become a tile
}

// promptLine is the distance of promptScratch.rows: a part's terms and a line, so that rows do not share sets of the
// first-level cache.
const promptLine = layout.TileTerms*promptGroups*2*bf16Group + fetchLine

// newPromptScratch returns one that begins on a cache line.
func newPromptScratch() *promptScratch {
	b := make([]byte, unsafe.Sizeof(promptScratch{})+fetchLine)
	return (*promptScratch)(unsafe.Pointer(&b[-uintptr(unsafe.Pointer(unsafe.SliceData(b)))&(fetchLine-1)]))
}

// HasMatrix reports whether prompts go by a matrix unit.
func (k *Kernels) HasMatrix() bool { return k.unit != nil }

// groups returns the number of groups in a row of cols elements in form f. The last one may be padded.
func (f Form) groups(cols int) int {
	if f == SuperTiles {
		return Super(cols) * quant.QKK / bf16Group
	}
	return bf16Groups(cols)
}

// terms returns how many terms an activation has in form f.
func (f Form) terms() int {
	if f == TermTiles {
		return layout.TileTerms
	}
	return 1
}

// Tiled reports whether activations in form f are in tiles of TileTokens tokens. Pairs of tiles are interleaved group by
// group; a last one may be alone. ActRow is then a token's share.
func (f Form) Tiled() bool { return f == Tiles || f == SuperTiles || f == TermTiles }

// TileTokens is the number of tokens in a tile. Products begin at a multiple of twice as many.
const TileTokens = layout.MatrixTokens

// TiledBytes returns the size of the activations of that many tokens in tiles of form f.
func (f Form) TiledBytes(cols, tokens int) int {
	return (tokens + TileTokens - 1) / TileTokens * TileTokens * f.ActRow(cols)
}

// Tile makes tile number i of the activations of that many tokens, in dst [f.TiledBytes(cols, tokens)]. Token
// TileTokens·i+j is row rows[j] of x.
func (k *Kernels) Tile(f Form, dst []byte, cols, tokens, i int, x []float32, rows *[TileTokens]int32) {
	s := k.prompts.Get().(*promptScratch)
	defer k.prompts.Put(s)
	terms, groups := f.terms(), f.groups(cols)
	tiles := min(2, (tokens+TileTokens-1)/TileTokens-i&^1) // that are interleaved
	dst = dst[i&^1*TileTokens*f.ActRow(cols)+i&1*layout.PairTile:]
	step := tiles * terms * layout.PairTile
	for from := 0; from < groups; from += promptGroups {
		n := min(promptGroups, groups-from)
		for j := range min(TileTokens, tokens-i*TileTokens) {
			row := x[int(rows[j])*cols:][:cols]
			k.tileRow(f, s.rows[j*promptLine:][:terms*n*2*bf16Group], row[from*bf16Group:min(cols, (from+n)*bf16Group)], n)
		}
		for t := range terms {
			k.unit.pairs(&dst[from*step+t*tiles*layout.PairTile], uintptr(step), &s.rows[t*n*2*bf16Group], promptLine, uintptr(n))
		}
	}
}

// tileRow writes n groups of a row of activations as terms. It takes elements that x lacks at the end as zeros.
func (k *Kernels) tileRow(f Form, dst []byte, x []float32, n int) {
	unit := bf16Group
	if f == SuperTiles {
		unit = quant.QKK
	}
	write := func(dst []byte, x *float32, units int) {
		switch f {
		case SuperTiles:
			k.unit.supers(&dst[0], x, uintptr(units))
		case TermTiles:
			k.unit.split(&dst[0], uintptr(n*2*bf16Group), x, uintptr(units))
		default:
			k.round(dst[:units*2*bf16Group], unsafe.Slice(x, units*bf16Group))
		}
	}
	whole := len(x) / unit
	if whole > 0 {
		write(dst, &x[0], whole)
	}
	if rest := x[whole*unit:]; len(rest) > 0 {
		var padded [quant.QKK]float32
		copy(padded[:], rest)
		write(dst[whole*unit*2:], &padded[0], 1)
	}
}

// byTiles computes rows [0, rows) of all tokens. next is what is read after this.
func (c *call) byTiles(k *Kernels, rows, tokens int, next Next) {
	s := k.prompts.Get().(*promptScratch)
	defer k.prompts.Put(s)
	most := promptMost / c.m.prompt.terms
	for t := 0; t < tokens; t += promptTokens {
		now := min(promptTokens, tokens-t)
		for r := 0; r < rows; r += most {
			n := min(most, rows-r)
			f := c.fetching(r+n, min(most, rows-r-n), next.Weights)
			f.spread((n + pairRows - 1) / pairRows * c.n * ((now + pairTokens - 1) / pairTokens))
			f.step = min(f.step, 2)
			for from := 0; from < c.n; from += promptGroups {
				c.fillTiles(s, r, n, from)
				c.multiplyTiles(k, s, r, n, t, now, from, &f)
			}
		}
	}
}

// tileStep returns the bytes of a group of two tiles of rows.
func (c *call) tileStep() int { return 2 * c.m.prompt.terms * layout.PairTile }

// fillTiles makes tiles of rows [first, first+rows) of the part of the columns that begins with group from. The last tile
// may keep older rows behind these; their sums are never read.
func (c *call) fillTiles(s *promptScratch, first, rows, from int) {
	n := min(promptGroups, c.n-from)
	for r := 0; r < rows; r += layout.MatrixRows {
		have := min(layout.MatrixRows, rows-r)
		dst := s.tiles[r/pairRows*n*c.tileStep()+r%pairRows/layout.MatrixRows*layout.PairTile:]
		if c.m.prompt.fill != nil {
			c.fillFloats(s, dst, first+r, have, from, n)
		} else {
			c.fillSupers(s, dst, first+r, have, from, n)
		}
	}
}

// fillFloats does so for one tile's rows of floats.
func (c *call) fillFloats(s *promptScratch, dst []byte, first, rows, from, n int) {
	w, step := unsafe.Add(c.w, first*c.rowBytes+2*bf16Group*from), uintptr(c.tileStep())
	padded := c.tail > 0 && from+n == c.n
	if padded {
		n--
	}
	if n > 0 {
		c.m.prompt.fill(&dst[0], step, (*byte)(w), uintptr(c.rowBytes), uintptr(n), uintptr(rows))
	}
	if !padded {
		return
	}
	clear(s.rows[:layout.MatrixRows*2*bf16Group])
	for i := range rows {
		copy(s.rows[i*2*bf16Group:], unsafe.Slice((*byte)(unsafe.Add(w, i*c.rowBytes+2*bf16Group*n)), 2*c.tail))
	}
	c.m.prompt.fill(&dst[n*int(step)], step, &s.rows[0], 2*bf16Group, 1, layout.MatrixRows)
}

// fillSupers does so for one tile's rows of a quantised type, directly or through panels of a few superblocks.
func (c *call) fillSupers(s *promptScratch, dst []byte, first, rows, from, n int) {
	const perSuper = quant.QKK / bf16Group
	m, step := &c.m.prompt, c.tileStep()
	if m.rows != nil {
		w := (*byte)(unsafe.Add(c.w, first*c.rowBytes+from/perSuper*c.step))
		m.rows(&dst[0], uintptr(step), w, uintptr(c.rowBytes), uintptr(n/perSuper), uintptr(rows), uintptr(layout.MatrixRows*c.rowBytes))
		return
	}
	superBytes := 2 * c.m.panelSuper
	pair := promptSupers * superBytes
	for at := 0; at < n; at += promptSupers * perSuper {
		supers := min(promptSupers, (n-at)/perSuper)
		for i := 0; i < layout.MatrixRows; i += 2 { // the last row stands for those after it
			place := func(i int) *byte {
				return (*byte)(unsafe.Add(c.w, (first+min(i, rows-1))*c.rowBytes+(from+at)/perSuper*c.step))
			}
			row, second := place(i), place(i+1)
			ahead := uintptr(layout.MatrixRows * c.rowBytes)
			c.expand(&s.panel[i/2*pair], row, second, supers, uintptr(unsafe.Pointer(row))+ahead, uintptr(unsafe.Pointer(second))+ahead)
		}
		m.panel(&dst[at*step], uintptr(step), &s.panel[0], uintptr(pair), uintptr(superBytes), uintptr(supers), c.offset, m.form)
	}
}

// multiplyTiles adds the products of the part of the columns that begins with group from to the sums of rows
// [first, first+rows) and that many tokens from token t on. s holds the part's tiles. After the last part multiplyTiles
// writes the sums to the output.
func (c *call) multiplyTiles(k *Kernels, s *promptScratch, first, rows, t, tokens, from int, f *fetching) {
	m, n := &c.m.prompt, min(promptGroups, c.n-from)
	blocks, part := (rows+pairRows-1)/pairRows, uintptr(0)
	if from == 0 {
		part = layout.FirstPart
	}
	for i := 0; i < tokens; i += pairTokens {
		now := min(pairTokens, tokens-i)
		tiles := (now + TileTokens - 1) / TileTokens
		sums := s.sums[:]
		if c.n > promptGroups {
			sums = sums[i*promptMost:]
		}
		ahead, aheadStep := f.take(n * blocks * f.step)
		aheadStep *= uintptr(f.step)
		if ahead == nil {
			ahead = &s.tiles[0]
		}
		x := unsafe.Add(c.x, (t+i)*c.xStride+from*tiles*m.terms*layout.PairTile)
		m.product[tiles-1](&sums[0], &s.tiles[0], uintptr(n), (*byte)(x), uintptr(blocks), part, ahead, aheadStep)
		if from+n == c.n {
			c.turnSums(k, s, sums, first, rows, t+i, now, tiles)
		}
	}
}

// turnSums writes the sums of rows [first, first+rows) and that many tokens from token t on to the output.
func (c *call) turnSums(k *Kernels, s *promptScratch, sums []float32, first, rows, t, tokens, tiles int) {
	step := tiles * layout.PairTile
	whole := rows / layout.MatrixRows
	for i := range tiles {
		now := uintptr(min(TileTokens, tokens-i*TileTokens))
		out, from := c.out[(t+i*TileTokens)*c.outStride+first:], sums[i*layout.PairTile/4:]
		if whole > 0 {
			k.unit.turn(&out[0], uintptr(4*c.outStride), &from[0], uintptr(step), uintptr(whole), now)
		}
		if rest := rows % layout.MatrixRows; rest > 0 {
			var last [layout.MatrixRows * TileTokens]float32
			k.unit.turn(&last[0], lineBytes, &from[whole*step/4], uintptr(step), 1, now)
			for j := range int(now) {
				copy(out[j*c.outStride+whole*layout.MatrixRows:][:rest], last[j*layout.MatrixRows:])
			}
		}
	}
}

// lineBytes is the size of a tile's row.
const lineBytes = 64

// turnSumsGeneric defines turn.
func turnSumsGeneric(out []float32, outStride int, sums []float32, sumStep, n, tokens int) {
	for i := range n {
		for t := range tokens {
			for r := range layout.MatrixRows {
				out[t*outStride+i*layout.MatrixRows+r] = sums[i*sumStep+r*TileTokens+t]
			}
		}
	}
}

// splitTerms returns x as that many terms of BF16.
func splitTerms(x []float32, terms int) [][]uint16 {
	size := bf16Acts(len(x))
	b, list := make([]byte, terms*size), make([][]uint16, terms)
	splitGeneric(b, size, x, terms)
	for i := range list {
		list[i] = make([]uint16, size/2)
		for j := range list[i] {
			list[i][j] = binary.LittleEndian.Uint16(b[i*size+2*j:])
		}
	}
	return list
}

// tileValues writes superblock s of a packed row of t in the order of tiles, which round it to BF16. It defines panel.
func tileValues(t quant.Type, dst *[quant.QKK]float32, row []byte, s int) {
	var w superblock
	w.read(t, row, s)
	for i := range dst {
		scale := float32(w.scale[i/32] * float32(w.half[i/16]))
		if t.Traits().Scales == quant.SmallFloats {
			scale = w.part[i/16]
		}
		at := place(i)
		dst[at] = fma(scale, float32(w.q[at]), -float32(w.min[i/32]*float32(w.least[i/16])))
	}
}

// dotTilesGeneric returns the product of n groups of a row's terms and an activation's. For each group and each product
// of terms, it adds two sums to the result: the sum over even elements and the sum over odd ones, each starting from
// zero.
func dotTilesGeneric(w, x [][]uint16, n int) (sum float32) {
	return dotGroups(tileProducts[len(w)], w, x, n)
}

// inTiles returns x in the order of quantised types' tiles, with its last superblock padded with zeros.
func inTiles(x []float32) []float32 {
	out := make([]float32, Super(len(x))*quant.QKK)
	for i, v := range x {
		out[i&^(quant.QKK-1)+place(i&(quant.QKK-1))] = v
	}
	return out
}
