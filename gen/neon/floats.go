package main

import (
	"fmt"

	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// Products of float weights have eight lanes in two vectors, one for each element of a group of eight or, in BF16, for
// pairs of a group of 32. Sums are computed as in dotFloatGeneric and dotPairsGeneric.

// floats is a tile or stream of a float type.
type floats struct{ kernel }

// width is the size of a group of weights.
func (k *floats) width() int {
	switch {
	case k.isa == brains:
		return 64
	case k.typ == quant.F32:
		return 32
	}
	return 16
}

// actWidth is the size of a group of activations.
func (k *floats) actWidth() int {
	if k.isa == brains {
		return 64
	}
	return 32
}

// twin names what defines the sums.
func (k *floats) twin() string {
	if k.isa == brains {
		return "dotPairsGeneric in bfloat.go"
	}
	return "dotFloatGeneric in matmul_generic.go"
}

// widen loads group g of a row as two vectors.
func (k *floats) widen(lo, hi vec, w reg, g int) {
	k.wide(k.typ, lo, hi, w, g*k.width())
}

// wide loads eight elements of t as float32.
func (f *file) wide(t quant.Type, lo, hi vec, at reg, off int) {
	f.load('q', lo, at, off)
	switch t {
	case quant.F32:
		f.load('q', hi, at, off+16)
	case quant.F16:
		f.op2("fcvtl2", hi, lo)
		f.op2("fcvtl", lo, lo)
	case quant.BF16:
		f.high16upper(hi, lo)
		f.high16(lo, lo)
	}
}

// group adds one group of every row and token: acc has the lower lanes of all, then the upper ones.
func (k *floats) group(acc []vec, g int) {
	mark := k.vecs
	if k.isa == brains {
		k.pairsOfGroup(acc, g)
		k.vecs = mark
		return
	}
	if k.t == 1 {
		lo, hi := k.vec(), k.vec()
		w := k.vecsOf(4)
		k.load('q', lo, k.x[0], 32*g)
		k.load('q', hi, k.x[0], 32*g+16)
		for r := range k.r {
			w := w[r%2*2:]
			k.widen(w[0], w[1], k.w[r], g)
			k.op("fmla", acc[r], w[0], lo)
			k.op("fmla", acc[k.r+r], w[1], hi)
		}
		k.vecs = mark
		return
	}
	w := k.vecsOf(2 * k.r)
	for r := range k.r {
		k.widen(w[2*r], w[2*r+1], k.w[r], g)
	}
	lo, hi := k.vec(), k.vec()
	for t := range k.t {
		k.load('q', lo, k.x[t], 32*g)
		k.load('q', hi, k.x[t], 32*g+16)
		for r := range k.r {
			k.op("fmla", acc[r*k.t+t], w[2*r], lo)
			k.op("fmla", acc[k.r*k.t+r*k.t+t], w[2*r+1], hi)
		}
	}
	k.vecs = mark
}

func (k *floats) step(groups int) {
	for _, w := range k.w {
		k.addImm(w, groups*k.width())
	}
	for _, x := range k.x {
		k.addImm(x, k.actWidth()*groups)
	}
}

// loop walks the groups, two at a time while there are two.
func (k *floats) walk(name string, acc []vec, ahead reg) {
	k.line("CMP $2, R%d", k.n)
	k.branch("BLT", "single")
	k.begin(name, 2*k.r*k.width()*k.t)
	k.label("pair")
	if ahead >= 0 {
		k.ask(ahead, 0, 2*k.r*k.width())
		k.addImm(ahead, 2*k.r*k.width())
	}
	k.group(acc, 0)
	k.group(acc, 1)
	k.step(2)
	k.line("SUB $2, R%d, R%d", k.n, k.n)
	k.count("sub.x")
	k.line("CMP $2, R%d", k.n)
	k.count("cmp.x")
	k.branch("BGE", "pair")
	k.stop()
	k.label("single")
	k.line("CBZ R%d, sum", k.n)
	k.group(acc, 0)
	k.step(1)
	k.label("sum")
}

// rows emits the tile of one token.
func (k *floats) rows() {
	name := k.name("tile")
	k.function(name, tileSignature+")", fmt.Sprintf("computes one token's products with %d rows of %s. Scalar twin: %s.", k.r, k.typ, k.twin()))
	k.operands(0)
	acc := k.vecsOf(2 * k.r)
	for _, a := range acc {
		k.zero(a)
	}
	ahead := reg(-1)
	if k.r > 1 {
		ahead = k.reg()
		k.add(ahead, k.w[k.r-1], k.param("rowBytes"))
	}
	k.walk(name, acc, ahead)
	k.output(k.param("out"), 0, acc[:k.r], acc[k.r:])
	k.ret()
}

// tokens emits a tile of several tokens.
func (k *floats) tokens() {
	name := k.name("tile")
	k.function(name, tileSignature+", acc *float32, part uintptr)",
		fmt.Sprintf("computes out[t][r] of %d %s rows and %d tokens. Scalar twin: %s.", k.r, k.typ, k.t, k.twin()))
	general := k.next
	k.operands(0)
	acc := k.vecsOf(2 * k.r * k.t)
	kept, part := k.param("acc"), k.param("part")
	k.clearUnless(part, "begin", acc, kept, 0)
	k.walk(name, acc, -1)
	for i, a := range acc {
		k.store('q', a, kept, 16*i)
	}
	k.next, k.vecs = general, 0
	k.sumUp()
}

// scatter emits one token's products with rows chosen by index, r at a time.
func (k *floats) scatter() {
	name := "scatter" + k.typ.String() + k.isa
	k.function(name, "func(out *float32, w *byte, rowBytes uintptr, index *int32, x *byte, n uintptr, rows uintptr)",
		fmt.Sprintf("computes one token's products with rows of %s chosen by index, a multiple of %d. Scalar twin: %s.", k.typ, k.r, k.twin()))
	out, w, rowBytes, index, x, n, rows := k.param("out"), k.param("w"), k.param("rowBytes"), k.param("index"), k.param("x"), k.param("n"), k.param("rows")
	k.w, k.x, k.n = nil, []reg{k.reg()}, k.reg()
	for range k.r {
		k.w = append(k.w, k.reg())
	}
	acc := k.vecsOf(2 * k.r)
	k.label("rows")
	for r := range k.r {
		k.pick(k.w[r], w, rowBytes, index, 4*r)
	}
	for _, a := range acc {
		k.zero(a)
	}
	k.mov(k.x[0], x)
	k.mov(k.n, n)
	k.walk(name, acc, -1)
	k.output(out, 0, acc[:k.r], acc[k.r:])
	k.addImm(out, 4*k.r)
	k.addImm(index, 4*k.r)
	k.down(rows, k.r, "rows")
	k.ret()
}
