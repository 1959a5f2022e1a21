package main

import (
	"fmt"
	"math"
)

// Kernels that are not matrix products. What works element by element takes the last elements of a row one by one with
// the same instructions, so that an element's result does not depend on where a row was cut.

func vectors(f *file) {
	f.elementwise()
	f.maximum()
	f.halves()
	f.norms()
	f.rotations()
	f.scan()
	f.delta()
	f.attention()
}

// splat returns n as a constant's bytes.
func splat(n float64) []byte { return float32s(float32(n)) }

// The constants of exp32 in activation.go, from the highest power down.
var exps = []float64{1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1}

// exp leaves e^x in d, which is not x.
func (f *file) exp(d, x vec, table reg) {
	mark := f.vecs
	n, r, p, c := f.vec(), f.vec(), f.vec(), f.vec()
	f.constant(c, table, splat(math.Log2E)...)
	f.op("fmul", n, x, c)
	f.op2("frintn", n, n)
	f.move(r, x)
	f.constant(c, table, splat(0.693359375)...)
	f.op("fmls", r, n, c)
	f.constant(c, table, splat(-2.12194440e-4)...)
	f.op("fmls", r, n, c)
	f.constant(p, table, splat(exps[0])...)
	for _, e := range exps[1:] {
		f.constant(c, table, splat(e)...)
		f.op("fmla", c, p, r)
		p, c = c, p
	}
	f.op("fmul", c, r, r)
	f.op("fmla", r, p, c)
	f.power(c, 0)
	f.op("fadd", r, r, c)
	f.op2("fcvtns", n, n)
	f.shift("shl", 32, n, n, 23)
	f.op("add", r, r, n)
	f.constant(c, table, splat(-87.33654)...)
	f.op("fcmgt", c, c, x)
	f.op("bic", d, r, c)
	f.constant(c, table, splat(88.72283)...)
	f.op("fcmgt", c, x, c)
	f.constant(p, table, splat(math.Inf(1))...)
	f.op("bit", d, p, c)
	f.vecs = mark
}

// each emits body for n elements: several vectors at a time, then one, then one element. body gets the width of what it
// loads and the number of vectors; pointers are advanced here.
func (f *file) each(n reg, unroll int, pointers []reg, body func(width byte, i int)) {
	for _, step := range []struct {
		label   string
		width   byte
		vectors int
	}{{"many", 'q', unroll}, {"four", 'q', 1}, {"one", 's', 1}} {
		size := widths[step.width].bytes * step.vectors
		f.label(step.label)
		f.line("CMP $%d, R%d", size/4, n)
		f.branch("BLT", step.label+"done")
		mark := f.vecs
		for i := range step.vectors {
			f.vecs = mark
			body(step.width, i)
		}
		f.vecs = mark
		for _, p := range pointers {
			f.addImm(p, size)
		}
		f.line("SUB $%d, R%d, R%d", size/4, n, n)
		f.branch("JMP", step.label)
		f.label(step.label + "done")
	}
}

// row emits dst = g(sources…) element by element; the parameters follow dst in signature order, s is a scalar.
func (f *file) row(name, twin, doc string, sources []string, scalar bool, unroll int, g func(x []vec, s vec, table reg)) {
	signature := "func(dst"
	for _, x := range sources {
		signature += ", " + x
	}
	signature += " *float32, n int"
	if scalar {
		signature += ", s float32"
	}
	f.function(name+"NEON", signature+")", "computes "+doc+". Scalar twin: "+twin+".")
	pointers := []reg{f.param("dst")}
	for _, x := range sources {
		pointers = append(pointers, f.param(x))
	}
	n, table := f.param("n"), f.constants()
	var s vec
	if scalar {
		s = f.broadcast("s")
	}
	f.each(n, unroll, pointers, func(width byte, i int) {
		x := f.vecsOf(len(sources))
		for j := range x {
			f.load(width, x[j], pointers[1+j], 16*i)
		}
		g(x, s, table)
		f.store(width, x[0], pointers[0], 16*i)
	})
	f.ret()
}

