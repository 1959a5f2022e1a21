package main

import (
	"fmt"
	"math/bits"
	"strings"

	"github.com/powerinfer-go/powerinfer/internal/compute/cpu/layout"
)

// name is the kernel's.
func (k *kernel) name(kind string) string {
	of := k.panel
	if of == "" {
		of = strings.ReplaceAll(k.typ.String(), "_", "")
	}
	return fmt.Sprintf("%s%s%s%dx%d", kind, of, k.isa, k.r, k.t)
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

// skip returns the number of bytes before the quants.
func (k *kernel) skip() int {
	if k.panel != "" || k.filed {
		return 0
	}
	return layout.Of(k.typ).Quants
}

// advance continues with the next superblock, by a step of bytes.
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
	ahead := k.reg() // the rows after these
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

// ask prefetches that many bytes from at+off on.
func (f *file) ask(at reg, off, bytes int) {
	for b := 0; b < bytes; b += 64 {
		f.prefetch(at, off+b)
	}
}

// output stores the sums over the lanes of a and b side by side from out+off on. a holds the first four lanes, b the
// others.
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

// tokens emits a tile of several tokens, which may be called for one part of the columns after the other. The halves of
// superblocks are computed in two passes, so that accumulators stay in registers.
func (k *kernel) tokens(kind string) {
	name, of := k.name(kind), k.typ.String()
	if k.panel != "" {
		of = "panel"
	}
	k.function(name, tileSignature+", acc *float32, part uintptr)",
		fmt.Sprintf("computes out[t][r] of %d %s rows and %d tokens. Scalar twin: dotGeneric in matmul_generic.go.", k.r, of, k.t))
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
