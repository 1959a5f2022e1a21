package kernel

import (
	"unsafe"

	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// tile computes out[t][r] = w[r]·x[t] for its R rows and T tokens over n superblocks (quantised types) or
// n groups of eight elements (float types), n > 0. Strides are bytes. It keeps no pointer.
type tile func(out *float32, outStride uintptr, w *byte, rowBytes uintptr, x *byte, xStride, n uintptr)

// tiles are one type's kernels of one instruction set. All give the same bits for the same output element.
type tiles struct {
	one     tile // 1 row, 1 token
	rows    tile // nRows rows, 1 token; nil where there is none
	nRows   int
	block   tile // bRows rows, bTokens tokens; nil where there is none
	bRows   int
	bTokens int
}

// MatMul computes out[t·outStride+r] for weights w [rows, cols], packed and contiguous, and tokens rows of x.
// For quantised types x points to quantised activations, xStride [bytes] apart, else to float32 rows.
func (k *Kernels) MatMul(t quant.Type, out []float32, outStride int, w []byte, rows, cols int, x unsafe.Pointer, xStride, tokens int) {
	rowBytes := RowBytes(t, cols)
	if rows == 0 || tokens == 0 {
		return
	}
	_ = w[rows*rowBytes-1]
	_ = out[(tokens-1)*outStride+rows-1]
	m := &k.types[t]
	steps, tail := cols/8, 0
	if Quantised(t) {
		steps = Super(cols)
	} else {
		tail = cols % 8
	}
	c := call{m: m, out: out, outStride: outStride, w: unsafe.Pointer(unsafe.SliceData(w)), rowBytes: rowBytes, x: x, xStride: xStride, n: steps}
	if steps == 0 {
		c.clear(rows, tokens)
	} else if tokens >= m.bTokens && m.block != nil && rows >= m.bRows {
		c.blocks(rows, tokens)
	} else {
		for i := range tokens {
			c.column(0, rows, i)
		}
	}
	if tail > 0 {
		addTail(t, &c, rows, cols, tail, tokens)
	}
}

// call is one MatMul's operands; a value on the stack.
type call struct {
	m         *tiles
	out       []float32
	outStride int
	w         unsafe.Pointer
	rowBytes  int
	x         unsafe.Pointer
	xStride   int
	n         int
}

func (c *call) run(f tile, r, t int) {
	f(&c.out[t*c.outStride+r], uintptr(c.outStride*4), (*byte)(unsafe.Add(c.w, r*c.rowBytes)), uintptr(c.rowBytes),
		(*byte)(unsafe.Add(c.x, t*c.xStride)), uintptr(c.xStride), uintptr(c.n))
}

// column computes rows [r, end) of one token.
func (c *call) column(r, end, t int) {
	if c.m.rows != nil {
		for ; r+c.m.nRows <= end; r += c.m.nRows {
			c.run(c.m.rows, r, t)
		}
	}
	for ; r < end; r++ {
		c.run(c.m.one, r, t)
	}
}

// blocks walks token tiles outermost: their activations stay in L1 while weight rows come from L2.
func (c *call) blocks(rows, tokens int) {
	whole := rows / c.m.bRows * c.m.bRows
	t := 0
	for ; t+c.m.bTokens <= tokens; t += c.m.bTokens {
		for r := 0; r < whole; r += c.m.bRows {
			c.run(c.m.block, r, t)
		}
		if whole < rows {
			for i := range c.m.bTokens {
				c.column(whole, rows, t+i)
			}
		}
	}
	for ; t < tokens; t++ {
		c.column(0, rows, t)
	}
}

func (c *call) clear(rows, tokens int) {
	for t := range tokens {
		clear(c.out[t*c.outStride:][:rows])
	}
}

// addTail adds the last cols%8 elements of float rows, in order, after the lanes were summed.
func addTail(t quant.Type, c *call, rows, cols, tail, tokens int) {
	var w [8]float32
	size := t.RowBytes(tail)
	for r := range rows {
		row := unsafe.Slice((*byte)(unsafe.Add(c.w, r*c.rowBytes)), c.rowBytes)
		quant.Decode(t, w[:tail], row[t.RowBytes(cols-tail):][:size])
		for i := range tokens {
			x := unsafe.Slice((*float32)(unsafe.Add(c.x, i*c.xStride)), cols)
			acc := c.out[i*c.outStride+r]
			for j, v := range x[cols-tail:] {
				acc = fma(w[j], v, acc)
			}
			c.out[i*c.outStride+r] = acc
		}
	}
}

// Dot is the product of one packed row and one token's activations, by the same order as MatMul.
func (k *Kernels) Dot(t quant.Type, row []byte, cols int, x unsafe.Pointer) float32 {
	var out [1]float32
	k.MatMul(t, out[:], 1, row, 1, cols, x, 0, 1)
	return out[0]
}
