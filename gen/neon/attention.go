package main

import (
	"fmt"
	"math"

	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// pagePositions is compute.PagePositions: keys in a block, and floats between rows of scores.
const pagePositions = 64

// rowBytes is the distance between two queries' rows of scores.
const rowBytes = 4 * pagePositions

// element is a type of the cache that kernels read without conversion: elements elements take bytes bytes.
type element struct {
	name            string
	typ             quant.Type
	elements, bytes int
}

// cached lists them. log2 of a float type's bytes follows from its size.
var cached = []element{
	{"F16", quant.F16, 8, 16}, {"BF16", quant.BF16, 8, 16}, {"F32", quant.F32, 8, 32}, {"Q8_0", quant.Q8_0, 32, 34}, {"Q4_0", quant.Q4_0, 32, 18},
}

// rowSize turns r from elements of a row into bytes.
func (f *file) rowSize(e element, r reg) {
	switch e.typ {
	case quant.F32:
		f.line("LSL $2, R%d, R%d", r, r)
	case quant.F16, quant.BF16:
		f.line("LSL $1, R%d, R%d", r, r)
	default:
		tmp := f.reg()
		f.line("LSR $5, R%d, R%d", r, r)
		f.movImm(tmp, e.bytes)
		f.line("MUL R%d, R%d, R%d", tmp, r, r)
		f.next--
	}
}

// reader reads elements.
type reader struct {
	*file
	element
	scale           vec // the block's scale
	nibbles, middle vec // masks of Q4_0
}

func (f *file) reader(e element) *reader {
	c := &reader{file: f, element: e}
	if e.elements > 8 {
		c.scale = f.vec()
	}
	if e.typ == quant.Q4_0 {
		c.nibbles, c.middle = f.vec(), f.vec()
		f.movi(c.nibbles, 0x0f)
		f.movi(c.middle, 8)
	}
	return c
}

// block begins the block at at+off.
func (c *reader) block(at reg, off int) {
	if c.elements > 8 {
		c.load('h', c.scale, at, off)
		c.halfToSingle(c.scale, c.scale)
	}
}

// eight writes eight elements, from number i of the block at at+off on, to lo and hi.
func (c *reader) eight(lo, hi vec, at reg, off, i int) {
	switch c.typ {
	case quant.Q8_0:
		c.load('d', lo, at, off+2+8*i)
	case quant.Q4_0:
		c.load('d', lo, at, off+2+8*(i%2))
		if i < 2 {
			c.op("and", lo, lo, c.nibbles)
		} else {
			c.shift("ushr", 8, lo, lo, 4)
		}
		c.op("sub.b", lo, lo, c.middle)
	default:
		c.wide(c.typ, lo, hi, at, off)
		return
	}
	c.op2("sxtl.b", lo, lo)
	c.op2("sxtl2", hi, lo)
	c.op2("sxtl", lo, lo)
	for _, v := range []vec{lo, hi} {
		c.op2("scvtf", v, v)
		c.by("fmul", v, v, c.scale, 0)
	}
}

func (f *file) attention() {
	for _, e := range cached {
		for _, t := range []struct{ queries, keys int }{{1, 8}, {2, 4}, {3, 4}, {4, 2}, {6, 2}} {
			if e.elements > 8 {
				t.keys = min(t.keys, 4) // blocks take many instructions
			}
			f.scores(e, t.queries, t.keys)
		}
	}
	f.softmax()
	for _, e := range cached {
		for _, t := range []struct {
			queries         int
			vectors, blocks []int
		}{{1, []int{8, 2, 1}, []int{8, 4}}, {2, []int{4, 1}, []int{4}}, {3, []int{3, 1}, []int{4}}, {4, []int{2, 1}, []int{2}}, {6, []int{2, 1}, []int{2}}} {
			if e.elements > 8 {
				f.accumulate(e, t.queries, t.blocks)
			} else {
				f.accumulate(e, t.queries, t.vectors)
			}
		}
	}
	f.decode(cached[3])
	f.decode(cached[4])
	f.listTiles()
}

// scores emits the products of T queries with keys, K keys at a time. Every score is eight sums over every eighth
// element, added by a tree, whatever T and K.
func (f *file) scores(e element, T, K int) {
	f.function(suffixed("scores", T, e), "func(s, q *float32, k, ahead *byte, keys, headDim int)",
		fmt.Sprintf("computes s[t][j] = q[t]·k[j] for %d queries; keys are rounded up to a multiple of 8. Scalar twin: scores.", T))
	s, ahead, keys, headDim := f.param("s"), f.param("ahead"), f.param("keys"), f.param("headDim")
	q, k := []reg{f.param("q")}, []reg{f.param("k")}
	qStride, kStride, left := f.reg(), f.reg(), f.reg()
	f.line("LSL $2, R%d, R%d", headDim, qStride)
	f.mov(kStride, headDim)
	f.rowSize(e, kStride)
	for t := 1; t < T; t++ {
		q = append(q, f.reg())
		f.add(q[t], q[t-1], qStride)
	}
	for j := 1; j < K; j++ {
		k = append(k, f.reg())
		f.add(k[j], k[j-1], kStride)
	}
	f.addImm(keys, 7)
	f.line("AND $-8, R%d, R%d", keys, keys)
	lo, hi := f.vecsOf(T*K), f.vecsOf(T*K) // [t·K+j]
	c := f.reader(e)
	f.label("keys")
	for i := range lo {
		f.zero(lo[i])
		f.zero(hi[i])
	}
	f.mov(left, headDim)
	f.label("dims")
	f.fetchAhead(ahead, e.bytes*K)
	c.addProducts(q, k, lo, hi)
	for _, p := range q {
		f.addImm(p, 4*e.elements)
	}
	for _, p := range k {
		f.addImm(p, e.bytes)
	}
	f.down(left, e.elements, "dims")
	for t := range T {
		f.sub(q[t], q[t], qStride)
		f.output(s, t*rowBytes, lo[t*K:][:K], hi[t*K:][:K])
	}
	for range K - 1 {
		for _, p := range k {
			f.add(p, p, kStride)
		}
	}
	f.addImm(s, 4*K)
	f.down(keys, K, "keys")
	f.ret()
}

// addProducts adds the products of the next elements of queries at q and of keys at k to sums: lane j of lo sums
// elements j, 8+j and so on, and hi the following four [t·K+j]. Of queries and keys, the fewer stay in registers.
func (c *reader) addProducts(q, k []reg, lo, hi []vec) {
	T, K, mark := len(q), len(k), c.vecs
	switch {
	case c.elements > 8 || T == 1:
		x, y := c.vecsOf(2), c.vecsOf(2)
		for j := range K {
			c.block(k[j], 0)
			for i := range c.elements / 8 {
				c.eight(y[0], y[1], k[j], 0, i)
				for t := range T {
					c.load('q', x[0], q[t], 32*i)
					c.load('q', x[1], q[t], 32*i+16)
					c.op("fmla", lo[t*K+j], x[0], y[0])
					c.op("fmla", hi[t*K+j], x[1], y[1])
				}
			}
		}
	case T > K:
		x, y := c.vecsOf(2), c.vecsOf(2*K)
		for j := range K {
			c.eight(y[2*j], y[2*j+1], k[j], 0, 0)
		}
		for t := range T {
			c.load('q', x[0], q[t], 0)
			c.load('q', x[1], q[t], 16)
			for j := range K {
				c.op("fmla", lo[t*K+j], x[0], y[2*j])
				c.op("fmla", hi[t*K+j], x[1], y[2*j+1])
			}
		}
	default:
		x, y := c.vecsOf(2*T), c.vecsOf(2)
		for t := range T {
			c.load('q', x[2*t], q[t], 0)
			c.load('q', x[2*t+1], q[t], 16)
		}
		for j := range K {
			c.eight(y[0], y[1], k[j], 0, 0)
			for t := range T {
				c.op("fmla", lo[t*K+j], x[2*t], y[0])
				c.op("fmla", hi[t*K+j], x[2*t+1], y[1])
			}
		}
	}
	c.vecs = mark
}

// fetchAhead prefetches the next n bytes at ahead, as many as the step has read of its own rows.
func (f *file) fetchAhead(ahead reg, n int) {
	f.ask(ahead, 0, n)
	f.addImm(ahead, n)
}

func (f *file) softmax() {
	f.function("softmaxNEON", "func(s *float32, n int, old float32) (m, sum float32)",
		"turns the first n of 64 scores into e^(s-m), the others into 0. Scalar twin: softmax.")
	s, n, table := f.param("s"), f.param("n"), f.constants()
	top, limit, index, four, lowest := f.broadcast("old"), f.vec(), f.vec(), f.vec(), f.vec()
	f.dupW(limit, n)
	f.constant(index, table, 0, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0)
	f.lanes(four, 4, 0)
	f.constant(lowest, table, splat(math.Inf(-1))...)
	mask, v := f.vec(), f.vec()
	for i := range pagePositions / 4 {
		f.load('q', v, s, 16*i)
		f.op("cmgt", mask, limit, index)
		f.op("add", index, index, four)
		f.op("bif", v, lowest, mask)
		f.store('q', v, s, 16*i)
		f.op("fmaxnm", top, top, v)
	}
	f.across("fmaxnmv", top, top)
	f.result("m", top, false)
	f.dup(top, top, 0)
	sums := f.vecsOf(2)
	for _, v := range sums {
		f.zero(v)
	}
	left := f.reg()
	f.movImm(left, pagePositions/8)
	f.label("exp")
	e := f.vec()
	for i, sum := range sums {
		f.load('q', v, s, 16*i)
		f.op("fsub", v, v, top)
		f.exp(e, v, table)
		f.store('q', e, s, 16*i)
		f.op("fadd", sum, sum, e)
	}
	f.addImm(s, 32)
	f.down(left, 1, "exp")
	f.op("faddp", sums[0], sums[0], sums[1])
	f.op("faddp", sums[0], sums[0], sums[0])
	f.pairSum(sums[0], sums[0])
	f.result("sum", sums[0], false)
	f.ret()
}

// accumulate emits the weighted sum of value rows for T queries, some eights of elements of the head at a time.
func (f *file) accumulate(e element, T int, counts []int) {
	f.function(suffixed("accumulate", T, e), "func(acc, p *float32, v, ahead *byte, keys, headDim, width int)",
		fmt.Sprintf("computes acc[t] += Σ p[t][j]·v[j] for %d queries, term after term; rows of v are width elements apart. Scalar twin: accumulate.", T))
	acc, p, v, ahead, keys, headDim, vStride := f.param("acc"), f.param("p"), f.param("v"), f.param("ahead"), f.param("keys"), f.param("headDim"), f.param("width")
	accStride := f.reg()
	f.line("LSL $2, R%d, R%d", headDim, accStride)
	f.rowSize(e, vStride)
	for _, D := range counts {
		step := max(8*D, e.elements) // for types with blocks, a pass takes whole blocks, or half of one
		loop, next := fmt.Sprintf("dims%d", 8*D), fmt.Sprintf("below%d", 8*D)
		f.label(loop)
		f.line("CMP $%d, R%d", step, headDim)
		f.branch("BLT", next)
		for first := 0; first < step/8; first += D {
			general, vectors := f.next, f.vecs
			f.pass(fmt.Sprintf("keys%dfrom%d", 8*D, first), e, first, D, T, acc, accStride, p, v, vStride, ahead, keys)
			f.next, f.vecs = general, vectors
		}
		f.addImm(acc, 4*step)
		f.addImm(v, step/e.elements*e.bytes)
		f.line("SUB $%d, R%d, R%d", step, headDim, headDim)
		f.branch("JMP", loop)
		f.label(next)
	}
	f.ret()
}

// pass adds D groups of eight of the head's elements, from group first of acc and v on.
func (f *file) pass(inner string, e element, first, D, T int, acc, accStride, p, v, vStride, ahead, keys reg) {
	sums := f.vecsOf(2 * T * D) // [t·2D+2i+half]
	row, vp, pp, left := f.reg(), f.reg(), f.reg(), f.reg()
	each := func(access func(width byte, d vec, base reg, off int)) {
		f.mov(row, acc)
		for t := range T {
			for i := range 2 * D {
				access('q', sums[t*2*D+i], row, 32*first+16*i)
			}
			if t < T-1 {
				f.add(row, row, accStride)
			}
		}
	}
	each(f.load)
	f.mov(vp, v)
	f.mov(pp, p)
	f.mov(left, keys)
	c := f.reader(e)
	// Six queries' weights are loaded again for every eight elements, as registers are few.
	again := T == 6
	var b []vec
	if again {
		b = f.vecsOf(1)
	} else {
		b = f.vecsOf(T)
	}
	lo, hi := f.vec(), f.vec()
	f.label(inner)
	f.fetchAhead(ahead, 8*D*e.bytes/e.elements)
	if !again {
		for t := range T {
			f.load('s', b[t], pp, t*rowBytes)
		}
	}
	for i := range D {
		n := first + i
		off, part := e.bytes*n, 0
		if e.elements > 8 {
			off, part = n/4*e.bytes, n%4
		}
		if part == 0 || i == 0 {
			c.block(vp, off)
		}
		c.eight(lo, hi, vp, off, part)
		for t := range T {
			w := b[0]
			if again {
				f.load('s', w, pp, t*rowBytes)
			} else {
				w = b[t]
			}
			f.by("fmla", sums[t*2*D+2*i], lo, w, 0)
			f.by("fmla", sums[t*2*D+2*i+1], hi, w, 0)
		}
	}
	f.addImm(pp, 4)
	f.add(vp, vp, vStride)
	f.down(left, 1, inner)
	each(f.store)
}

// decode emits what turns blocks into floats.
func (f *file) decode(e element) {
	f.function("decode"+e.name+"NEON", "func(dst *float32, src, ahead *byte, blocks int)", "decodes blocks of "+e.name+". Scalar twin: quant.Decode.")
	dst, src, ahead, blocks := f.param("dst"), f.param("src"), f.param("ahead"), f.param("blocks")
	c := f.reader(e)
	lo, hi := f.vec(), f.vec()
	f.label("blocks")
	f.fetchAhead(ahead, e.bytes)
	c.block(src, 0)
	for i := range e.elements / 8 {
		c.eight(lo, hi, src, 0, i)
		f.store('q', lo, dst, 32*i)
		f.store('q', hi, dst, 32*i+16)
	}
	f.addImm(src, e.bytes)
	f.addImm(dst, 4*e.elements)
	f.down(blocks, 1, "blocks")
	f.ret()
}

// listTiles writes the kernels by the cache's types and numbers of queries.
func (f *file) listTiles() {
	f.stubs.WriteString("\n// attentionTiles holds the kernels of tiles by compute.KVType.\nvar attentionTiles = [...]tileKernels{\n")
	for _, e := range cached {
		fmt.Fprintf(&f.stubs, "\tcompute.KV%s: {\n", e.name)
		for _, l := range []struct{ field, signature string }{
			{"scores", "s, q *float32, k, ahead *byte, keys, headDim int"}, {"accumulate", "acc, p *float32, v, ahead *byte, keys, headDim, width int"},
		} {
			fmt.Fprintf(&f.stubs, "\t\t%s: [...]func(%s){", l.field, l.signature)
			for i, n := range []int{1, 2, 3, 4, 6} {
				if i > 0 {
					f.stubs.WriteString(", ")
				}
				fmt.Fprintf(&f.stubs, "%d: %s", n, suffixed(l.field, n, e))
			}
			f.stubs.WriteString("},\n")
		}
		f.stubs.WriteString("\t},\n")
	}
	f.stubs.WriteString("}\n")
}
