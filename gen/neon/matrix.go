package main

import (
	"fmt"
	"math/bits"

	"github.com/powerinfer-go/powerinfer/internal/compute/cpu/layout"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// Panels for SMMLA, which multiplies two rows of eight bytes by two rows of another vector. Rows and tokens are stored
// in pairs: eight bytes of one, then eight of the other. A vector of sums is [r0·t0, r0·t1, r1·t0, r1·t1] for one
// block, so there are eight of them, one for each lane of the scalar twin. A loop computes block number 0 of all
// superblocks, then number 1, and so on.

// matrices is the instruction set's name: SMMLA of ARMv8.2's I8MM, which ARMv8.6 always has.
const matrices = "MMLA"

// Rows and tokens of a tile.
const (
	matrixRows   = 8
	matrixTokens = 4
)

// arrange emits what writes n superblocks of two tokens' activations side by side.
func (f *file) arrange() {
	f.function("arrangeMMLA", "func(dst, x *byte, xStride, n uintptr)",
		"writes n superblocks of activations of two tokens as tiles of SMMLA read them. It has no scalar twin: the tiles that read it are held to dotGeneric.")
	dst, n := f.param("dst"), f.param("n")
	x := []reg{f.param("x"), f.reg()}
	f.add(x[1], x[0], f.param("xStride"))
	f.label("super")
	for h := range 2 {
		for c := range 4 {
			f.vecs = 0
			var z [2][2]vec // [token][blocks 0 and 1, or 2 and 3]
			for t := range z {
				a, b := f.vec(), f.vec()
				f.load('q', a, x[t], 64*c+16*h)
				f.load('q', b, x[t], 64*c+32+16*h)
				z[t] = [2]vec{f.vec(), f.vec()}
				f.op("zip1", z[t][0], a, b)
				f.op("zip2", z[t][1], a, b)
			}
			d := f.vec()
			for k := range 4 {
				f.op([]string{"zip1.d", "zip2.d"}[k%2], d, z[0][k/2], z[1][k/2])
				f.store('q', d, dst, layout.PairQuants+64*(4*h+k)+16*c)
			}
		}
		for _, m := range []struct{ from, to int }{{layout.ActScale, layout.PairScale}, {layout.ActDSum, layout.PairMin}} {
			f.vecs = 0
			a, b := f.vec(), f.vec()
			f.load('q', a, x[0], m.from+16*h)
			f.load('q', b, x[1], m.from+16*h)
			f.spreadTokens(dst, m.to+64*h, a, b)
		}
		f.vecs = 0
		a, b, c, d := f.vec(), f.vec(), f.vec(), f.vec()
		f.load('q', a, x[0], layout.ActPairs+16*h)
		f.load('q', b, x[1], layout.ActPairs+16*h)
		for i, v := range []vec{a, b} {
			to := []vec{c, d}[i]
			f.shift("shl", 32, to, v, 16)
			f.shift("sshr", 32, to, to, 16)
			f.shift("sshr", 32, v, v, 16)
		}
		f.spreadTokens(dst, layout.PairFirst+64*h, c, d)
		f.spreadTokens(dst, layout.PairSecond+64*h, a, b)
	}
	for _, p := range x {
		f.addImm(p, layout.ActBytes)
	}
	f.addImm(dst, layout.PairActs)
	f.down(n, 1, "super")
	f.ret()
}

// spreadTokens stores for each of four blocks its lane of a, of b, and both again.
func (f *file) spreadTokens(dst reg, at int, a, b vec) {
	z, d := f.vec(), f.vec()
	for k := range 4 {
		if k%2 == 0 {
			f.op([]string{"zip1", "zip2"}[k/2], z, a, b)
		}
		f.op([]string{"zip1.d", "zip2.d"}[k%2], d, z, z)
		f.store('q', d, dst, at+16*k)
	}
}

// pairRow emits what writes n superblocks of a panel's row, as expand leaves them, as one row of a pair.
func (k *kernel) pairRow() {
	k.function("pairRow"+k.panel+matrices, "func(dst *byte, panel *byte, n uintptr)",
		"writes n superblocks of a panel's row as one row of a panel's pair. It has no scalar twin, as it only moves what expanders wrote.")
	dst := k.param("dst")
	k.w, k.n = []reg{k.param("panel")}, k.param("n")
	k.label("super")
	for h := range 2 {
		k.vecs = 0
		f := k.panelFactors(0, h)
		z := k.vec()
		// Each of four lanes twice, for two tokens.
		spread := func(v vec, at int) {
			for i := range 2 {
				k.op([]string{"zip1", "zip2"}[i], z, v, v)
				k.store('d', z, dst, at+16*(4*h+2*i))
				k.ext(z, z, z, 8)
				k.store('d', z, dst, at+16*(4*h+2*i+1))
			}
		}
		if !k.small() {
			spread(f.scale, layout.PairScale)
		}
		if k.traits().Scales.Minima() {
			spread(f.min, layout.PairMin)
		}
		if k.twoSums() {
			spread(f.first, layout.PairFirst)
			spread(f.second, layout.PairSecond)
		}
		if k.traits().Scales == quant.NibbleMinima {
			k.shift("shl", 32, f.first, f.least, 16)
			k.shift("sshr", 32, f.first, f.first, 16)
			k.shift("sshr", 32, f.least, f.least, 16)
			spread(f.first, layout.PairLeast)
			spread(f.least, layout.PairLeast+128)
		}
		for c := range 4 {
			k.vecs = 0
			a, b, z := k.vec(), k.vec(), k.vec()
			k.load('q', a, k.w[0], layout.NeonQuants+64*c+16*h)
			k.load('q', b, k.w[0], layout.NeonQuants+64*c+32+16*h)
			for i := range 2 {
				k.op([]string{"zip1", "zip2"}[i], z, a, b)
				k.store('d', z, dst, layout.PairQuants+64*(4*h+2*i)+16*c)
				k.ext(z, z, z, 8)
				k.store('d', z, dst, layout.PairQuants+64*(4*h+2*i+1)+16*c)
			}
		}
	}
	k.addImm(k.w[0], layout.NeonPanel(k.typ))
	k.addImm(dst, 2*layout.PairPanel(k.typ))
	k.down(k.n, 1, "super")
	k.ret()
}

// pairs emits the tile of matrixRows rows of a panel and matrixTokens arranged tokens.
func (k *kernel) pairs() {
	const rows, tokens = matrixRows / 2, matrixTokens / 2 // pairs
	k.r, k.t = matrixRows, matrixTokens
	name := k.name("panel")
	k.function(name, tileSignature+", acc *float32, part uintptr)",
		fmt.Sprintf("computes out[t][r] of %d rows of a panel and %d arranged tokens. Scalar twin: dotGeneric in matmul_generic.go.", k.r, k.t))
	general := k.next
	n, kept, part := k.param("n"), k.param("acc"), k.param("part")
	begin := k.pointers("w", "rowBytes", rows)
	x := k.pointers("x", "xStride", tokens)
	// Quants and what belongs to blocks go on by different steps from one number of blocks to the next.
	quants, blocks := begin, make([]reg, rows)
	xQuants, xBlocks := x, make([]reg, tokens)
	for i, p := range quants {
		blocks[i] = k.reg()
		k.mov(blocks[i], p)
		k.addImm(p, layout.PairQuants)
	}
	for i, p := range xQuants {
		xBlocks[i] = k.reg()
		k.mov(xBlocks[i], p)
		k.addImm(p, layout.PairQuants)
	}
	back, xBack, left, number := k.reg(), k.reg(), k.reg(), k.reg()
	k.movImm(back, 2*layout.PairPanel(k.typ))
	k.line("MUL R%d, R%d, R%d", n, back, back)
	k.movImm(xBack, layout.PairActs)
	k.line("MUL R%d, R%d, R%d", n, xBack, xBack)
	k.movImm(number, 8)
	acc := k.vecsOf(rows * tokens)
	k.label("block")
	for _, a := range acc {
		k.zero(a)
	}
	k.line("TBNZ $%d, R%d, begin", bits.Len(layout.FirstPart)-1, part)
	for i, a := range acc {
		k.load('q', a, kept, 16*i)
	}
	k.label("begin")
	k.mov(left, n)
	k.begin(name, rows*2*layout.PairPanel(k.typ)/8*k.t)
	k.label("super")
	k.step(acc, quants, blocks, xQuants, xBlocks)
	for i := range rows {
		k.addImm(quants[i], 2*layout.PairPanel(k.typ))
		k.addImm(blocks[i], 2*layout.PairPanel(k.typ))
	}
	for i := range tokens {
		k.addImm(xQuants[i], layout.PairActs)
		k.addImm(xBlocks[i], layout.PairActs)
	}
	k.down(left, 1, "super")
	k.stop()
	for i, a := range acc {
		k.store('q', a, kept, 16*i)
	}
	k.addImm(kept, 16*len(acc))
	for i := range rows {
		k.sub(quants[i], quants[i], back)
		k.addImm(quants[i], 64)
		k.sub(blocks[i], blocks[i], back)
		k.addImm(blocks[i], 16)
	}
	for i := range tokens {
		k.sub(xQuants[i], xQuants[i], xBack)
		k.addImm(xQuants[i], 64)
		k.sub(xBlocks[i], xBlocks[i], xBack)
		k.addImm(xBlocks[i], 16)
	}
	k.down(number, 1, "block")
	k.next, k.vecs = general, 0
	k.sumPairs(rows, tokens)
}

// pointers points registers at n rows or tokens, stride apart.
func (k *kernel) pointers(first, stride string, n int) []reg {
	p := []reg{k.param(first)}
	mark := k.next
	for range n - 1 {
		p = append(p, k.reg())
	}
	by := k.param(stride)
	for i := 1; i < n; i++ {
		k.add(p[i], p[i-1], by)
	}
	k.next = mark + reg(n-1)
	if mark <= 18 && k.next > 18 {
		k.next = p[n-1] + 1
	}
	return p
}

// step adds one superblock's block of one number.
func (k *kernel) step(acc []vec, quants, blocks, xQuants, xBlocks []reg) {
	rows, tokens := len(quants), len(xQuants)
	mark := k.vecs
	first := k.vecsOf(len(acc))
	second := first
	if k.twoSums() {
		second = k.vecsOf(len(acc))
	}
	inner := k.vecs
	w, x := k.vecsOf(rows), k.vecsOf(tokens)
	for _, s := range first {
		k.zero(s)
	}
	if k.twoSums() {
		for _, s := range second {
			k.zero(s)
		}
	}
	for c := range 4 {
		sums := first
		if c >= 2 {
			sums = second
		}
		for i := range w {
			k.load('q', w[i], quants[i], 16*c)
		}
		for t := range x {
			k.load('q', x[t], xQuants[t], 16*c)
		}
		for i := range w {
			for t := range x {
				k.op("smmla", sums[i*tokens+t], w[i], x[t])
			}
		}
	}
	for i := range rows {
		k.vecs = inner
		v, s := k.vec(), k.vec()
		if k.twoSums() {
			k.load('q', v, blocks[i], layout.PairFirst)
			k.load('q', s, blocks[i], layout.PairSecond)
			for t := range tokens {
				if n := i*tokens + t; k.small() {
					k.addParts(acc[n], first[n], second[n], v, s, xBlocks[t], layout.PairScale)
					continue
				}
				k.op("mul", first[i*tokens+t], first[i*tokens+t], v)
				k.op("mla", first[i*tokens+t], second[i*tokens+t], s)
			}
		}
		if k.small() {
			continue
		}
		if k.traits().Scales == quant.NibbleMinima {
			k.pairsOfHalves(first[i*tokens:][:tokens], acc[i*tokens:][:tokens], blocks[i], xBlocks)
			continue
		}
		k.load('q', v, blocks[i], layout.PairScale)
		for t := range tokens {
			k.load('q', s, xBlocks[t], layout.PairScale)
			k.op2("scvtf", first[i*tokens+t], first[i*tokens+t])
			k.op("fmul", s, s, v)
			k.op("fmla", acc[i*tokens+t], first[i*tokens+t], s)
		}
		if k.traits().Scales.Minima() {
			k.load('q', v, blocks[i], layout.PairMin)
			for t := range tokens {
				k.load('q', s, xBlocks[t], layout.PairMin)
				k.op("fmls", acc[i*tokens+t], v, s)
			}
		}
	}
	k.vecs = mark
}

// pairsOfHalves scales the sums of a pair of NibbleMinima's rows and adds them to acc.
func (k *kernel) pairsOfHalves(sums, acc []vec, blocks reg, xBlocks []reg) {
	v, s, m := k.vec(), k.vec(), k.vec()
	for t := range sums {
		k.load('q', v, blocks, layout.PairLeast)
		k.load('q', s, xBlocks[t], layout.PairFirst)
		k.op("mul", s, s, v)
		k.load('q', v, blocks, layout.PairLeast+128)
		k.load('q', m, xBlocks[t], layout.PairSecond)
		k.op("mla", s, m, v)
		k.op2("scvtf", s, s)
		k.op2("scvtf", sums[t], sums[t])
		k.load('q', v, blocks, layout.PairMin)
		k.op("fmul", s, s, v)
		k.load('q', v, blocks, layout.PairScale)
		k.op("fmla", s, sums[t], v)
		k.load('q', v, xBlocks[t], layout.PairScale)
		k.op("fmla", acc[t], s, v)
	}
}

// sumPairs writes the outputs of that many rows and tokens, in pairs, after the last part of the columns.
func (k *kernel) sumPairs(rows, tokens int) {
	out, stride, kept, part := k.param("out"), k.param("outStride"), k.param("acc"), k.param("part")
	k.line("TBZ $%d, R%d, done", bits.Len(layout.LastPart)-1, part)
	for t := range tokens {
		for i := 0; i < rows; i += 2 {
			k.vecs = 0
			var sums [2]vec
			for p := range sums {
				a := k.vecsOf(8)
				for j := range a {
					k.load('q', a[j], kept, 16*((j*rows+i+p)*tokens+t))
				}
				for _, by := range []int{1, 2, 4} {
					for j := 0; j < 8; j += 2 * by {
						k.op("fadd", a[j], a[j], a[j+by])
					}
				}
				sums[p] = a[0]
			}
			d := k.vec()
			k.op("uzp1", d, sums[0], sums[1])
			k.store('q', d, out, 8*i)
			k.add(k.next, out, stride)
			k.op("uzp2", d, sums[0], sums[1])
			k.store('q', d, k.next, 8*i)
		}
		if t+1 < tokens {
			k.addShifted(out, out, stride, 1)
		}
	}
	k.label("done")
	k.ret()
}