func (f *file) elementwise() {
	f.row("add", "add", "dst = y + x", []string{"y", "x"}, false, 4, func(x []vec, _ vec, _ reg) { f.op("fadd", x[0], x[0], x[1]) })
	f.row("mul", "mul", "dst = y·x", []string{"y", "x"}, false, 4, func(x []vec, _ vec, _ reg) { f.op("fmul", x[0], x[0], x[1]) })
	f.row("scale", "scale", "dst = s·x", []string{"x"}, true, 4, func(x []vec, s vec, _ reg) { f.op("fmul", x[0], x[0], s) })
	f.row("addScaled", "addScaled", "dst = y + s·x", []string{"y", "x"}, true, 4, func(x []vec, s vec, _ reg) { f.op("fmla", x[0], x[1], s) })
	f.row("mulAdd", "mulAdd", "dst = z + x·y", []string{"z", "x", "y"}, false, 4, func(x []vec, _ vec, _ reg) { f.op("fmla", x[0], x[1], x[2]) })
	f.row("exp", "exp32", "dst = e^x", []string{"x"}, false, 2, func(x []vec, _ vec, table reg) {
		y := f.vec()
		f.exp(y, x[0], table)
		f.move(x[0], y)
	})
	for _, a := range activations {
		f.row(a.name, "activate", "dst = act(gate)", []string{"gate"}, true, 2, func(x []vec, s vec, table reg) { a.emit(f, x[0], s, table) })
		f.row(a.name+"Mul", "activate", "dst = act(gate)·up", []string{"gate", "up"}, true, 2, func(x []vec, s vec, table reg) {
			a.emit(f, x[0], s, table)
			f.op("fmul", x[0], x[0], x[1])
		})
	}
	f.row("dreluMul", "activate", "dst = max(gate,0)·max(up,0)", []string{"gate", "up"}, true, 2, func(x []vec, s vec, _ reg) {
		above(f, x[0], s, 0)
		above(f, x[1], s, 0)
		f.op("fmul", x[0], x[0], x[1])
	})
	f.row("scaleBy", "rmsNorm", "dst = s·x·weight", []string{"x", "weight"}, true, 4, func(x []vec, s vec, _ reg) {
		f.op("fmul", x[0], x[0], s)
		f.op("fmul", x[0], x[0], x[1])
	})
	f.row("shift", "layerNorm", "dst = x − s", []string{"x"}, true, 4, func(x []vec, s vec, _ reg) { f.op("fsub", x[0], x[0], s) })
}

// activations replace x by name; s is the threshold: of FATReLU, or of magnitudes that count as 0.
var activations = []struct {
	name string
	emit func(f *file, x, s vec, table reg)
}{
	{"silu", func(f *file, x, s vec, table reg) {
		y := f.vec()
		f.op2("fneg", y, x)
		f.logistic(x, y, table)
		large(f, x, s)
	}},
	{"gelu", func(f *file, x, s vec, table reg) {
		const gelu1 = 2 * 0.79788456080286535588 // from activation.go
		y, c, square := f.vec(), f.vec(), f.vec()
		f.op("fmul", square, x, x)
		f.constant(c, table, splat(-gelu1*0.044715)...)
		f.constant(y, table, splat(-gelu1)...)
		f.op("fmla", y, square, c)
		f.op("fmul", y, y, x)
		f.logistic(x, y, table)
		large(f, x, s)
	}},
	{"geluErf", func(f *file, x, _ vec, table reg) {
		c, t, y, p, k := f.vec(), f.vec(), f.vec(), f.vec(), f.vec()
		f.op2("fabs", c, x)
		f.constant(k, table, splat(12)...)
		f.op("fminnm", c, c, k)
		f.power(t, 0)
		f.power(y, 0)
		f.constant(k, table, splat(erfSlope*math.Sqrt2/2)...)
		f.op("fmla", t, c, k)
		f.op("fdiv", t, y, t)
		f.op("fmul", y, c, c)
		f.constant(k, table, splat(-0.5)...)
		f.op("fmul", y, y, k)
		e := f.vec()
		f.exp(e, y, table)
		f.constant(p, table, splat(erfs[0]/2)...)
		for _, coefficient := range erfs[1:] {
			f.constant(k, table, splat(coefficient/2)...)
			f.op("fmla", k, p, t)
			p, k = k, p
		}
		f.op("fmul", p, p, t)
		f.op("fmul", p, p, c)
		f.op("eor", y, y, y)
		f.op("fmax", x, x, y)
		f.op("fmls", x, e, p)
	}},
	{"geluQuick", func(f *file, x, _ vec, table reg) {
		y := f.vec()
		f.constant(y, table, splat(-1.702)...)
		f.op("fmul", y, y, x)
		f.logistic(x, y, table)
	}},
	{"relu", above},
	{"relu2", func(f *file, x, s vec, table reg) {
		above(f, x, s, table)
		f.op("fmul", x, x, x)
	}},
}

