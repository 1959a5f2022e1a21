package main

import (
	"fmt"
	"strings"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// scoring holds the registers of a kernel of scores.
type scoring struct {
	s, ahead         reg.Register // where scores go, and memory that is asked for
	q, k             rows         // queries, and keys of the step
	qStride, kStride reg.Register // bytes from row to row
	keys, headDim    reg.Register // keys that are left, and elements of a row
}

// beginScores emits the beginning of scores for T queries, K keys at a time.
func (c element) beginScores(suffix string, T, K int) scoring {
	function(fmt.Sprintf("scores%d%s", T, suffix), "func(s, q *float32, k, ahead *byte, keys, headDim int)",
		fmt.Sprintf("computes s[t][j] = q[t]·k[j] for %d queries; keys are rounded up to a multiple of 8. Scalar twin: scores.", T))
	s, q, k, ahead := pointer("s"), pointer("q"), pointer("k"), pointer("ahead")
	p := scoring{s: s, ahead: ahead, keys: pointer("keys"), headDim: pointer("headDim"), qStride: GP64(), kStride: GP64()}
	MOVQ(p.headDim, p.qStride)
	SHLQ(Imm(2), p.qStride)
	MOVQ(p.headDim, p.kStride)
	c.rowBytes(p.kStride)
	p.q, p.k = newRows(q, p.qStride, T), newRows(k, p.kStride, K)
	return p
}

// nextKeys moves queries back to their beginning, and keys on by the K keys of the step.
func (p *scoring) nextKeys(K int) {
	for _, b := range p.q.base {
		SUBQ(p.qStride, b)
	}
	for range K - 1 {
		p.k.advance(p.kStride)
	}
}

// scores emits the products of T queries with keys, K keys at a time. Every score is eight sums over
// every eighth element, added by a tree, whatever T and K.
func scores(c element, T, K int) {
	p := c.beginScores(c.suffix, T, K)
	ADDQ(Imm(7), p.keys)
	ANDQ(I8(-8), p.keys)
	acc := make([][]reg.VecVirtual, T)
	for t := range acc {
		acc[t] = make([]reg.VecVirtual, K)
	}
	Label("keys")
	for t := range acc {
		for j := range acc[t] {
			acc[t][j] = zero()
		}
	}
	d := GP64()
	MOVQ(p.headDim, d)
	Label("dims")
	prefetch(p.ahead, c.bytes*K)
	if c.integers != nil {
		for j := range K {
			scale, y := c.scale(p.k.at(j)), YMM()
			for i := range 4 {
				c.quarter(p.k.at(j), i, scale, y)
				for t := range T {
					VFMADD231PS(p.q.at(t).Offset(32*i), y, acc[t][j])
				}
			}
		}
	} else if T == 1 {
		x := YMM()
		VMOVUPS(p.q.at(0), x)
		for j := range K {
			y := YMM()
			c.load(p.k.at(j), y)
			VFMADD231PS(x, y, acc[0][j])
		}
	} else if T > K {
		y := make([]reg.VecVirtual, K)
		for j := range K {
			y[j] = YMM()
			c.load(p.k.at(j), y[j])
		}
		for t := range T {
			x := YMM()
			VMOVUPS(p.q.at(t), x)
			for j := range K {
				VFMADD231PS(x, y[j], acc[t][j])
			}
		}
	} else {
		x := make([]reg.VecVirtual, T)
		for t := range T {
			x[t] = YMM()
			VMOVUPS(p.q.at(t), x[t])
		}
		for j := range K {
			y := YMM()
			c.load(p.k.at(j), y)
			for t := range T {
				VFMADD231PS(x[t], y, acc[t][j])
			}
		}
	}
	p.q.advance(U32(uint32(4 * c.elements)))
	p.k.advance(Imm(uint64(c.bytes)))
	SUBQ(Imm(uint64(c.elements)), d)
	JG(LabelRef("dims"))
	p.nextKeys(K)
	if K == 2 {
		for t := 0; t < T; t += 2 {
			x := tree(acc[t][0], acc[t][1], acc[t+1][0], acc[t+1][1])
			VMOVLPS(x, at(p.s, t*rowBytes))
			VMOVHPS(x, at(p.s, (t+1)*rowBytes))
		}
	} else {
		for t := range T {
			for j := 0; j < K; j += 4 {
				VMOVUPS(tree(acc[t][j], acc[t][j+1], acc[t][j+2], acc[t][j+3]), at(p.s, t*rowBytes+4*j))
			}
		}
	}
	ADDQ(Imm(uint64(4*K)), p.s)
	SUBQ(Imm(uint64(K)), p.keys)
	JG(LabelRef("keys"))
	end()
}

// The queries and keys of scoresWide.
const (
	wideQueries = 6
	wideKeys    = 8
)

// wide is the suffix of a type's kernels in 512-bit vectors.
func (c element) wide() string { return strings.TrimSuffix(c.suffix, "AVX2") + "AVX512" }

// scoresWide emits scores in 512-bit vectors, which hold the eight sums of one query and those of the next. The sums
// have the same bytes as those of scores.
func scoresWide(c element) {
	p := c.beginScores(c.wide(), wideQueries, wideKeys)
	var acc [wideQueries / 2][wideKeys]reg.VecVirtual // for queries 2i and 2i+1
	Label("keys")
	for i := range acc {
		for j := range acc[i] {
			acc[i][j] = ZMM()
			VPXORD(acc[i][j], acc[i][j], acc[i][j])
		}
	}
	d := GP64()
	MOVQ(p.headDim, d)
	Label("dims")
	prefetch(p.ahead, c.bytes*wideKeys)
	var x [wideQueries / 2]reg.VecVirtual
	for i := range x {
		x[i] = ZMM()
		VMOVUPS(p.q.at(2*i), x[i].AsY())
		VINSERTF32X8(Imm(1), p.q.at(2*i+1), x[i], x[i])
	}
	for j := range wideKeys {
		y := ZMM()
		c.twice(p.k.at(j), y)
		for i := range x {
			VFMADD231PS(x[i], y, acc[i][j])
		}
	}
	p.q.advance(U32(uint32(4 * c.elements)))
	p.k.advance(Imm(uint64(c.bytes)))
	SUBQ(Imm(uint64(c.elements)), d)
	JG(LabelRef("dims"))
	p.nextKeys(wideKeys)
	for i := range acc {
		for j := 0; j < wideKeys; j += 4 {
			a := acc[i][j:]
			sums := pairSums(pairSums(a[0], a[1]), pairSums(a[2], a[3]))
			second := YMM()
			VEXTRACTF64X4(Imm(1), sums, second)
			for t, y := range []reg.VecVirtual{sums.AsY().(reg.VecVirtual), second} {
				low := XMM()
				VEXTRACTF32X4(Imm(1), y, low)
				VADDPS(y.AsX(), low, low)
				VMOVUPS(low, at(p.s, (2*i+t)*rowBytes+4*j))
			}
		}
	}
	ADDQ(Imm(4*wideKeys), p.s)
	SUBQ(Imm(wideKeys), p.keys)
	JG(LabelRef("keys"))
	end()
}

// pairSums is VHADDPS of 512-bit vectors: in each 128 bits the sums of two pairs of a and of two of b, in a.
func pairSums(a, b reg.VecVirtual) reg.VecVirtual {
	odd := ZMM()
	VSHUFPS(Imm(0xdd), b, a, odd)
	VSHUFPS(Imm(0x88), b, a, a)
	VADDPS(odd, a, a)
	return a
}

// tree leaves the sums of the lanes of a, b, c, d in an XMM, clobbering them.
func tree(a, b, c, d reg.VecVirtual) reg.VecVirtual {
	VHADDPS(b, a, a)
	VHADDPS(d, c, c)
	VHADDPS(c, a, a)
	x := XMM()
	VEXTRACTF128(Imm(1), a, x)
	VADDPS(a.AsX(), x, x)
	return x
}
