package main

import (
	"fmt"
	"strings"

	"github.com/powerinfer-go/powerinfer/internal/compute/cpu/layout"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

func packName(typ quant.Type) string {
	return "pack" + strings.ReplaceAll(typ.String(), "_", "") + plain
}

// packFile emits the packing of n superblocks.
func (k *kernel) packFile() {
	name := packName(k.typ)
	k.function(name, "func(dst, src *byte, n, ahead uintptr)",
		fmt.Sprintf("packs n superblocks of %s, and prefetches what is ahead bytes after each. Scalar twin: packSuper in pack.go.", k.typ))
	dst, src, n, ahead := k.param("dst"), k.param("src"), k.param("n"), k.param("ahead")
	k.w = []reg{src}
	k.prepare()
	k.add(ahead, ahead, src)
	at := layout.Of(k.typ)
	k.begin(name, k.bytes())
	k.label("super")
	k.ask(ahead, 0, k.bytes())
	mark := k.vecs
	d := k.vec()
	switch scales := k.traits().Scales; scales {
	case quant.SixBits:
		k.packSixBits(dst)
	case quant.SuperScale:
	default:
		for h := range 2 {
			k.fileScales(d, h)
			if scales == quant.ByteBlocks || scales == quant.Exponents {
				k.store('s', d, dst, 4*h)
				continue
			}
			k.store('d', d, dst, 8*h)
			if scales == quant.BlockMin {
				k.ext(d, d, d, 8)
				k.store('d', d, dst, layout.Minima+8*h)
			}
		}
	}
	if at.Unit > 0 {
		width := byte('h')
		if k.traits().Scales.Minima() {
			width = 's' // two
		}
		k.load(width, d, src, unitAt(k.typ))
		k.store(width, d, dst, at.Unit)
	}
	for h := range 2 {
		k.vecs = mark
		k.join(k.fileCodes(h), dst, h)
	}
	k.addImm(src, k.bytes())
	k.addImm(ahead, k.bytes())
	k.addImm(dst, at.Bytes)
	k.down(n, 1, "super")
	k.stop()
	k.ret()
}

// join stores the groups of half h, and overwrites their registers.
func (k *kernel) join(g []vec, dst reg, h int) {
	at, b := layout.Of(k.typ), k.traits().Bits
	put := func(d vec, from int) { k.store('q', d, dst, from+16*h) }
	sum := k.vec()
	// chain stores the lowest bits of groups, width of each, as one vector.
	chain := func(from int, width, down int, groups ...vec) {
		for i, w := range groups {
			if down > 0 {
				k.shift("ushr", 8, w, w, down)
			}
			if i == 0 {
				k.move(sum, w)
			} else {
				k.shift("sli", 8, sum, w, width*i)
			}
		}
		put(sum, from)
	}
	switch {
	case b == 8:
		for v, w := range g {
			put(w, at.Quants+32*v)
		}
		return
	case b < 4:
		for v := range 2 {
			chain(at.Quants+32*v, 2, 0, g[v], g[v+2], g[v+4], g[v+6])
		}
	default:
		for v := range 4 {
			chain(at.Quants+32*v, 4, 0, g[v], g[v+4])
		}
	}
	switch b {
	case 3:
		chain(at.High, 1, 2, g...)
	case 5:
		chain(at.High, 1, 4, g...)
	case 6:
		for v := range 2 {
			chain(at.High+32*v, 2, 4, g[v], g[v+2], g[v+4], g[v+6])
		}
	}
}

// packSixBits packs d and dmin, then eight fields of six bits of scales, and of minima.
func (k *kernel) packSixBits(dst reg) {
	mark := k.next
	src, last, above, scale, min := k.w[0], k.reg(), k.reg(), k.reg(), k.reg()
	k.line("MOVWU (R%d), R%d", src, last)
	k.line("MOVW R%d, (R%d)", last, dst)
	k.line("MOVWU 12(R%d), R%d", src, last)
	for i, d := range []reg{scale, min} {
		k.line("MOVWU %d(R%d), R%d", 4+4*i, src, d)
		k.line("LSR $2, R%d, R%d", d, above)
		k.line("AND $0x3030303030303030, R%d, R%d", above, above)
		k.line("AND $0x3f3f3f3f3f3f3f3f, R%d, R%d", d, d)
		k.line("ORR R%d<<32, R%d, R%d", above, d, d)
		k.line("LSR $%d, R%d, R%d", 4*i, last, above)
		k.line("AND $0x0f0f0f0f0f0f0f0f, R%d, R%d", above, above)
		k.line("ORR R%d<<32, R%d, R%d", above, d, d)
		for _, step := range []struct {
			even string
			odd  string
			by   int
		}{{"0x00ff00ff00ff00ff", "0xff00ff00ff00ff00", 2}, {"0x0000ffff0000ffff", "0xffff0000ffff0000", 4}, {"0x00000000ffffffff", "0xffffffff00000000", 8}} {
			k.line("AND $%s, R%d, R%d", step.odd, d, above)
			k.line("AND $%s, R%d, R%d", step.even, d, d)
			k.line("ORR R%d>>%d, R%d, R%d", above, step.by, d, d)
		}
	}
	k.line("ORR R%d<<48, R%d, R%d", min, scale, scale)
	k.line("MOVD R%d, 4(R%d)", scale, dst)
	k.line("LSR $16, R%d, R%d", min, min)
	k.line("MOVW R%d, 12(R%d)", min, dst)
	k.next = mark
}
