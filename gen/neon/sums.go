package main

import (
	"fmt"
	"strings"

	"github.com/powerinfer-go/powerinfer/internal/compute/cpu/layout"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// Sums of weighted rows, the down projection of active neurons; axpy.go in package kernel has their definitions and the
// order of a sum's elements.

func sums(f *file) {
	for _, typ := range []quant.Type{quant.Q4_0, quant.Q8_0} {
		(&adder{kernel{file: f, isa: plain, typ: typ, r: 1, t: 1}, false}).emit()
		(&adder{kernel{file: f, isa: plain, typ: typ, r: 1, t: 1}, true}).emit()
	}
	for _, typ := range []quant.Type{quant.F32, quant.F16, quant.BF16} {
		f.addFloats(typ)
	}
	for _, of := range forms {
		(&kernel{file: f, isa: plain, typ: of.typ, panel: of.name, r: 1, t: 1}).floats()
	}
	for _, typ := range []quant.Type{quant.Q8_0, quant.BF16, quant.F32} {
		f.turn(typ)
	}
	f.choose("chooseAboveNEON", "not at most", false)
	f.choose("chooseAtLeastNEON", "at least", true)
}

// adder adds rows of a quantised type, or planes of a group's neurons. A group has coefficients in bytes, and one scale
// for each output.
type adder struct {
	kernel
	group bool
}

func (k *adder) emit() {
	short := strings.ReplaceAll(k.typ.String(), "_", "")
	if k.group {
		k.function("addGroup"+short+plain, "func(sum *float32, rows *[sumBatch]*byte, coef *[sumBatch]int8, pairs, n uintptr, next *[sumBatch]*byte, scales *byte, scale float32, soon *byte)",
			fmt.Sprintf("adds pairs of weighted neurons of a group of %s over n superblocks of outputs. Scalar twin: addGroupGeneric in axpy.go.", k.typ))
	} else {
		k.function("addRows"+short+plain, "func(sum *float32, rows *[sumBatch]*byte, coef *[sumBatch]float32, pairs, n uintptr, next *[sumBatch]*byte)",
			fmt.Sprintf("adds pairs of weighted rows of %s over n superblocks. Scalar twin: addRowsGeneric in axpy.go.", k.typ))
	}
	sum, rows, coef, pairs, n, next := k.param("sum"), k.param("rows"), k.param("coef"), k.param("pairs"), k.param("n"), k.param("next")
	off, left, rp, cp, np, p := k.reg(), k.reg(), k.reg(), k.reg(), k.reg(), k.reg()
	k.w = []reg{p}
	k.prepare()
	spread := k.vec() // byte 0 of each lane four times
	k.constant(spread, k.table, 0, 0, 0, 0, 4, 4, 4, 4, 8, 8, 8, 8, 12, 12, 12, 12)
	eight := k.vec()
	k.movi(eight, 8)
	size, quants := layout.Of(k.typ).Bytes, layout.Of(k.typ).Quants
	var scales reg
	var scale vec
	if k.group {
		size, quants = size-quants, 0
		scales, scale = k.param("scales"), k.broadcast("scale")
	}
	k.movImm(off, 0)
	begin := func() {
		k.mov(rp, rows)
		k.mov(cp, coef)
		k.mov(left, pairs)
	}
	row := func() { // the next row's superblock
		k.line("MOVD.P 8(R%d), R%d", rp, p)
		k.add(p, p, off)
	}
	k.label("super")
	mark := k.vecs
	begin()
	k.mov(np, next)
	scalesOf, inverse := k.largest(np, left, cp, p, off, size, row)
	inner := k.vecs
	k.vecs = inner
	for h := range 2 {
		if k.typ == quant.Q4_0 {
			k.vecs = inner
			k.nibbleSums(h, begin, row, cp, left, p, quants, inverse[h], spread, eight)
			k.addTotals(h, []int{0, 1, 2, 3, 4, 5, 6, 7}, inner, sum, scales, scalesOf[h], scale)
			continue
		}
		for from := 0; from < 8; from += 4 {
			k.vecs = inner
			k.byteSums(h, from, begin, row, cp, left, p, quants, inverse[h], spread)
			k.addWide(h, from, inner, sum, scales, scalesOf[h], scale)
		}
	}
	k.vecs = mark
	k.addImm(sum, 4*quant.QKK)
	k.addImm(off, size)
	if k.group {
		k.addImm(scales, 2*quant.QKK)
	}
	k.down(n, 1, "super")
	k.ret()
}

// largest prefetches the next rows' superblocks, size bytes of each. Except in groups, where scales belong to outputs,
// it also finds the largest coefficients of the rows of a superblock, by blocks. scales are the values of one unit of a
// byte, and inverse turns coefficients into bytes; both are zero if all coefficients nearly are.
func (k *adder) largest(next, left, coef, p, off reg, size int, row func()) (scales, inverse [2]vec) {
	if !k.group {
		for h := range 2 {
			scales[h], inverse[h] = k.vec(), k.vec()
			k.zero(scales[h])
		}
	}
	mark := k.vecs
	k.label("largest")
	for range 2 {
		k.line("MOVD.P 8(R%d), R%d", next, p)
		k.add(p, p, off)
		k.ask(p, 0, size)
		if k.group {
			continue
		}
		row()
		k.vecs = mark
		c, d := k.vec(), k.vec()
		k.loadAll(c, coef)
		k.addImm(coef, 4)
		for h, most := range scales {
			k.load('d', d, p, 8*h)
			k.op2("fcvtl", d, d)
			k.op("fmul", d, d, c)
			k.op2("fabs", d, d)
			k.op("fmaxnm", most, most, d)
		}
	}
	k.down(left, 1, "largest")
	k.vecs = mark
	if !k.group {
		floor, by, limit := k.vec(), k.vec(), k.vec()
		k.constant(floor, k.table, splat(0x1p-100)...)
		k.constant(by, k.table, splat(1.0/127)...)
		k.constant(limit, k.table, splat(127)...)
		mask := k.vec()
		for h, most := range scales {
			k.op("fcmge", mask, most, floor)
			k.op("fdiv", inverse[h], limit, most)
			k.op("and", inverse[h], inverse[h], mask)
			k.op("fmul", most, most, by)
			k.op("and", most, most, mask)
		}
	}
	k.vecs = mark
	return scales, inverse
}

// factor leaves the current row's coefficients of the bytes of half h in d.
func (k *adder) factor(d vec, h int, cp, p reg, inverse, spread vec) {
	if k.group {
		k.word(0x4D40C000|uint32(cp)<<5|uint32(d), "ld1r {v%d.16b}, [x%d]", d, cp)
		k.addImm(cp, 1)
		return
	}
	c := k.vec()
	k.loadAll(c, cp)
	k.addImm(cp, 4)
	k.load('d', d, p, 8*h)
	k.op2("fcvtl", d, d)
	k.op("fmul", d, d, c)
	k.op("fmul", d, d, inverse)
	k.op2("fcvtns", d, d)
	k.tbl(d, d, spread)
	k.vecs--
}

// nibbleSums writes the sums of half h of Q4_0 to the 16 registers after the caller's: two for each group. Sixteen
// products fit 16 bits.
func (k *adder) nibbleSums(h int, begin, row func(), cp, left, p reg, quants int, inverse, spread, eight vec) {
	total := k.vecsOf(16)
	for _, v := range total {
		k.zero(v)
	}
	begin()
	loop := fmt.Sprintf("rows%d", h)
	k.label(loop)
	mark := k.vecs
	d, lo, hi := k.vec(), k.vec(), k.vec()
	for range 2 {
		row()
		k.factor(d, h, cp, p, inverse, spread)
		for v := range 4 {
			k.load('q', lo, p, quants+32*v+16*h)
			k.shift("ushr", 8, hi, lo, 4)
			k.op("and", lo, lo, k.masks[0x0f])
			for i, w := range []vec{lo, hi} {
				k.op("sub.b", w, w, eight)
				k.op("smlal", total[2*(v+4*i)], w, d)
				k.op("smlal2", total[2*(v+4*i)+1], w, d)
			}
		}
	}
	k.down(left, 1, loop)
	k.vecs = mark
}

// byteSums writes the sums of four groups of Q8_0, from group from on, to the 16 registers after the caller's: four for
// each group. Two products fit 16 bits.
func (k *adder) byteSums(h, from int, begin, row func(), cp, left, p reg, quants int, inverse, spread vec) {
	total := k.vecsOf(16)
	for _, v := range total {
		k.zero(v)
	}
	begin()
	loop := fmt.Sprintf("rows%d%d", h, from)
	k.label(loop)
	mark := k.vecs
	d, e, w, lo, hi := k.vec(), k.vec(), k.vec(), k.vec(), k.vec()
	other := k.reg() // the first row
	row()
	k.factor(d, h, cp, p, inverse, spread)
	k.mov(other, p)
	row()
	k.factor(e, h, cp, p, inverse, spread)
	for v := range 4 {
		at := quants + 32*(from+v) + 16*h
		k.load('q', w, other, at)
		k.op("smull", lo, w, d)
		k.op("smull2", hi, w, d)
		k.load('q', w, p, at)
		k.op("smlal", lo, w, e)
		k.op("smlal2", hi, w, e)
		k.op("saddw", total[4*v], total[4*v], lo)
		k.op("saddw2", total[4*v+1], total[4*v+1], lo)
		k.op("saddw", total[4*v+2], total[4*v+2], hi)
		k.op("saddw2", total[4*v+3], total[4*v+3], hi)
	}
	k.down(left, 1, loop)
	k.next--
	k.vecs = mark
}

// addTotals adds sums in 16 bits of half h: groups have two registers each, from the caller's first on.
func (k *adder) addTotals(h int, groups []int, total vec, sum, scales reg, blocks, scale vec) {
	mark := k.vecs
	wide := k.vecsOf(2)
	for _, g := range groups {
		for i := range 2 {
			v := total + vec(2*g+i)
			k.op2("sxtl2", wide[1], v)
			k.op2("sxtl", wide[0], v)
			for j, w := range wide {
				k.addFour(w, h, g, 2*i+j, sum, scales, blocks, scale)
			}
		}
	}
	k.vecs = mark
}

// addWide adds sums in 32 bits of four groups of half h.
func (k *adder) addWide(h, from int, total vec, sum, scales reg, blocks, scale vec) {
	for v := range 4 {
		for b := range 4 {
			k.addFour(total+vec(4*v+b), h, from+v, b, sum, scales, blocks, scale)
		}
	}
}

// addFour adds four sums, of group g of block 4h+b, to theirs.
func (k *adder) addFour(v vec, h, g, b int, sum, scales reg, blocks, scale vec) {
	mark := k.vecs
	s := k.vec()
	place := 32*g + 16*(b/2) + 8*h + 4*(b%2) // sumPlace
	k.op2("scvtf", v, v)
	k.load('q', s, sum, 4*place)
	if k.group {
		d := k.vec()
		k.load('d', d, scales, 2*place)
		k.op2("fcvtl", d, d)
		k.op("fmul", d, d, scale)
		k.op("fmla", s, v, d)
	} else {
		k.by("fmla", s, v, blocks, b)
	}
	k.store('q', s, sum, 4*place)
	k.vecs = mark
}

// addFloats emits the sum of four weighted rows of a float type over n groups of 32 columns.
func (f *file) addFloats(typ quant.Type) {
	f.function("addRows"+typ.String()+plain, "func(sum *float32, rows *[floatBatch]*byte, coef *[floatBatch]float32, n uintptr, next *[floatBatch]*byte)",
		fmt.Sprintf("adds four weighted rows of %s over n groups of 32 columns. Scalar twin: addFloatsGeneric in axpy.go.", typ))
	sum, rows, coefs, n, next := f.param("sum"), f.param("rows"), f.param("coef"), f.param("n"), f.param("next")
	size := 64
	if typ == quant.F32 {
		size = 128
	}
	var w, ahead [4]reg
	for r := range w {
		w[r], ahead[r] = f.reg(), f.reg()
		f.line("MOVD %d(R%d), R%d", 8*r, rows, w[r])
		f.line("MOVD %d(R%d), R%d", 8*r, next, ahead[r])
	}
	coef := f.vec()
	f.load('q', coef, coefs, 0)
	s := f.vecsOf(8)
	lo, hi := f.vec(), f.vec()
	f.label("columns")
	for i := range s {
		f.load('q', s[i], sum, 16*i)
	}
	for r := range w {
		f.ask(ahead[r], 0, size)
		for i := range 4 {
			f.wide(typ, lo, hi, w[r], i*size/4)
			f.by("fmla", s[2*i], lo, coef, r)
			f.by("fmla", s[2*i+1], hi, coef, r)
		}
		f.addImm(w[r], size)
		f.addImm(ahead[r], size)
	}
	for i := range s {
		f.store('q', s[i], sum, 16*i)
	}
	f.addImm(sum, 128)
	f.down(n, 1, "columns")
	f.ret()
}

// floats emits what turns n superblocks of a panel's row into floats in the order of elements.
func (k *kernel) floats() {
	k.function("floats"+k.panel+plain, "func(dst *float32, panel *byte, n, offset uintptr)",
		"writes n superblocks of a panel's row as floats. Quants have their sign, so offset is not read. Scalar twin: unpackSuper in unpack.go.")
	dst := k.param("dst")
	k.w, k.n = []reg{k.param("panel")}, k.param("n")
	k.label("super")
	mark := k.vecs
	for h := range 2 {
		k.vecs = mark
		f := k.factors(0, h)
		scales, least := [2]vec{f.scale, f.scale}, [2]vec{}
		if k.traits().Scales.Minima() { // what is added
			if !k.twoSums() { // minima are subtracted, and the unit of HalfMinima has its sign turned already
				k.op2("fneg", f.min, f.min)
			}
			least = [2]vec{f.min, f.min}
		}
		if k.twoSums() {
			for i, v := range []vec{f.first, f.second} {
				if !k.small() {
					k.op2("scvtf", v, v)
					k.op("fmul", v, v, f.scale)
				}
				scales[i] = v
			}
		}
		if k.traits().Scales == quant.NibbleMinima {
			low := k.vec()
			k.shift("shl", 32, low, f.least, 16)
			k.shift("sshr", 32, low, low, 16)
			k.shift("sshr", 32, f.least, f.least, 16)
			for i, v := range []vec{low, f.least} {
				k.op2("scvtf", v, v)
				k.op("fmul", v, v, f.min)
				least[i] = v
			}
		}
		raw, w, tmp, m := k.vec(), k.vec(), k.vec(), k.vec()
		x := k.vecsOf(4)
		for s, groups := range k.sources() {
			k.raw(raw, 0, s, h)
			for _, g := range groups {
				k.unpack(w, raw, tmp, 0, g, h)
				k.op2("sxtl2.b", x[2], w)
				k.op2("sxtl.b", x[0], w)
				for i := 0; i < 4; i += 2 {
					k.op2("sxtl2", x[i+1], x[i])
					k.op2("sxtl", x[i], x[i])
				}
				for b := range x {
					k.op2("scvtf", x[b], x[b])
					k.by("fmul", x[b], x[b], scales[g/4], b)
					if k.traits().Scales.Minima() {
						k.dup(m, least[g/4], b)
						k.op("fadd", x[b], x[b], m)
					}
					k.store('q', x[b], dst, 4*(32*(4*h+b)+4*g))
				}
			}
		}
	}
	k.addImm(k.w[0], k.bytes())
	k.addImm(dst, 4*quant.QKK)
	k.down(k.n, 1, "super")
	k.ret()
}
