package kernel

import (
	"math"
	"unsafe"

	"github.com/powerinfer-go/powerinfer/internal/compute/cpu/layout"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// tile computes out[t][r] = w[r]·x[t] for its R rows and T tokens over n superblocks (quantised types) or
// n groups of eight elements (float types), n > 0. Strides are bytes. It keeps no pointer.
type tile func(out *float32, outStride uintptr, w *byte, rowBytes uintptr, x *byte, xStride, n uintptr)

// tiles are one type's kernels of one instruction set, but for its ways. All give the same bits for the same output
// element.
type tiles struct {
	one    tile  // 1 row, 1 token; nil where a way of consecutive rows takes any number
	block  block // some rows and tokens of packed weights
	few    few   // as many rows of packed weights and a few tokens
	panel  block // some rows and tokens of a panel
	each   block // some rows of a panel and one token: for a few tokens of types that have it, and for one token of rare types
	strip  strip // instead of panel; no rows where there is none
	expand func(dst, w *byte, n uintptr)
	// expandPair is expand for the two rows of a pair. It prefetches from two addresses, which may be past the end of
	// all weights. nil: there is only expand.
	expandPair func(dst, first, second *byte, n, soon, soonSecond uintptr)
	// pairRow writes n superblocks that expand wrote, rowSuper bytes each, as one row of a panel's pair. Each's panel has
	// them as expand wrote them. Nil: expand writes what all panels have.
	pairRow  func(dst, panel *byte, n uintptr)
	rowSuper int
	// rounded writes n groups of weights as RoundsTo's; nil where nothing is rounded.
	rounded func(dst, w *byte, n uintptr)
	// The size of a panel's superblock, or group.
	panelSuper int
	prompt     promptTiles // for prompts by a matrix unit
	pairs      pairTiles   // for prompts by vectors
	// Flags of every part in panel's calls, in addition to layout.FirstPart and LastPart.
	panelPart uintptr
	// Bytes of a row that alternate with the other row's in a panel of pairs; 0 if the panel has no pairs.
	panelPiece int
	// arrange writes n superblocks, or groups, of two tokens' activations as a panel's tile reads them, pairActs bytes
	// each; nil where it reads them as they are.
	arrange  func(dst, x *byte, xStride, n uintptr)
	pairActs int
}

// MatMul computes out[t·outStride+r] for weights w [rows, cols], packed and contiguous, and tokens rows of x.
// x points to activations in the form of t, rows xStride [bytes] apart.
func (k *Kernels) MatMul(t quant.Type, out []float32, outStride int, w []byte, rows, cols int, x unsafe.Pointer, xStride, tokens int) {
	k.MatMulBefore(Next{}, t, out, outStride, w, rows, cols, x, xStride, tokens)
}

// Next holds the memory that is read after a product, which may be prefetched meanwhile: rows of weights, and the
// tokens' activations where those are not the same. Either may be empty.
type Next struct {
	Weights, Acts []byte
}

// MatMulBefore is MatMul before another product, for which next is asked for in time if the products of w leave some.
// It reads nothing of that.
func (k *Kernels) MatMulBefore(next Next, t quant.Type, out []float32, outStride int, w []byte, rows, cols int, x unsafe.Pointer, xStride, tokens int) {
	if rows == 0 || tokens == 0 {
		return
	}
	c := k.call(t, out, outStride, w, cols, x, xStride)
	_ = w[rows*c.rowBytes-1]
	_ = out[(tokens-1)*outStride+rows-1]
	if c.n == 0 {
		for i := range tokens {
			clear(out[i*outStride:][:rows])
		}
	} else if c.expanded(Consecutive, tokens) || tokens >= c.m.leastTokens() && rows >= c.m.block.rows {
		s := k.scratch.Get().(*blockScratch)
		switch {
		case c.m.strip.rows > 0 && tokens >= c.m.strip.from && rows >= c.m.strip.rows:
			c.strips(s, rows, tokens, next)
		case c.expanded(Consecutive, tokens) && c.panelRows(rows, tokens) == 0:
			c.eachRow(s, c.out, 0, rows, nil, tokens)
		case c.goesByFew(tokens):
			c.fews(s, rows, tokens)
		default:
			c.blocks(s, rows, tokens, next)
		}
		k.scratch.Put(s)
	} else {
		for i := range tokens {
			c.column(0, rows, i)
		}
	}
	if c.tail > 0 {
		for r := range rows {
			c.addTail(t, r, r, cols, tokens)
		}
	}
}

// DotRows computes out[i] = w[index[i]]·x for rows of packed weights chosen by index and one token's activations, with
// MatMul's order of additions. Every index must be a row of w.
func (k *Kernels) DotRows(t quant.Type, out []float32, w []byte, index []int32, cols int, x unsafe.Pointer) {
	c := k.call(t, out, 0, w, cols, x, 0)
	_ = out[:len(index)]
	for _, r := range index {
		_ = w[int(r)*c.rowBytes:][:c.rowBytes]
	}
	done := 0
	if c.expanded(Scattered, 1) && c.n > 0 && len(index) > 0 {
		s := k.scratch.Get().(*blockScratch)
		c.eachRow(s, out, 0, len(index), index, 1)
		k.scratch.Put(s)
		done = len(index)
	} else if s := c.ways[Scattered].of(0); s != nil && c.n > 0 {
		unit := s.rows
		whole := len(index) / unit * unit
		for done < whole {
			n := min(whole-done, max(unit, c.rowsPerCall()/unit*unit))
			s.scatter(&out[done], (*byte)(c.w), uintptr(c.rowBytes), &index[done], (*byte)(x), uintptr(c.n), uintptr(n))
			done += n
		}
	}
	for i := done; i < len(index); i++ {
		out[i] = 0
		if c.n > 0 {
			c.dotRow(&out[i], int(index[i]))
		}
	}
	if c.tail > 0 {
		for i, r := range index {
			c.addTail(t, int(r), i, cols, 1)
		}
	}
}

// dotRow computes one row's product with one token's activations.
func (c *call) dotRow(out *float32, row int) {
	w, bytes := (*byte)(unsafe.Add(c.w, row*c.rowBytes)), uintptr(c.rowBytes)
	if c.m.one != nil {
		c.m.one(out, 0, w, bytes, (*byte)(c.x), 0, uintptr(c.n))
		return
	}
	c.ways[Consecutive].all[0].stream(out, w, bytes, (*byte)(c.x), uintptr(c.n), 1)
}

// Dot returns the product of one packed row and one token's activations, by the same order as MatMul.
func (k *Kernels) Dot(t quant.Type, row []byte, cols int, x unsafe.Pointer) float32 {
	var out [1]float32
	k.MatMul(t, out[:], 1, row, 1, cols, x, 0, 1)
	return out[0]
}

// call is one product's operands; a value on the stack.
type call struct {
	m         *tiles
	ways      *[Orders]ways
	out       []float32
	outStride int
	w         unsafe.Pointer
	end       uintptr // the end of w
	rowBytes  int
	x         unsafe.Pointer
	xStride   int
	n         int // superblocks, or groups of eight elements
	tail      int // elements of float rows after the last whole group
	term      int // bytes from a row of activations to its next term, or to its scales
	// Bytes of weights and of activations in a step of n, and the steps that are computed at a time for many tokens.
	step, xStep, part int
	form              Form
	offset            float32 // of panels' quants above their values
	fetch             func(p *byte, lines uintptr)
}

func (k *Kernels) call(t quant.Type, out []float32, outStride int, w []byte, cols int, x unsafe.Pointer, xStride int) call {
	c := call{
		m: &k.types[t], ways: &k.ways[t], out: out, outStride: outStride, w: unsafe.Pointer(unsafe.SliceData(w)), rowBytes: RowBytes(t, cols),
		x: x, xStride: xStride, form: k.Form(t), fetch: k.fetch,
	}
	c.end = uintptr(c.w) + uintptr(len(w))
	switch c.form {
	case Int8:
		c.n, c.step, c.xStep, c.part = Super(cols), layout.Of(t).Bytes, layout.ActBytes, partSupers
	case BFloats:
		c.n, c.tail = cols/bf16Group, cols%bf16Group
		c.step, c.xStep, c.part = 2*bf16Group, 2*bf16Group, partBFloats/bf16Group
	default:
		c.n, c.tail = cols/8, cols%8
		c.step, c.xStep, c.part = t.RowBytes(8), 32, partFloats/8
	}
	return c
}

func (c *call) run(f tile, r, t int) {
	f(&c.out[t*c.outStride+r], uintptr(c.outStride*4), (*byte)(unsafe.Add(c.w, r*c.rowBytes)), uintptr(c.rowBytes),
		(*byte)(unsafe.Add(c.x, t*c.xStride)), uintptr(c.xStride), uintptr(c.n))
}

// streamBytes bounds one call of a kernel that loops over rows: a goroutine is not preempted inside, and this takes
// some tens of microseconds from memory.
const streamBytes = 256 << 10

func (c *call) rowsPerCall() int { return max(1, streamBytes/c.rowBytes) }

// Bytes of a row's activations that bound classes. Up to nearActs, a first-level cache of 32 KiB keeps them from one
// row to the next while weights pass through it. Up to streamActs it keeps most of them; farActs is that bound if the
// hardware does not bring weights there early.
const (
	nearActs   = 10 << 10
	streamActs = 22 << 10
	farActs    = 26 << 10
)

// column computes rows [r, end) of one token.
func (c *call) column(r, end, t int) {
	if w := c.ways[Consecutive].of(classOf(c.n * c.xStep)); w != nil {
		r = c.by(w, r, end, t)
	}
	if r < end && c.m.one == nil { // rows that do not fill a tile
		r = c.by(&c.ways[Consecutive].all[0], r, end, t)
	}
	for ; r < end; r++ {
		c.run(c.m.one, r, t)
	}
}

// addTail adds the last elements of float row r, in order, after the lanes were summed, to output at of every token.
func (c *call) addTail(t quant.Type, r, at, cols, tokens int) {
	var wMem, xMem [bf16Group]float32
	w := wMem[:c.tail]
	row := unsafe.Slice((*byte)(unsafe.Add(c.w, r*c.rowBytes)), c.rowBytes)
	from := cols - c.tail
	if c.form == BFloats {
		for i := range w {
			w[i] = bf16Weight(t, row, from+i)
		}
	} else {
		quant.Decode(t, w, row[t.RowBytes(from):])
	}
	for i := range tokens {
		at := &c.out[i*c.outStride+at]
		for j, v := range c.tailOf(unsafe.Add(c.x, i*c.xStride), from, xMem[:c.tail]) {
			*at = fma(w[j], v, *at)
		}
	}
}

// tailOf returns a row of activations from element from on; buf is free.
func (c *call) tailOf(x unsafe.Pointer, from int, buf []float32) []float32 {
	if c.form == Floats {
		return unsafe.Slice((*float32)(x), from+len(buf))[from:]
	}
	for i, v := range unsafe.Slice((*uint16)(x), from+len(buf))[from:] {
		buf[i] = flushed(math.Float32frombits(uint32(v) << 16))
	}
	return buf
}