// erfSlope and erfs are gen/vector's.
const erfSlope = 0.44

var erfs = [...]float64{0.0712231681, -0.2779467522, 0.2966852871, -0.02017865177, 0.2158111766, 0.2173138653, 0.248871132, 0.2482209566}

// logistic replaces x by x / (1 + e^y).
func (f *file) logistic(x, y vec, table reg) {
	e, one := f.vec(), f.vec()
	f.exp(e, y, table)
	f.power(one, 0)
	f.op("fadd", e, e, one)
	f.op("fdiv", x, x, e)
}

// large replaces x by 0 where its magnitude is below s; NaN stays.
func large(f *file, x, s vec) {
	m := f.vec()
	f.op2("fabs", m, x)
	f.op("fcmgt", m, s, m)
	f.op("bic", x, x, m)
}

// above replaces x by 0 unless it is above s; NaN stays.
func above(f *file, x, s vec, _ reg) {
	m := f.vec()
	f.op("fcmge", m, s, x)
	f.op("bic", x, x, m)
}

// result stores lane 0 as a result.
func (f *file) result(name string, v vec, double bool) {
	size := "S"
	if double {
		size = "D"
	}
	f.line("FMOV%s F%d, %s+%d(FP)", size, v, name, f.params[name])
}

func (f *file) maximum() {
	f.function("maxNEON", "func(x *float32, n int) float32", "returns the largest of x, NaNs passed over. Scalar twin: maximum.")
	x, n, table := f.param("x"), f.param("n"), f.constants()
	top := f.vecsOf(4)
	for _, t := range top {
		f.constant(t, table, splat(math.Inf(-1))...)
	}
	f.each(n, 4, []reg{x}, func(width byte, i int) {
		v := f.vec()
		f.load(width, v, x, 16*i)
		if width == 's' {
			f.dup(v, v, 0)
		}
		f.op("fmaxnm", top[i], top[i], v)
	})
	f.op("fmaxnm", top[0], top[0], top[1])
	f.op("fmaxnm", top[2], top[2], top[3])
	f.op("fmaxnm", top[0], top[0], top[2])
	f.across("fmaxnmv", top[0], top[0])
	f.result("ret", top[0], false)
	f.ret()
}

