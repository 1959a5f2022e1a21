package main

import (
	"fmt"
	"math/bits"

	"github.com/powerinfer-go/powerinfer/internal/compute/cpu/layout"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// Weights of F16 and BF16 against activations rounded to BF16. BFDOT adds two products to each of four lanes, BFMMLA
// two times two products to the sums of two rows and two tokens. n counts groups of 32 elements, four vectors of eight:
// the first and the third go into the lower four of eight lanes, the others into the upper ones.

// brains is the instruction set's name: BFDOT and BFMMLA of ARMv8.2's BF16, which ARMv8.6 always has.
const brains = "BF16"

// Rows and tokens of the tile over panels.
const (
	brainRows   = 8
	brainTokens = 8
)

// groupBytes is the size of 32 elements in BF16.
const groupBytes = 64

// brainFloats emits the kernels of both types.
func (f *file) brainFloats() {
	for _, typ := range []quant.Type{quant.F16, quant.BF16} {
		tile := func(r, t int) *floats { return &floats{kernel{file: f, isa: brains, typ: typ, r: r, t: t}} }
		tile(1, 1).rows()
		tile(8, 1).rows()
		tile(3, 4).tokens()
		tile(4, 1).scatter()
		tile(1, 1).expandBrains()
	}
	(&floats{kernel{file: f, isa: brains, typ: quant.F16, r: 1, t: 1}}).roundWeights()
	(&kernel{file: f, isa: brains, typ: quant.BF16, r: brainRows, t: brainTokens}).brainPanel()
	f.roundBrains()
	f.arrangeBrains()
}

// brain loads eight weights as BF16; tmp is free.
func (k *floats) brain(d, tmp vec, w reg, off int) {
	k.load('q', d, w, off)
	if k.typ == quant.F16 {
		k.op2("fcvtl2", tmp, d)
		k.op2("fcvtl", d, d)
		k.op2("bfcvtn", d, d)
		k.op2("bfcvtn2", d, tmp)
	}
}

// pairsOfGroup adds one group of every row and token: acc has the lower lanes of all, then the upper ones.
func (k *floats) pairsOfGroup(acc []vec, g int) {
	w, tmp, x := k.vecsOf(k.r), k.vec(), k.vec()
	if k.t == 1 {
		w = w[:1]
	}
	all := k.r * k.t
	for v := range 4 {
		lanes, off := acc[v%2*all:][:all], groupBytes*g+16*v
		if k.t == 1 {
			k.load('q', x, k.x[0], off)
			for r := range k.r {
				k.brain(w[0], tmp, k.w[r], off)
				k.op("bfdot", lanes[r], w[0], x)
			}
			continue
		}
		for r := range k.r {
			k.brain(w[r], tmp, k.w[r], off)
		}
		for t := range k.t {
			k.load('q', x, k.x[t], off)
			for r := range k.r {
				k.op("bfdot", lanes[r*k.t+t], w[r], x)
			}
		}
	}
}

// byLane puts what two vectors of a group have in the same lane side by side: the lower half of d[0] is lane 0's, its
// upper half lane 1's, d[1] has lanes 2 and 3.
func (f *file) byLane(d [2]vec, a, b vec) {
	f.op("zip1", d[0], a, b)
	f.op("zip2", d[1], a, b)
}

// expandBrains emits the function that writes n groups of a row into a panel with pairs of rows: eight bytes for each
// lane, followed by the other row's.
func (k *floats) expandBrains() {
	name := "expand" + k.typ.String() + brains
	k.function(name, "func(dst *byte, w *byte, n uintptr)",
		fmt.Sprintf("writes n groups of 32 %s weights as one row of a panel's pair in BF16. Scalar twin: bf16Weight in bfloat.go.", k.typ))
	dst := k.param("dst")
	k.w, k.n = []reg{k.param("w")}, k.param("n")
	a, b, tmp, d := k.vec(), k.vec(), k.vec(), [2]vec{k.vec(), k.vec()}
	k.label("group")
	for h := range 2 {
		k.brain(a, tmp, k.w[0], 16*h)
		k.brain(b, tmp, k.w[0], 32+16*h)
		k.byLane(d, a, b)
		for i, v := range d {
			k.store('d', v, dst, 64*h+32*i)
			k.ext(v, v, v, 8)
			k.store('d', v, dst, 64*h+32*i+16)
		}
	}
	k.addImm(k.w[0], groupBytes)
	k.addImm(dst, 2*groupBytes)
	k.down(k.n, 1, "group")
	k.ret()
}

// arrangeBrains emits what writes n groups of two tokens' activations side by side.
func (f *file) arrangeBrains() {
	f.function("arrangeBF16", "func(dst, x *byte, xStride, n uintptr)",
		"writes n groups of activations of two tokens as tiles of BFMMLA read them. It has no scalar twin: the tile that reads it is held to dotPairsGeneric.")
	dst, n := f.param("dst"), f.param("n")
	x := []reg{f.param("x"), f.reg()}
	f.add(x[1], x[0], f.param("xStride"))
	f.label("group")
	for h := range 2 {
		f.vecs = 0
		var z [2][2]vec // [token]
		for t := range z {
			a, b := f.vec(), f.vec()
			f.load('q', a, x[t], 16*h)
			f.load('q', b, x[t], 32+16*h)
			z[t] = [2]vec{f.vec(), f.vec()}
			f.byLane(z[t], a, b)
		}
		d := f.vec()
		for lane := range 4 {
			f.op([]string{"zip1.d", "zip2.d"}[lane%2], d, z[0][lane/2], z[1][lane/2])
			f.store('q', d, dst, 16*(4*h+lane))
		}
	}
	for _, p := range x {
		f.addImm(p, groupBytes)
	}
	f.addImm(dst, 2*groupBytes)
	f.down(n, 1, "group")
	f.ret()
}

// brainPanel emits the tile of brainRows rows of a panel and brainTokens arranged tokens. It takes one lane of all
// groups before the next one, because registers hold only sixteen vectors of sums.
func (k *kernel) brainPanel() {
	const rows, tokens, lanes = brainRows / 2, brainTokens / 2, 8 // pairs of rows and of tokens
	name := k.name("panel")
	k.function(name, tileSignature+", acc *float32, part uintptr)",
		fmt.Sprintf("computes out[t][r] of %d rows of a panel in BF16 and %d arranged tokens. Scalar twin: dotPairsGeneric in bfloat.go.", k.r, k.t))
	general := k.next
	n, kept, part := k.param("n"), k.param("acc"), k.param("part")
	operands := k.pointers("w", "rowBytes", rows)
	operands = append(operands, k.pointers("x", "xStride", tokens)...)
	back, left, lane := k.reg(), k.reg(), k.reg()
	k.line("LSL $%d, R%d, R%d", bits.Len(2*groupBytes)-1, n, back)
	k.movImm(lane, lanes)
	acc, w, x := k.vecsOf(rows*tokens), k.vecsOf(rows), k.vecsOf(tokens)
	k.label("lane")
	for _, a := range acc {
		k.zero(a)
	}
	k.line("TBNZ $%d, R%d, begin", bits.Len(layout.FirstPart)-1, part)
	for i, a := range acc {
		k.load('q', a, kept, 16*i)
	}
	k.label("begin")
	k.mov(left, n)
	k.begin(name, k.r*groupBytes/lanes*k.t)
	k.label("group")
	for i, v := range append(w[:rows:rows], x...) {
		k.load('q', v, operands[i], 0)
	}
	for r := range w {
		for t := range x {
			k.op("bfmmla", acc[r*tokens+t], w[r], x[t])
		}
	}
	for _, p := range operands {
		k.addImm(p, 2*groupBytes)
	}
	k.down(left, 1, "group")
	k.stop()
	for i, a := range acc {
		k.store('q', a, kept, 16*i)
	}
	k.addImm(kept, 16*len(acc))
	for _, p := range operands {
		k.sub(p, p, back)
		k.addImm(p, 16)
	}
	k.down(lane, 1, "lane")
	k.next, k.vecs = general, 0
	k.sumPairs(rows, tokens)
}

// roundWeights emits what rounds a row of F16 weights at load.
func (k *floats) roundWeights() {
	k.function("roundF16BF16", "func(dst *byte, w *byte, n uintptr)", "writes n groups of 32 F16 weights as BF16. Scalar twin: bf16Weight in bfloat.go.")
	dst := k.param("dst")
	k.w, k.n = []reg{k.param("w")}, k.param("n")
	v, tmp := k.vec(), k.vec()
	k.label("group")
	for i := range 4 {
		k.brain(v, tmp, k.w[0], 16*i)
		k.store('q', v, dst, 16*i)
	}
	k.addImm(k.w[0], groupBytes)
	k.addImm(dst, groupBytes)
	k.down(k.n, 1, "group")
	k.ret()
}

// roundBrains emits the rounding of activations. BFCVTN keeps denormals, but products read them as zeros; so it makes
// them zeros with their sign.
func (f *file) roundBrains() {
	f.function("roundBF16", "func(dst *byte, x *float32, n uintptr)", "rounds n groups of 32 float32 to BF16. Scalar twin: roundBF16Generic in bfloat.go.")
	table := f.constants()
	dst, x, n := f.param("dst"), f.param("x"), f.param("n")
	least, sign, a := f.vec(), f.vec(), f.vecsOf(2)
	f.constant(least, table, float32s(0x1p-126)...)
	f.constant(sign, table, 0, 0, 0, 0x80)
	small := f.vec()
	f.label("group")
	for i := range 4 {
		for h, v := range a {
			f.load('q', v, x, 32*i+16*h)
			f.op2("fabs", small, v)
			f.op("fcmgt", small, least, small)
			f.op("bic", small, small, sign)
			f.op("bic", v, v, small)
		}
		f.op2("bfcvtn", a[0], a[0])
		f.op2("bfcvtn2", a[0], a[1])
		f.store('q', a[0], dst, 16*i)
	}
	f.addImm(x, 2*groupBytes)
	f.addImm(dst, groupBytes)
	f.down(n, 1, "group")
	f.ret()
}
