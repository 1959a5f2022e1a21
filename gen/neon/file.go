package main

import (
	"fmt"
	"strings"

	"github.com/powerinfer-go/powerinfer/gen/filelayout"
	"github.com/powerinfer-go/powerinfer/internal/compute/cpu/layout"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// Rows as files have them: of each half of a superblock the quants are brought into the lanes of packed rows in registers. What follows is the same, so that products have the
// bits of packed rows.

// read reports whether there are kernels of t's rows as files have them.
func read(t quant.Type) bool {
	switch t {
	case quant.Q4_0, quant.Q4_1, quant.Q5_0, quant.Q5_1, quant.Q8_0, quant.Q2_K, quant.Q3_K, quant.Q4_K, quant.Q5_K, quant.Q6_K, quant.IQ4_NL, quant.IQ4_XS,
		quant.TQ2_0, quant.MXFP4:
		return true
	}
	return false
}

// files emits all.
func files(f *file) {
	kernel := func(typ quant.Type, isa string) *kernel {
		return &kernel{file: f, isa: isa, typ: typ, r: 1, t: 1, filed: true}
	}
	for _, typ := range quant.Types() {
		if !read(typ) {
			continue
		}
		for _, isa := range []string{plain, dots} {
			for _, reading := range []string{near, far, scattered} {
				kernel(typ, isa).stream(reading)
			}
		}
		kernel(typ, plain).packFile()
	}
	for _, isa := range []string{plain, dots} {
		fmt.Fprintf(&f.stubs, "\n// files%s returns the kernels of rows as files have them.\nfunc files%s() map[quant.Type]fileKernels {\n\treturn map[quant.Type]fileKernels{\n", isa, isa)
		for _, typ := range quant.Types() {
			if read(typ) {
				k := kernel(typ, isa)
				fmt.Fprintf(&f.stubs, "\t\tquant.%s: {%s, %s, %s},\n", typ, k.streamName(near), k.streamName(far), k.streamName(scattered))
			}
		}
		f.stubs.WriteString("\t}\n}\n")
	}
	f.stubs.WriteString("\n// packs returns what packs rows.\nfunc packs() map[quant.Type]func(dst, src *byte, n, ahead uintptr) {\n\treturn map[quant.Type]func(dst, src *byte, n, ahead uintptr){\n")
	for _, typ := range quant.Types() {
		if read(typ) {
			fmt.Fprintf(&f.stubs, "\t\tquant.%s: %s,\n", typ, packName(typ))
		}
	}
	f.stubs.WriteString("\t}\n}\n")
}

// shiftBytes shifts every byte of n by the number of the same place, down where it is negative.
func (k *kernel) shiftBytes(d, n vec, by func(i int) int) {
	mark := k.vecs
	amounts, b := k.vec(), make([]byte, 16)
	for i := range b {
		b[i] = byte(by(i))
	}
	k.constant(amounts, k.table, b...)
	k.op("ushl.b", d, n, amounts)
	k.vecs = mark
}

// transpose makes group v of vectors of a block: lane j of v[g] becomes lane g of what was v[j]. The order of registers changes.
func (k *kernel) transpose(v []vec) {
	mark := k.vecs
	a, b := k.vec(), k.vec()
	k.op("zip1", a, v[0], v[1])
	k.op("zip2", b, v[0], v[1])
	k.op("zip1", v[0], v[2], v[3])
	k.op("zip2", v[1], v[2], v[3])
	k.op("zip1.d", v[2], a, v[0])
	k.op("zip2.d", v[3], a, v[0])
	k.op("zip1.d", v[0], b, v[1])
	k.op("zip2.d", v[1], b, v[1])
	v[0], v[1], v[2], v[3] = v[2], v[3], v[0], v[1]
	k.vecs = mark
}

// gather leaves what lies at byte at of each block of half h side by side in d. pairs brings those of two blocks together, all those of four.
func (k *kernel) gather(width byte, pairs, all string, d vec, at, h int) {
	mark := k.vecs
	v := []vec{d, k.vec(), k.vec(), k.vec()}
	for j := range v {
		k.load(width, v[j], k.w[0], at+k.typ.BlockBytes()*(4*h+j))
	}
	k.op(pairs, v[0], v[0], v[1])
	k.op(pairs, v[2], v[2], v[3])
	k.op(all, d, v[0], v[2])
	k.vecs = mark
}

// fileScales leaves in d what a packed row's header has of half h; of BlockMin the minima lie behind the scales.
func (k *kernel) fileScales(d vec, h int) {
	mark := k.vecs
	w, upper := k.w[0], k.vec()
	switch k.typ {
	case quant.MXFP4:
		k.gather('b', "zip1.b", "zip1.h", d, 0, h)
	case quant.Q4_1, quant.Q5_1:
		k.gather('s', "zip1.h", "zip1", d, 0, h)
	case quant.Q6_K:
		k.load('d', d, w, filelayout.Q6K+8*h)
	case quant.Q2_K:
		k.load('d', d, w, 8*h)
	case quant.Q3_K: // four bits in nibbles of eight bytes, two in those of four
		k.load('d', d, w, filelayout.Q3KLow)
		if h == 0 {
			k.op("and", d, d, k.masks[0x0f])
		} else {
			k.shift("ushr", 8, d, d, 4)
		}
		k.load('s', upper, w, filelayout.Q3KUpper)
		k.dup(upper, upper, 0)
		k.shiftBytes(upper, upper, func(i int) int { return 4 - 4*h - i/4*2 })
		k.less32(d, upper)
	case quant.IQ4_XS: // four bits in nibbles, two in pairs
		k.load('d', d, w, 0)
		index := k.vec()
		k.constant(index, k.table, filelayout.XSHigh+byte(h))
		k.tbl(upper, d, index)
		k.constant(index, k.table, filelayout.XSLow+byte(2*h), filelayout.XSLow+byte(2*h), filelayout.XSLow+1+byte(2*h), filelayout.XSLow+1+byte(2*h))
		k.tbl(d, d, index)
		k.shiftBytes(d, d, func(i int) int { return -4 * (i % 2) })
		k.op("and", d, d, k.masks[0x0f])
		k.shiftBytes(upper, upper, func(i int) int { return 4 - 2*(i%4) })
		k.less32(d, upper)
	default:
		k.gather('h', "zip1.h", "zip1", d, 0, h)
	}
	k.vecs = mark
}

// less32 makes scales of four bits in d and of two above them in upper, and subtracts 32.
func (k *kernel) less32(d, upper vec) {
	k.op("bit", d, upper, k.masks[0x30])
	k.movi(upper, 32)
	k.op("sub.b", d, d, upper)
}

// unitAt is the place of the unit in a file's superblock; of types with two the second follows.
func unitAt(typ quant.Type) int {
	switch typ {
	case quant.Q2_K:
		return filelayout.Q2KUnit
	case quant.Q3_K:
		return filelayout.Q3KUnit
	case quant.Q6_K:
		return filelayout.Q6KUnit
	case quant.TQ2_0:
		return filelayout.TQUnit
	}
	return 0 // IQ4_XS
}

// fileSixBits loads scales and minima of SixBits: bytes 4… hold six bits of scales 0 to 3, bytes 8… of minima, and above them the upper two of scales and minima 4
// to 7, whose lower four are in bytes 12…: of scales the low nibbles, of minima the high ones.
func (k *kernel) fileSixBits(f factors, h int) {
	mark := k.vecs
	head, upper, w := k.vec(), k.vec(), k.w[0]
	if h == 0 {
		k.load('d', head, w, 4)
		k.op("and", head, head, k.masks[0x3f])
	} else {
		k.load('s', head, w, 12)
		k.shift("ushr", 8, upper, head, 4)
		k.op("zip1", head, head, upper)
		k.op("and", head, head, k.masks[0x0f])
		k.load('d', upper, w, 4)
		k.shift("ushr", 8, upper, upper, 2)
		k.op("bit", head, upper, k.masks[0x30])
	}
	k.op2("uxtl.b", head, head)
	k.op2("uxtl", f.scale, head)
	k.op2("uxtl2", f.min, head)
	k.op2("ucvtf", f.scale, f.scale)
	k.op2("ucvtf", f.min, f.min)
	k.load('s', head, w, 0)
	k.op2("fcvtl", head, head)
	k.by("fmul", f.scale, f.scale, head, 0)
	k.by("fmul", f.min, f.min, head, 1)
	k.vecs = mark
}

// fileCodes returns the eight groups of half h: elements' codes, as unpack leaves them but for codebooks.
func (k *kernel) fileCodes(h int) []vec {
	g, w := k.vecsOf(8), k.w[0]
	mark := k.vecs
	nibbles := func(lo, hi vec) {
		k.shift("ushr", 8, hi, lo, 4)
		k.op("and", lo, lo, k.masks[0x0f])
	}
	size := k.typ.BlockBytes()
	switch k.typ {
	case quant.Q8_0:
		for v := 0; v < 8; v += 4 {
			for j := range 4 {
				k.load('q', g[v+j], w, 2+size*(4*h+j)+4*v)
			}
			k.transpose(g[v:][:4])
		}
	case quant.Q4_K, quant.Q5_K: // 32 bytes hold two blocks
		for v := 0; v < 8; v += 4 {
			for j := 0; j < 4; j += 2 {
				k.load('q', g[v+j], w, filelayout.Nibbles(k.typ)+64*h+16*j+4*v)
				nibbles(g[v+j], g[v+j+1])
			}
			k.transpose(g[v:][:4])
		}
		if k.typ == quant.Q5_K {
			k.above(g, filelayout.SixBits, func(j int) int { return 4 - (4*h + j) }, 0x10)
		}
	case quant.Q6_K: // of four blocks, 64 bytes hold low nibbles, 32 bytes the bits above
		for v := 0; v < 8; v += 4 {
			for j := range 2 {
				k.load('q', g[v+j], w, 64*h+32*j+4*v)
				nibbles(g[v+j], g[v+j+2])
			}
			k.transpose(g[v:][:4])
		}
		k.above(g, filelayout.Q6KHigh+32*h, func(j int) int { return 4 - 2*j }, 0x30)
	case quant.Q2_K, quant.Q3_K, quant.TQ2_0: // of four blocks, 32 bytes hold pairs of bits
		at := map[quant.Type]int{quant.Q2_K: filelayout.Q2K, quant.Q3_K: filelayout.Q3K}[k.typ]
		k.spread(g, at+32*h, func(j int) int { return -2 * j }, func(d, from vec) { k.op("and", d, from, k.masks[0x03]) })
		if k.typ == quant.Q3_K {
			k.above(g, 0, func(j int) int { return 2 - (4*h + j) }, 0x04)
		}
	default:
		first := size - 16
		if k.typ == quant.IQ4_XS {
			size, first = 16, filelayout.XS
		}
		for j := range 4 {
			k.load('q', g[j], w, first+size*(4*h+j))
		}
		k.transpose(g[:4])
		for j := range 4 {
			nibbles(g[j], g[j+4])
		}
		if k.traits().Bits == 5 {
			k.fifthWords(g, first-4, h)
		}
	}
	k.vecs = mark
	return g
}

// spread has set take, for each group, the same four of 32 bytes at at for each block, moved up as by says.
func (k *kernel) spread(g []vec, at int, by func(j int) int, set func(d, from vec)) {
	mark := k.vecs
	four, amounts, d := k.vec(), k.vec(), k.vec()
	var b []byte
	for j := range 4 {
		for range 4 {
			b = append(b, byte(by(j)))
		}
	}
	k.constant(amounts, k.table, b...)
	for v := range g {
		if v%4 == 0 {
			k.load('q', four, k.w[0], at+4*v)
		}
		k.dup(d, four, v%4)
		k.op("ushl.b", d, d, amounts)
		set(g[v], d)
	}
	k.vecs = mark
}

// above sets the bits of mask in groups.
func (k *kernel) above(g []vec, at int, by func(j int) int, mask byte) {
	k.spread(g, at, by, func(d, from vec) { k.op("bit", d, from, k.masks[mask]) })
}

// fifthWords adds fifth bits that each block has in a word at byte at, element i's in bit i.
func (k *kernel) fifthWords(g []vec, at, h int) {
	mark := k.vecs
	words, two, d, index := k.vec(), k.vec(), k.vec(), k.vec()
	k.gather('s', "zip1", "zip1.d", words, at, h)
	for v := range g {
		if v%2 == 0 { // a byte of each word has the bits of two groups
			var b []byte
			for j := range 4 {
				for range 4 {
					b = append(b, byte(4*j+v/2))
				}
			}
			k.constant(index, k.table, b...)
			k.tbl(two, words, index)
		}
		k.shiftBytes(d, two, func(i int) int { return 4 - 4*(v%2) - i%4 })
		k.op("bit", g[v], d, k.masks[0x10])
	}
	k.vecs = mark
}

func packName(typ quant.Type) string {
	return "pack" + strings.ReplaceAll(typ.String(), "_", "") + plain
}

// packFile emits the packing of n superblocks.
func (k *kernel) packFile() {
	name := packName(k.typ)
	k.function(name, "func(dst, src *byte, n, ahead uintptr)",
		fmt.Sprintf("packs n superblocks of %s, and asks for what lies ahead bytes behind each. Scalar twin: packSuper in pack.go.", k.typ))
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

// join stores groups of half h, whose registers it uses up.
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