func (f *file) halves() {
	f.function("toF16NEON", "func(dst *uint16, x *float32, n int)", "rounds to halves, ties to even; n is a multiple of 8. Scalar twin: toF16.")
	dst, x, n := f.param("dst"), f.param("x"), f.param("n")
	lo, hi := f.vec(), f.vec()
	f.label("loop")
	f.load('q', lo, x, 0)
	f.load('q', hi, x, 16)
	f.op2("fcvtn", lo, lo)
	f.op2("fcvtn2", lo, hi)
	f.store('q', lo, dst, 0)
	f.addImm(x, 32)
	f.addImm(dst, 16)
	f.down(n, 8, "loop")
	f.ret()

	f.function("fromF16NEON", "func(dst *float32, x *uint16, n int)", "widens halves; n is a multiple of 8. Scalar twin: fromF16.")
	dst, x, n = f.param("dst"), f.param("x"), f.param("n")
	lo, hi = f.vec(), f.vec()
	f.label("loop")
	f.load('q', lo, x, 0)
	f.op2("fcvtl2", hi, lo)
	f.op2("fcvtl", lo, lo)
	f.store('q', lo, dst, 0)
	f.store('q', hi, dst, 16)
	f.addImm(x, 16)
	f.addImm(dst, 32)
	f.down(n, 8, "loop")
	f.ret()
}

// norms emits the sums of norms in float64, sixteen lanes wide.
func (f *file) norms() {
	f.sum("sumNEON", "func(x *float32, n int) float64", "returns Σx in float64; n is a multiple of 16. Scalar twin: layerNorm.", func(_, x, acc vec) {
		f.op("fadd.d", acc, acc, x)
	})
	f.sum("sumSquaresNEON", "func(x *float32, n int) float64", "returns Σx² in float64; n is a multiple of 16. Scalar twin: rmsNorm.", func(_, x, acc vec) {
		f.op("fmla.d", acc, x, x)
	})
	f.sum("sumDeviationsNEON", "func(x *float32, n int, mean float64) float64", "returns Σ(x−mean)² in float64; n is a multiple of 16. Scalar twin: layerNorm.", func(mean, x, acc vec) {
		f.op("fsub.d", x, x, mean)
		f.op("fmla.d", acc, x, x)
	})
}

func (f *file) sum(name, signature, doc string, step func(mean, x, acc vec)) {
	f.function(name, signature, doc)
	x, n, mean := f.param("x"), f.param("n"), f.vec()
	if at, ok := f.params["mean"]; ok {
		f.line("FMOVD mean+%d(FP), F%d", at, mean)
		f.word(0x4E080400|uint32(mean)<<5|uint32(mean), "dup v%d.2d, v%d.d[0]", mean, mean)
	}
	acc := f.vecsOf(8)
	for _, a := range acc {
		f.zero(a)
	}
	f.line("CBZ R%d, done", n)
	f.label("loop")
	lo, hi := f.vec(), f.vec()
	for i := 0; i < 8; i += 2 {
		f.load('q', lo, x, 8*i)
		f.op2("fcvtl2.d", hi, lo)
		f.op2("fcvtl.d", lo, lo)
		step(mean, lo, acc[i])
		step(mean, hi, acc[i+1])
	}
	f.addImm(x, 64)
	f.down(n, 16, "loop")
	f.label("done")
	for _, s := range []int{4, 2, 1} {
		for i := range s {
			f.op("fadd.d", acc[i], acc[i], acc[i+s])
		}
	}
	f.word(0x7E70D800|uint32(acc[0])<<5|uint32(acc[0]), "faddp d%d, v%d.2d", acc[0], acc[0])
	f.result("ret", acc[0], true)
	f.ret()
}

