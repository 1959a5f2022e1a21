package main

import (
	"fmt"
	"strings"

	"github.com/powerinfer-go/powerinfer/internal/compute/cpu/layout"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// expand emits what writes n superblocks of a packed row as a panel's: bytes with their sign and float scales.
func (k *kernel) expand() {
	name := "expand" + strings.ReplaceAll(k.typ.String(), "_", "") + plain
	k.function(name, "func(dst *byte, w *byte, n uintptr)",
		fmt.Sprintf("writes n superblocks of a packed %s row as a panel's. Scalar twin: superblock in unpack.go.", k.typ))
	dst := k.param("dst")
	k.w, k.n = []reg{k.param("w")}, k.param("n")
	k.addImm(k.w[0], k.skip())
	k.prepare()
	var offset vec
	if o := k.offset(); o > 0 {
		offset = k.vec()
		k.movi(offset, byte(o))
	}
	k.begin(name, k.bytes())
	k.label("super")
	mark := k.vecs
	for h := range 2 {
		k.vecs = mark
		f := k.factors(0, h)
		keep := func(v vec, at int) { k.store('q', v, dst, at+16*h) }
		keep(f.scale, layout.NeonScale)
		if k.traits().Scales == quant.BlockMin { // panels of its form subtract minima
			k.op2("fneg", f.min, f.min)
		}
		if k.traits().Scales.Minima() {
			keep(f.min, layout.NeonMin)
		}
		if k.twoSums() {
			keep(f.first, layout.NeonFirst)
			keep(f.second, layout.NeonSecond)
		}
		if k.traits().Scales == quant.NibbleMinima {
			keep(f.least, layout.NeonLeast)
		}
	}
	for h := range 2 {
		for s, groups := range k.sources() {
			k.vecs = mark
			raw, w, tmp := k.vec(), k.vec(), k.vec()
			k.raw(raw, 0, s, h)
			for _, g := range groups {
				k.unpack(w, raw, tmp, 0, g, h)
				if k.offset() > 0 {
					k.op("sub.b", w, w, offset)
				}
				k.store('q', w, dst, layout.NeonQuants+32*g+16*h)
			}
		}
	}
	k.addImm(k.w[0], k.bytes())
	k.addImm(dst, layout.NeonPanel(k.typ))
	k.down(k.n, 1, "super")
	k.stop()
	k.ret()
}

// quantize emits the quantiser of n superblocks.
func (f *file) quantize() {
	f.function("quantizeNEON", "func(dst *byte, x *float32, n uintptr)", "quantises n superblocks of activations. Scalar twin: quantizeSuper in acts.go.")
	dst, x, n := f.param("dst"), f.param("x"), f.param("n")
	lane, blocks := f.reg(), f.reg()
	table := f.constants()
	v := f.vecsOf(8)
	limit := f.vec()
	f.constant(limit, table, float32s(127)...)
	f.label("super")
	f.movImm(blocks, 8)
	f.mov(lane, dst)
	f.label("block")
	mark := f.vecs
	m := f.vecsOf(8)
	for i := range v {
		f.load('q', v[i], x, 16*i)
	}
	for i := range v {
		f.op2("fabs", m[i], v[i])
	}
	for _, step := range []int{4, 2, 1} {
		for i := range step {
			f.op("fmaxnm", m[i], m[i], m[i+step])
		}
	}
	top, d, inverse, zero := m[0], m[1], m[2], m[3]
	f.across("fmaxnmv", top, top)
	f.dup(top, top, 0)
	f.op("fdiv", d, top, limit)
	f.op("fdiv", inverse, limit, top)
	f.zero(zero)
	f.op("fcmgt", zero, top, zero)
	f.op("and", inverse, inverse, zero)
	for i := range v {
		f.op("fmul", v[i], v[i], inverse)
		f.op2("fcvtns", v[i], v[i])
	}
	first, second, all := m[4], m[5], m[6]
	for half, s := range []vec{first, second} {
		f.op("add", s, v[4*half], v[4*half+1])
		f.op("add", all, v[4*half+2], v[4*half+3])
		f.op("add", s, s, all)
		f.across("addv", s, s)
	}
	f.op("add", all, first, second) // lane 0; the others are zero
	f.store('s', d, lane, layout.ActScale)
	f.op2("scvtf", m[7], all)
	f.op("fmul", m[7], m[7], d)
	f.store('s', m[7], lane, layout.ActDSum)
	f.op("zip1.h", m[7], first, second)
	f.store('s', m[7], lane, layout.ActPairs)
	for _, c := range []struct {
		from       vec
		shift, off int
	}{{first, 5, layout.ActLo32}, {second, 5, layout.ActHi32}, {all, 3, layout.ActNeg8}} {
		f.op2("neg", c.from, c.from)
		f.shift("shl", 32, c.from, c.from, c.shift)
		f.store('s', c.from, lane, c.off)
	}
	for i := 0; i < 8; i += 4 {
		f.op2("xtn", v[i], v[i])
		f.op2("xtn2", v[i], v[i+1])
		f.op2("xtn", v[i+2], v[i+2])
		f.op2("xtn2", v[i+2], v[i+3])
		f.op2("xtn.b", v[i], v[i])
		f.op2("xtn2.b", v[i], v[i+2])
		for g := range 4 {
			f.store('s', v[i], lane, 32*(i+g))
			if g < 3 {
				f.ext(v[i], v[i], v[i], 4)
			}
		}
	}
	f.vecs = mark
	f.addImm(x, 128)
	f.addImm(lane, 4)
	f.down(blocks, 1, "block")
	f.addImm(dst, layout.ActBytes)
	f.down(n, 1, "super")
	f.ret()
}
