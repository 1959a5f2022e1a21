package main

import (
	"fmt"
	"math/bits"
	"strings"

	"github.com/powerinfer-go/powerinfer/internal/compute/cpu/layout"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// A superblock is computed in two halves: lane j of a vector is block j of the first four, or block 4+j. Sums are those of dotGeneric, lane by lane.

// Instruction sets by the names that kernels end in: ARMv8.0, and with dot products of bytes (ARMv8.2, ARMv8.4 always).
const (
	plain = "NEON"
	dots  = "DOT"
)

// kernel is a tile of r rows and t tokens, or one token's stream of rows.
type kernel struct {
	*file
	isa  string
	typ  quant.Type
	r, t int
	// panel says that rows are a panel's, which hold bytes with their sign.
	panel bool
	// filed says that rows are as files have them.
	filed bool

	w, x   []reg // rows' superblocks, from their quants on where rows are packed, and tokens'
	n      reg
	table  reg
	masks  map[byte]vec
	book   vec
	shifts vec // of SixBits' fields
	// What scales are computed with: kept where there are registers to spare, otherwise made anew.
	kept map[string]vec
}

// scratch returns a register that set fills, or has filled before the loop.
func (k *kernel) scratch(name string, set func(d vec)) vec {
	if v, ok := k.kept[name]; ok {
		return v
	}
	v := k.vec()
	set(v)
	return v
}

// roomy reports whether registers are left beside the sums.
func (k *kernel) roomy() bool { return !k.twoSums() || k.r*k.t <= 4 && k.isa == dots || k.r*k.t == 1 }

func (k *kernel) traits() quant.Traits { return k.typ.Traits() }

// twoSums reports whether the halves of a block have scales of their own.
func (k *kernel) twoSums() bool {
	switch k.traits().Scales {
	case quant.HalfBlocks, quant.NibbleMinima, quant.SmallFloats:
		return true
	}
	return false
}

// header is the place of what lies disp bytes from the superblock's begin, seen from its quants.
func (k *kernel) header(disp int) int { return disp - layout.Of(k.typ).Quants }

// known reports whether there are kernels for types like t.
func known(t quant.Type) bool {
	switch t.Traits().Scales {
	case quant.BlockScale, quant.BlockMin, quant.SixBits, quant.HalfBlocks, quant.ByteBlocks, quant.NibbleMinima, quant.Exponents, quant.SuperScale,
		quant.SmallFloats:
		return t.Quantised()
	}
	return false
}

// bytes is the size of a superblock of weights.
func (k *kernel) bytes() int {
	if k.panel {
		return layout.NeonPanel(k.typ)
	}
	if k.filed {
		return k.typ.RowBytes(quant.QKK)
	}
	return layout.Of(k.typ).Bytes
}

// prepare loads what stays in registers.
func (k *kernel) prepare() {
	k.table = k.constants()
	if k.panel {
		return
	}
	k.masks = map[byte]vec{}
	mask := func(b byte) {
		if _, ok := k.masks[b]; !ok {
			k.masks[b] = k.vec()
			k.movi(k.masks[b], b)
		}
	}
	switch k.traits().Bits {
	case 2:
		mask(0x03)
	case 3:
		mask(0x03)
		mask(0x04)
	case 4:
		mask(0x0f)
	case 5:
		mask(0x0f)
		mask(0x10)
	case 6:
		mask(0x0f)
		mask(0x30)
	}
	if values := k.traits().Codebook; values != nil {
		var b []byte
		for _, v := range values {
			b = append(b, byte(v))
		}
		k.book = k.vec()
		k.constant(k.book, k.table, b...)
	}
	k.kept = map[string]vec{}
	if k.roomy() {
		if k.traits().Scales == quant.Exponents {
			k.kept["least"] = k.scratch("least", k.leastExponent)
		}
		if k.traits().Halvings > 0 {
			k.kept["halved"] = k.scratch("halved", k.halved)
		}
		if k.traits().Scales == quant.NibbleMinima {
			k.kept["nibble"] = k.scratch("nibble", k.nibble)
		}
	}
	if k.filed {
		switch k.typ { // scales of six bits
		case quant.Q4_K, quant.Q5_K:
			mask(0x3f)
			fallthrough
		case quant.Q3_K, quant.IQ4_XS:
			mask(0x0f)
			mask(0x30)
		}
		return
	}
	if k.traits().Scales == quant.SixBits {
		k.shifts = k.vec()
		var b []byte
		for j := range 4 {
			b = append(b, byte(-(6 * j % 8)), 0, 0, 0)
		}
		k.constant(k.shifts, k.table, b...)
		k.masks[63] = k.vec()
		k.lanes(k.masks[63], 63, 0)
	}
}

// sources lists the vectors of quants of a row, each with the groups that it holds.
func (k *kernel) sources() (groups [][]int) {
	n := 8
	switch b := k.traits().Bits; {
	case k.panel || b == 8:
	case b < 4:
		n = 2
	default:
		n = 4
	}
	groups = make([][]int, n)
	for v := range 8 {
		groups[v%n] = append(groups[v%n], v)
	}
	return groups
}

// raw loads vector v of row r's quants.
func (k *kernel) raw(d vec, r, v, h int) {
	at := 32*v + 16*h
	if k.panel {
		at += layout.NeonQuants
	}
	k.load('q', d, k.w[r], at)
}

// unpack leaves group v of row r, whose vector is raw, in d as bytes: with their sign where there is a codebook, otherwise offset above it.
func (k *kernel) unpack(d, raw, tmp vec, r, v, h int) {
	b := k.traits().Bits
	high := layout.Of(k.typ).High - layout.Of(k.typ).Quants + 16*h
	switch {
	case b == 8 || k.panel:
		if d != raw {
			k.move(d, raw)
		}
		return
	case b < 4 && v/2 == 0:
		k.op("and", d, raw, k.masks[0x03])
	case b < 4:
		k.shift("ushr", 8, d, raw, v/2*2)
		if v/2 < 3 {
			k.op("and", d, d, k.masks[0x03])
		}
	case v < 4:
		k.op("and", d, raw, k.masks[0x0f])
	default:
		k.shift("ushr", 8, d, raw, 4)
	}
	switch b {
	case 3:
		k.insert(d, tmp, r, high, v-2, 0x04)
	case 5:
		k.insert(d, tmp, r, high, v-4, 0x10)
	case 6:
		k.insert(d, tmp, r, high+32*(v%2), v/2*2-4, 0x30)
	}
	if k.traits().Codebook != nil {
		k.tbl(d, k.book, d)
	}
}

// insert sets the bits of mask in d to those that lie so many bits higher in the vector at at.
func (k *kernel) insert(d, tmp vec, r, at, above int, mask byte) {
	k.load('q', tmp, k.w[r], at)
	switch {
	case above > 0:
		k.shift("ushr", 8, tmp, tmp, above)
	case above < 0:
		k.shift("shl", 8, tmp, tmp, -above)
	}
	k.op("bit", d, tmp, k.masks[mask])
}

// offset is the number that unpacked bytes lie above their values.
func (k *kernel) offset() int {
	if k.panel || k.traits().Bits == 8 || k.traits().Codebook != nil {
		return 0
	}
	return k.traits().Offset
}

// largest is the largest magnitude of unpacked bytes.
func (k *kernel) largest() int {
	t := k.traits()
	switch {
	case t.Bits == 8:
		return 128
	case t.Codebook != nil:
		most := 0
		for _, v := range t.Codebook {
			most = max(most, int(v), -int(v))
		}
		return most
	case k.panel:
		return max(t.Offset, 1<<t.Bits-1-t.Offset)
	}
	return 1<<t.Bits - 1
}

// sum is an integer sum of four lanes. Without dot products low and high are those of the lower and the upper eight bytes, two lanes for a block, and
// products are added in 16 bits before, as many as those hold.
type sum struct {
	all       vec
	low, high vec
	waiting   [2]vec
	n         int
	flushed   bool
}

func (k *kernel) newSum() *sum {
	if k.isa == dots {
		return &sum{all: k.vec()}
	}
	s := &sum{low: k.vec(), high: k.vec(), waiting: [2]vec{k.vec(), k.vec()}}
	s.all = s.low
	return s
}

// start begins a sum at what the offset makes of the activations' sum. half is 0 for whole blocks, 1 and 2 for the halves.
func (k *kernel) start(s *sum, t, h, half int) {
	if k.isa != dots {
		s.n, s.flushed = 0, false
		return
	}
	if k.offset() == 0 {
		k.zero(s.all)
		return
	}
	k.negative(s.all, t, h, half)
}

// negative loads −offset·Σ of the activations.
func (k *kernel) negative(d vec, t, h, half int) {
	at, unit := layout.ActNeg8, 8
	if half > 0 {
		at, unit = layout.ActLo32, 32
	}
	if half == 2 {
		at = layout.ActHi32
	}
	k.load('q', d, k.x[t], at+16*h)
	switch o := k.offset(); {
	case o < unit:
		k.shift("sshr", 32, d, d, bits.Len(uint(unit/o))-1)
	case o > unit:
		k.shift("shl", 32, d, d, bits.Len(uint(o/unit))-1)
	}
}

// dot adds the products of bytes.
func (k *kernel) dot(s *sum, w, x vec) {
	if k.isa == dots {
		k.op("sdot", s.all, w, x)
		return
	}
	if s.n == 0 {
		k.op("smull", s.waiting[0], w, x)
		k.op("smull2", s.waiting[1], w, x)
	} else {
		k.op("smlal", s.waiting[0], w, x)
		k.op("smlal2", s.waiting[1], w, x)
	}
	if s.n++; s.n == 32767/(127*k.largest()) {
		k.flush(s)
	}
}

// flush adds the products that wait to the sum.
func (k *kernel) flush(s *sum) {
	if s.n == 0 {
		return
	}
	name := "sadalp"
	if !s.flushed {
		name = "saddlp"
	}
	k.op2(name, s.low, s.waiting[0])
	k.op2(name, s.high, s.waiting[1])
	s.n, s.flushed = 0, true
}

// finish leaves a sum in s.all.
func (k *kernel) finish(s *sum, t, h, half int) {
	if k.isa == dots {
		return
	}
	k.flush(s)
	k.op("addp", s.all, s.low, s.high)
	if k.offset() > 0 {
		k.negative(s.high, t, h, half)
		k.op("add", s.all, s.all, s.high)
	}
}

// half adds half h of a superblock to the accumulators acc [r·t].
func (k *kernel) half(h int, acc []vec) {
	mark := k.vecs
	count := 1
	if k.twoSums() {
		count = 2
	}
	sums := make([][]*sum, k.r*k.t)
	for i := range sums {
		for c := range count {
			s := k.newSum()
			half := 0
			if count == 2 {
				half = 1 + c
			}
			k.start(s, i%k.t, h, half)
			sums[i] = append(sums[i], s)
		}
	}
	inner := k.vecs
	if k.filed {
		x := k.vec()
		for g, w := range k.fileCodes(h) {
			if k.traits().Codebook != nil {
				k.tbl(w, k.book, w)
			}
			k.load('q', x, k.x[0], 32*g+16*h)
			k.dot(sums[0][min(g/4, count-1)], w, x)
		}
	} else {
		k.groups(h, count, sums)
	}
	for i, s := range sums {
		for c := range s {
			half := 0
			if count == 2 {
				half = 1 + c
			}
			k.finish(s[c], i%k.t, h, half)
		}
	}
	k.vecs = inner
	for r := range k.r {
		k.vecs = inner
		f := k.factors(r, h)
		s := k.vec()
		for t := range k.t {
			k.accumulate(sums[r*k.t+t], f, s, t, h, acc[r*k.t+t])
		}
	}
	k.vecs = mark
}

// groups adds the products of half h's groups to sums.
func (k *kernel) groups(h, count int, sums [][]*sum) {
	raw, x := k.vecsOf(k.r), k.vec()
	w := raw
	if len(k.sources()) < 8 {
		w = k.vecsOf(k.r)
	}
	for v, groups := range k.sources() {
		for r := range raw {
			k.raw(raw[r], r, v, h)
		}
		for _, g := range groups {
			for r := range raw {
				k.unpack(w[r], raw[r], x, r, g, h)
			}
			for t := range k.t {
				k.load('q', x, k.x[t], 32*g+16*h)
				for r := range raw {
					k.dot(sums[r*k.t+t][min(g/4, count-1)], w[r], x)
				}
			}
		}
	}
}

// factors are what sums of a row's blocks are multiplied by.
type factors struct {
	scale, min    vec // min: of types with minima; of NibbleMinima the unit, with its sign turned
	first, second vec // integer factors of halves; of SmallFloats their scales
	least         vec // minima of halves as words, of NibbleMinima
}

func (k *kernel) factors(r, h int) factors {
	if k.panel {
		return k.panelFactors(r, h)
	}
	w, unit := k.w[r], k.header(layout.Of(k.typ).Unit)
	if k.filed {
		unit = unitAt(k.typ)
	}
	if k.small() {
		return k.smallScales(w, h)
	}
	f := factors{scale: k.vec()}
	switch k.traits().Scales {
	case quant.BlockScale:
		k.scales(f.scale, w, h)
		k.op2("fcvtl", f.scale, f.scale)
	case quant.BlockMin:
		f.min = k.vec()
		k.scales(f.scale, w, h)
		if k.filed {
			k.op2("fcvtl2", f.min, f.scale)
		}
		k.op2("fcvtl", f.scale, f.scale)
		if !k.filed {
			k.load('d', f.min, w, k.header(layout.Minima+8*h))
			k.op2("fcvtl", f.min, f.min)
		}
	case quant.SixBits:
		f.min = k.vec()
		if k.filed {
			k.fileSixBits(f, h)
		} else {
			k.sixBits(f, w, h)
		}
	case quant.Exponents:
		least := k.scratch("least", k.leastExponent)
		k.scales(f.scale, w, h)
		k.op2("uxtl.b", f.scale, f.scale)
		k.op2("uxtl", f.scale, f.scale)
		k.shift("shl", 32, f.scale, f.scale, 23)
		k.op("umax", f.scale, f.scale, least)
	default:
		k.unit(f.scale, w, unit)
	}
	if k.traits().Halvings > 0 {
		k.op("fmul", f.scale, f.scale, k.scratch("halved", k.halved))
	}
	switch k.traits().Scales {
	case quant.ByteBlocks:
		b := k.vec()
		k.scales(b, w, h)
		k.op2("sxtl.b", b, b)
		k.op2("sxtl", b, b)
		k.op2("scvtf", b, b)
		k.op("fmul", f.scale, f.scale, b)
	case quant.HalfBlocks:
		f.first, f.second = k.vec(), k.vec()
		k.scales(f.second, w, h)
		k.op2("sxtl.b", f.second, f.second)
		k.split(f)
	case quant.NibbleMinima:
		f.first, f.second, f.min, f.least = k.vec(), k.vec(), k.vec(), k.vec()
		k.scales(f.second, w, h)
		k.shift("ushr", 8, f.least, f.second, 4)
		k.op2("uxtl.b", f.least, f.least)
		k.op("and", f.second, f.second, k.scratch("nibble", k.nibble))
		k.op2("uxtl.b", f.second, f.second)
		k.split(f)
		k.unit(f.min, w, unit+2)
		k.op2("fneg", f.min, f.min)
	}
	return f
}

// scales loads what the header has of half h: a number, a byte or two for each block.
func (k *kernel) scales(d vec, w reg, h int) {
	if k.filed {
		k.fileScales(d, h)
		return
	}
	switch k.traits().Scales {
	case quant.Exponents, quant.ByteBlocks:
		k.load('s', d, w, k.header(4*h))
	default:
		k.load('d', d, w, k.header(8*h))
	}
}

// small reports whether the halves of a block have float scales.
func (k *kernel) small() bool { return k.traits().Scales == quant.SmallFloats }

// smallScales loads SmallFloats.
func (k *kernel) smallScales(w reg, h int) factors {
	f := factors{first: k.vec(), second: k.vec()}
	f.scale = f.first // which panels keep, too
	factor := k.vec()
	k.load('s', factor, w, k.header(layout.Of(k.typ).Unit))
	for i, d := range []vec{f.first, f.second} {
		k.load('s', d, w, k.header(8*i+4*h))
		k.op2("uxtl.b", d, d)
		k.op2("uxtl", d, d)
		k.shift("shl", 32, d, d, layout.ScaleShift)
		k.op2("xtn", d, d)
		k.op2("fcvtl", d, d)
		k.by("fmul", d, d, factor, 0)
	}
	k.vecs--
	return f
}

// addParts adds to acc what the sums of halves make of SmallFloats' scales and those of activations at x+at.
func (k *kernel) addParts(acc, first, second, w0, w1 vec, x reg, at int) {
	k.op2("scvtf", first, first)
	k.op2("scvtf", second, second)
	k.op("fmul", second, second, w1)
	k.op("fmla", second, first, w0)
	k.load('q', first, x, at)
	k.op("fmla", acc, second, first)
}

// leastExponent sets lanes to half the smallest normal number.
func (k *kernel) leastExponent(d vec) { k.lanes(d, 0x40, 16) }

// halved sets lanes to what units are multiplied by.
func (k *kernel) halved(d vec) { k.power(d, k.traits().Halvings) }

// nibble masks the low nibble of every byte.
func (k *kernel) nibble(d vec) { k.movi(d, 0x0f) }

// split makes first and second of the words in second.
func (k *kernel) split(f factors) {
	k.shift("shl", 32, f.first, f.second, 16)
	k.shift("sshr", 32, f.first, f.first, 16)
	k.shift("sshr", 32, f.second, f.second, 16)
}

// unit loads a binary16 number into every lane as float32.
func (k *kernel) unit(d vec, w reg, at int) {
	k.load('h', d, w, at)
	k.halfToSingle(d, d)
	k.dup(d, d, 0)
}

// sixBits loads scales and minima of SixBits.
func (k *kernel) sixBits(f factors, w reg, h int) {
	head, index := k.vec(), k.vec()
	k.load('q', head, w, k.header(0))
	field := func(base int, d vec) {
		var b []byte
		for j := 4 * h; j < 4*h+4; j++ {
			at := base + 6*j/8
			next := byte(at + 1)
			if at == 15 {
				next = 0xff // nothing
			}
			b = append(b, byte(at), next, 0xff, 0xff)
		}
		k.constant(index, k.table, b...)
		k.tbl(d, head, index)
		k.op("ushl", d, d, k.shifts)
		k.op("and", d, d, k.masks[63])
		k.op2("ucvtf", d, d)
	}
	field(4, f.scale)
	field(10, f.min)
	k.op2("fcvtl", head, head)
	k.by("fmul", f.scale, f.scale, head, 0)
	k.by("fmul", f.min, f.min, head, 1)
}

// panelFactors loads what expand has written.
func (k *kernel) panelFactors(r, h int) factors {
	f := factors{scale: k.vec()}
	load := func(d *vec, at int) {
		*d = k.vec()
		k.load('q', *d, k.w[r], at+16*h)
	}
	if !k.small() {
		k.load('q', f.scale, k.w[r], layout.NeonScale+16*h)
	}
	if k.traits().Scales.Minima() {
		load(&f.min, layout.NeonMin)
	}
	if k.twoSums() {
		load(&f.first, layout.NeonFirst)
		load(&f.second, layout.NeonSecond)
	}
	if k.traits().Scales == quant.NibbleMinima {
		load(&f.least, layout.NeonLeast)
	}
	return f
}

// accumulate adds what the sums of a row's blocks and a token make to acc.
func (k *kernel) accumulate(sums []*sum, f factors, s vec, t, h int, acc vec) {
	isum := sums[0].all
	if k.small() {
		k.addParts(acc, isum, sums[1].all, f.first, f.second, k.x[t], layout.ActScale+16*h)
		return
	}
	if k.twoSums() {
		k.op("mul", isum, isum, f.first)
		k.op("mla", isum, sums[1].all, f.second)
	}
	k.op2("scvtf", isum, isum)
	if k.traits().Scales == quant.NibbleMinima {
		other := sums[1].all
		k.load('q', s, k.x[t], layout.ActPairs+16*h)
		k.op("smull2.h", other, s, f.least)
		k.op("smull.h", s, s, f.least)
		k.op("addp", s, s, other)
		k.op2("scvtf", s, s)
		k.op("fmul", s, s, f.min)
		k.op("fmla", s, isum, f.scale)
		k.load('q', other, k.x[t], layout.ActScale+16*h)
		k.op("fmla", acc, s, other)
		return
	}
	k.load('q', s, k.x[t], layout.ActScale+16*h)
	k.op("fmul", s, s, f.scale)
	k.op("fmla", acc, isum, s)
	if !k.traits().Scales.Minima() {
		return
	}
	k.load('q', s, k.x[t], layout.ActDSum+16*h)
	if k.traits().Scales == quant.BlockMin {
		k.op("fmla", acc, f.min, s)
	} else {
		k.op("fmls", acc, f.min, s)
	}
}

// name is the kernel's.
func (k *kernel) name(kind string) string {
	return fmt.Sprintf("%s%s%s%dx%d", kind, strings.ReplaceAll(k.typ.String(), "_", ""), k.isa, k.r, k.t)
}

const tileSignature = "func(out *float32, outStride uintptr, w *byte, rowBytes uintptr, x *byte, xStride uintptr, n uintptr"

// operands points w and x at the rows and the tokens.
func (k *kernel) operands(skip int) {
	k.w, k.x = nil, nil
	k.w = append(k.w, k.param("w"))
	stride := k.param("rowBytes")
	for r := 1; r < k.r; r++ {
		k.w = append(k.w, k.reg())
		k.add(k.w[r], k.w[r-1], stride)
	}
	for _, w := range k.w {
		k.addImm(w, skip)
	}
	k.x = append(k.x, k.param("x"))
	if k.t > 1 {
		stride = k.param("xStride")
		for t := 1; t < k.t; t++ {
			k.x = append(k.x, k.reg())
			k.add(k.x[t], k.x[t-1], stride)
		}
	}
	k.n = k.param("n")
}

// skip is what lies before the quants.
func (k *kernel) skip() int {
	if k.panel || k.filed {
		return 0
	}
	return layout.Of(k.typ).Quants
}

// advance goes on to the next superblock, by a step of bytes.
func (k *kernel) advance() {
	for _, w := range k.w {
		k.addImm(w, k.bytes())
	}
	for _, x := range k.x {
		k.addImm(x, layout.ActBytes)
	}
}

// rows emits the tile of one token that reads several consecutive rows.
func (k *kernel) rows() {
	name := k.name("tile")
	k.function(name, tileSignature+")", fmt.Sprintf("computes one token's products with %d rows of %s. Scalar twin: dotGeneric in matmul_generic.go.", k.r, k.typ))
	k.operands(k.skip())
	k.prepare()
	acc := k.vecsOf(2 * k.r)
	for _, a := range acc {
		k.zero(a)
	}
	ahead := k.reg() // the rows behind these
	k.add(ahead, k.w[k.r-1], k.param("rowBytes"))
	k.begin(name, k.r*k.bytes())
	k.label("super")
	k.ask(ahead, 0, k.r*k.bytes())
	k.addImm(ahead, k.r*k.bytes())
	k.half(0, acc[:k.r])
	k.half(1, acc[k.r:])
	k.advance()
	k.down(k.n, 1, "super")
	k.stop()
	k.output(k.param("out"), 0, acc[:k.r], acc[k.r:])
	k.ret()
}

// ask prefetches so many bytes that lie off behind at.
func (f *file) ask(at reg, off, bytes int) {
	for b := 0; b < bytes; b += 64 {
		f.prefetch(at, off+b)
	}
}

// output stores the sums over the lanes of a and b, a's being those of the first four, side by side from out+off on.
func (f *file) output(out reg, off int, a, b []vec) {
	for i := 0; i < len(a); i += 4 {
		n := min(4, len(a)-i)
		at := off + 4*i
		p := a[i:][:n]
		if n == 4 {
			f.store('q', f.totals(p, b[i:][:n]), out, at)
			continue
		}
		for j := range p {
			f.op("faddp", p[j], p[j], b[i+j])
		}
		switch n {
		case 3:
			f.op("faddp", p[0], p[0], p[1])
			f.op("faddp", p[2], p[2], p[2])
			f.op("faddp", p[0], p[0], p[2])
			f.store('d', p[0], out, at)
			f.ext(p[0], p[0], p[0], 8)
			f.store('s', p[0], out, at+8)
		case 2:
			f.op("faddp", p[0], p[0], p[1])
			f.op("faddp", p[0], p[0], p[0])
			f.store('d', p[0], out, at)
		default:
			f.op("faddp", p[0], p[0], p[0])
			f.pairSum(p[0], p[0])
			f.store('s', p[0], out, at)
		}
	}
}

// tokens emits a tile of several tokens, which may be called for one part of the columns after the other. The halves of superblocks are computed in
// two passes, so that accumulators stay in registers.
func (k *kernel) tokens(kind string) {
	name := k.name(kind)
	k.function(name, tileSignature+", acc *float32, part uintptr)",
		fmt.Sprintf("computes out[t][r] of %d %s rows and %d tokens. Scalar twin: dotGeneric in matmul_generic.go.", k.r, k.typ, k.t))
	general, vectors := k.next, k.vecs
	for h := range 2 {
		k.next, k.vecs = general, vectors
		k.operands(k.skip())
		k.prepare()
		acc := k.vecsOf(k.r * k.t)
		kept, part := k.param("acc"), k.param("part")
		begin, loop := fmt.Sprintf("begin%d", h), fmt.Sprintf("super%d", h)
		k.clearUnless(part, begin, acc, kept, 16*h*k.r*k.t)
		if h == 0 {
			k.begin(name, k.r*k.bytes()/2*k.t)
		}
		k.label(loop)
		k.half(h, acc)
		k.advance()
		k.down(k.n, 1, loop)
		if h == 0 {
			k.stop()
		}
		for i, a := range acc {
			k.store('q', a, kept, 16*(h*k.r*k.t+i))
		}
	}
	k.next, k.vecs = general, vectors
	k.sumUp()
}

// clearUnless makes accumulators zero in the first part of the columns, and loads them in later ones.
func (f *file) clearUnless(part reg, label string, acc []vec, kept reg, at int) {
	for _, a := range acc {
		f.zero(a)
	}
	f.line("TBNZ $%d, R%d, %s", bits.Len(layout.FirstPart)-1, part, label)
	for i, a := range acc {
		f.load('q', a, kept, at+16*i)
	}
	f.label(label)
}

// sumUp writes the outputs after the last part of the columns.
func (k *kernel) sumUp() {
	out, stride, kept, part := k.param("out"), k.param("outStride"), k.param("acc"), k.param("part")
	k.line("TBZ $%d, R%d, done", bits.Len(layout.LastPart)-1, part)
	for t := range k.t {
		mark := k.vecs
		a, b := k.vecsOf(k.r), k.vecsOf(k.r)
		for r := range a {
			k.load('q', a[r], kept, 16*(r*k.t+t))
			k.load('q', b[r], kept, 16*(k.r*k.t+r*k.t+t))
		}
		k.output(out, 0, a, b)
		if t+1 < k.t {
			k.add(out, out, stride)
		}
		k.vecs = mark
	}
	k.label("done")
	k.ret()
}

// Readings are the orders in which a stream's rows lie, and who asks for them.
const (
	near      = "stream"  // consecutive rows, which the hardware prefetches
	far       = "far"     // consecutive rows, asked for well before
	scattered = "scatter" // rows chosen by index, of which a later one is asked for
)

// farAhead is the distance in bytes at which far streams ask for memory, as on amd64; rowsAhead that of scattered rows, in rows.
const (
	farAhead  = 8 << 10
	rowsAhead = 4
)

// streamName is the name of a stream's kernel.
func (k *kernel) streamName(reading string) string {
	name := reading + strings.ReplaceAll(k.typ.String(), "_", "") + k.isa
	if k.filed {
		return "file" + strings.ToUpper(name[:1]) + name[1:]
	}
	return name
}

// stream emits one token's products with many rows, one row after the other.
func (k *kernel) stream(reading string) {
	name := k.streamName(reading)
	signature, what := "func(out *float32, w *byte, rowBytes uintptr, x *byte, n uintptr, rows uintptr)", "consecutive rows"
	if reading == scattered {
		signature, what = "func(out *float32, w *byte, rowBytes uintptr, index *int32, x *byte, n uintptr, rows uintptr)", "rows chosen by index"
	}
	layout := ""
	if k.filed {
		layout = " in file layout"
	}
	k.function(name, signature, fmt.Sprintf("computes one token's products with %s of %s%s. Scalar twin: dotGeneric in matmul_generic.go.", what, k.typ, layout))
	out, w, rowBytes, x, n, rows := k.param("out"), k.param("w"), k.param("rowBytes"), k.param("x"), k.param("n"), k.param("rows")
	var index, ahead reg
	if reading == scattered {
		index, ahead = k.param("index"), k.reg()
	}
	k.w, k.x, k.n = []reg{k.reg()}, []reg{k.reg()}, k.reg()
	k.prepare()
	acc := k.vecsOf(2)
	if k.skip() > 0 {
		k.addImm(w, k.skip())
	}
	k.label("row")
	if reading == scattered {
		k.pick(k.w[0], w, rowBytes, index, 0)
		k.mov(ahead, k.w[0])
		k.line("CMP $%d, R%d", rowsAhead, rows)
		k.branch("BLE", "last")
		k.pick(ahead, w, rowBytes, index, 4*rowsAhead)
		k.label("last")
	} else {
		k.mov(k.w[0], w)
		k.add(w, w, rowBytes)
	}
	k.mov(k.x[0], x)
	k.mov(k.n, n)
	k.zero(acc[0])
	k.zero(acc[1])
	k.begin(name, k.bytes())
	k.label("super")
	switch reading {
	case scattered:
		k.ask(ahead, 0, k.bytes())
		k.addImm(ahead, k.bytes())
	case far:
		k.ask(k.w[0], farAhead, k.bytes())
	}
	k.half(0, acc[:1])
	k.half(1, acc[1:])
	k.advance()
	k.down(k.n, 1, "super")
	k.stop()
	k.output(out, 0, acc[:1], acc[1:])
	k.addImm(out, 4)
	if reading == scattered {
		k.addImm(index, 4)
	}
	k.down(rows, 1, "row")
	k.ret()
}

// pick points d at the row whose number is disp bytes behind index.
func (f *file) pick(d, w, rowBytes, index reg, disp int) {
	f.line("MOVW %d(R%d), R%d", disp, index, d)
	f.line("MUL R%d, R%d, R%d", rowBytes, d, d)
	f.add(d, d, w)
}