func (f *file) rotations() {
	const signature = "func(x *float32, heads, headDim int, cos, sin *float32, pairs int)"
	turn := func(a, b, c, s, y, z vec) { // y = a·c − b·s, z = a·s + b·c
		f.op("fmul", y, a, c)
		f.op("fmls", y, b, s)
		f.op("fmul", z, a, s)
		f.op("fmla", z, b, c)
	}
	f.function("rotateHalvesNEON", signature, "rotates pairs (x[i], x[i+pairs]) of every head; pairs is a multiple of 4. Scalar twin: rotate.")
	f.rotation(func(x, second, cos, sin reg) {
		v := f.vecsOf(6)
		f.load('q', v[0], x, 0)
		f.load('q', v[1], second, 0)
		f.load('q', v[2], cos, 0)
		f.load('q', v[3], sin, 0)
		turn(v[0], v[1], v[2], v[3], v[4], v[5])
		f.store('q', v[4], x, 0)
		f.store('q', v[5], second, 0)
		f.addImm(x, 16)
		f.addImm(second, 16)
	})
	f.function("rotateInterleavedNEON", signature, "rotates pairs (x[2i], x[2i+1]) of every head; pairs is a multiple of 4. Scalar twin: rotate.")
	f.rotation(func(x, _, cos, sin reg) {
		v := f.vecsOf(8)
		f.load('q', v[6], x, 0)
		f.load('q', v[7], x, 16)
		f.op("uzp1", v[0], v[6], v[7])
		f.op("uzp2", v[1], v[6], v[7])
		f.load('q', v[2], cos, 0)
		f.load('q', v[3], sin, 0)
		turn(v[0], v[1], v[2], v[3], v[4], v[5])
		f.op("zip1", v[6], v[4], v[5])
		f.op("zip2", v[7], v[4], v[5])
		f.store('q', v[6], x, 0)
		f.store('q', v[7], x, 16)
		f.addImm(x, 32)
	})
}

// rotation emits the loops over heads and pairs, four pairs at a time. body gets the addresses of the pairs and of
// their second halves.
func (f *file) rotation(body func(x, second, cos, sin reg)) {
	x, heads, headDim, cos, sin, pairs := f.param("x"), f.param("heads"), f.param("headDim"), f.param("cos"), f.param("sin"), f.param("pairs")
	at, second, c, s, left := f.reg(), f.reg(), f.reg(), f.reg(), f.reg()
	f.label("head")
	f.mov(at, x)
	f.addShifted(second, x, pairs, 2)
	f.mov(c, cos)
	f.mov(s, sin)
	f.mov(left, pairs)
	f.label("pair")
	body(at, second, c, s)
	f.addImm(c, 16)
	f.addImm(s, 16)
	f.down(left, 4, "pair")
	f.addShifted(x, x, headDim, 2)
	f.down(heads, 1, "head")
	f.ret()
}

// scannedRows are the rows of a state that go through the columns together.
const scannedRows = 4

func (f *file) scan() {
	f.function("scanNEON", "func(y, state, x, b, c *float32, rows, n int, decay float32)",
		"is a position of a state space's head; rows is a multiple of 4, n of 8. Scalar twin: scan.")
	y, state, x, b, c, rows, n := f.param("y"), f.param("state"), f.param("x"), f.param("b"), f.param("c"), f.param("rows"), f.param("n")
	decay := f.broadcast("decay")
	at := make([]reg, scannedRows)
	for i := range at {
		at[i] = f.reg()
	}
	bp, cp, left := f.reg(), f.reg(), f.reg()
	f.label("rows")
	for _, p := range at {
		f.mov(p, state)
		f.addShifted(state, state, n, 2)
	}
	mark := f.vecs
	written, low, high := f.vec(), f.vecsOf(scannedRows), f.vecsOf(scannedRows)
	f.load('q', written, x, 0)
	for i := range low {
		f.zero(low[i])
		f.zero(high[i])
	}
	f.mov(bp, b)
	f.mov(cp, c)
	f.mov(left, n)
	f.label("columns")
	write, read, s := f.vec(), f.vec(), f.vec()
	for h, sums := range [][]vec{low, high} {
		f.load('q', write, bp, 16*h)
		f.load('q', read, cp, 16*h)
		for i, p := range at {
			f.load('q', s, p, 16*h)
			f.op("fmul", s, s, decay)
			f.by("fmla", s, write, written, i)
			f.store('q', s, p, 16*h)
			f.op("fmla", sums[i], s, read)
		}
	}
	for _, p := range append([]reg{bp, cp}, at...) {
		f.addImm(p, 32)
	}
	f.down(left, 8, "columns")
	f.output(y, 0, low, high)
	f.addImm(x, 4*scannedRows)
	f.addImm(y, 4*scannedRows)
	f.vecs = mark
	f.down(rows, scannedRows, "rows")
	f.ret()
}

func (f *file) delta() {
	f.function("deltaNEON", "func(y, state, v, k, q *float32, rows, n int, decay, beta, kq float32)",
		"is a position of a delta rule's head; rows is a multiple of 4, n of 8. Scalar twin: delta.")
	y, state, v, k, q, rows, n := f.param("y"), f.param("state"), f.param("v"), f.param("k"), f.param("q"), f.param("rows"), f.param("n")
	decay, beta, kq := f.broadcast("decay"), f.broadcast("beta"), f.broadcast("kq")
	at := make([]reg, scannedRows)
	for i := range at {
		at[i] = f.reg()
	}
	next, kp, qp, left := f.reg(), f.reg(), f.reg(), f.reg()
	begin := func() { // starts the four rows and their operands
		f.mov(next, state)
		for _, p := range at {
			f.mov(p, next)
			f.addShifted(next, next, n, 2)
		}
		f.mov(kp, k)
		f.mov(left, n)
	}
	f.label("rows")
	mark := f.vecs
	known, read := [2][]vec{f.vecsOf(scannedRows), f.vecsOf(scannedRows)}, [2][]vec{f.vecsOf(scannedRows), f.vecsOf(scannedRows)}
	for h := range 2 {
		for i := range at {
			f.zero(known[h][i])
			f.zero(read[h][i])
		}
	}
	key, query, s := f.vec(), f.vec(), f.vec()
	begin()
	f.mov(qp, q)
	f.label("read")
	for h := range 2 {
		f.load('q', key, kp, 16*h)
		f.load('q', query, qp, 16*h)
		for i, p := range at {
			f.load('q', s, p, 16*h)
			f.op("fmla", known[h][i], s, key)
			f.op("fmla", read[h][i], s, query)
		}
	}
	for _, p := range append([]reg{kp, qp}, at...) {
		f.addImm(p, 32)
	}
	f.down(left, 8, "read")
	e, out := f.vec(), f.totals(read[0], read[1])
	f.load('q', e, v, 0)
	f.op("fmls", e, decay, f.totals(known[0], known[1]))
	f.op("fmul", e, e, beta)
	f.op("fmul", out, out, decay)
	f.op("fmla", out, e, kq)
	f.store('q', out, y, 0)
	begin()
	f.label("write")
	for h := range 2 {
		f.load('q', key, kp, 16*h)
		for i, p := range at {
			f.load('q', s, p, 16*h)
			f.op("fmul", s, s, decay)
			f.by("fmla", s, key, e, i)
			f.store('q', s, p, 16*h)
		}
	}
	for _, p := range append([]reg{kp}, at...) {
		f.addImm(p, 32)
	}
	f.down(left, 8, "write")
	f.mov(state, next)
	f.addImm(v, 4*scannedRows)
	f.addImm(y, 4*scannedRows)
	f.vecs = mark
	f.down(rows, scannedRows, "rows")
	f.ret()
}

// totals leaves the sums over the lanes of a and b, four vectors each, side by side in the vector it returns, which is
// one of a's.
func (f *file) totals(a, b []vec) vec {
	for i := range a {
		f.op("faddp", a[i], a[i], b[i])
	}
	f.op("faddp", a[0], a[0], a[1])
	f.op("faddp", a[2], a[2], a[3])
	f.op("faddp", a[0], a[0], a[2])
	return a[0]
}

// suffixed is a kernel's name with the type of the rows that it reads.
func suffixed(kind string, queries int, e element) string {
	return fmt.Sprintf("%s%d%sNEON", kind, queries, e.name)
}
