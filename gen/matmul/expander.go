package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/powerinfer-go/powerinfer/internal/compute/cpu/layout"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// products names the kernels of each form of expanded types, and the type that they are written from. Any type of the
// form would do, as its panels look the same.
var products = [layout.Forms]struct {
	name string
	like quant.Type
}{
	layout.Blocks:       {"Blocks", quant.IQ2_XXS},
	layout.BlockMinima:  {"Q5K", quant.Q5_K},
	layout.Halves:       {"Halves", quant.IQ2_XS},
	layout.HalfMinima:   {"HalfMinima", quant.Q2_K},
	layout.SmallScales:  {"SmallScales", quant.NVFP4},
	layout.SignedBlocks: {"Q80", quant.Q8_0},
}

// expandedProducts emits the products of each form.
func expandedProducts() {
	for form, p := range products {
		if layout.Form(form) == layout.Own {
			continue
		}
		(&panel{tile{typ: p.like, name: p.name, r: eachRows, t: 1, parted: true}}).emit()
		if layout.FormOf(p.like) == layout.Own {
			continue // the type's own kernels do for the rest
		}
		(&panel{tile{typ: p.like, name: p.name, r: 2, t: 3}}).emit()
		newWidePanel(tile{typ: p.like, name: p.name, r: panelRows(p.like), t: 4}).strip()
		newWidePanel(tile{typ: p.like, name: p.name, r: panelRows(p.like), t: 1}).strip()
	}
}

// eachRows is the number of rows of a panel that AVX2's kernels of one token take at a time.
const eachRows = 4

// lift returns the number that is added to the quants of an expanded type, so that they have the offset of its form.
func lift(typ quant.Type) int {
	if form := layout.FormOf(typ); form != layout.Blocks && form != layout.Halves || typ.Traits().Codebook != nil {
		return 0
	}
	return layout.Offset(typ) - typ.Traits().Offset
}

// defineLifts defines the lifts that there are.
func defineLifts() {
	done := map[int]bool{0: true}
	for _, typ := range quantised() {
		if n := lift(typ); !done[n] {
			done[n] = true
			define(fmt.Sprintf("lift%d", n), repeat(byte(n)))
		}
	}
}

// streamed reports whether rows of an expanded type have a stream for one token, which needs no panel. It adds what the
// type's panel would.
func streamed(typ quant.Type) bool { return typ.Traits().Scales != quant.SmallFloats }

// lift adds it to w.
func (k *tile) lift(w reg.VecPhysical) {
	if n := lift(k.typ); n > 0 {
		VPADDB(constant(fmt.Sprintf("lift%d", n)), w, w)
	}
}

// pairExpander turns superblocks of two rows of an expanded type into a strip's. Its 512-bit vectors have a group of
// each row, as in the strip.
type pairExpander struct {
	tile
	dst    reg.Register
	tmp    reg.VecPhysical
	scales [2]reg.VecPhysical // for scaled quants: words that multiply the first and the second halves
	mask   reg.VecPhysical
	bits   map[string]reg.VecPhysical // constants
}

// expandPair emits it.
func expandPair(typ quant.Type) {
	name := "expandPair" + short(typ)
	TEXT(name, NOSPLIT, "func(dst *byte, first, second *byte, n, soon, soonSecond uintptr)")
	Doc(fmt.Sprintf("%s writes n superblocks of two packed rows of %s as a strip's, and prefetches those at soon and soonSecond, which may be past the end of all memory.", name, typ), "Scalar twin: superblock in unpack.go.")
	k := &pairExpander{tile: tile{isa: "VNNI", typ: typ, r: 2, t: 1}, dst: Load(Param("dst"), GP64()), bits: map[string]reg.VecPhysical{}}
	k.picked = []reg.Register{Load(Param("first"), GP64()), Load(Param("second"), GP64())}
	k.n, k.off = Load(Param("n"), GP64()), GP64()
	soon := []reg.Register{Load(Param("soon"), GP64()), Load(Param("soonSecond"), GP64())}
	XORQ(k.off, k.off)
	traits := typ.Traits()
	low := 4
	if traits.Bits < 4 {
		low = 2
	}
	k.mask = k.kept([]string{2: "mask03", 4: "mask0f"}[low])
	switch traits.Bits {
	case 3:
		k.kept("mask04")
	case 5:
		k.kept("mask10")
	}
	if traits.Codebook != nil {
		k.kept(codebookName(typ))
	}
	if n := lift(typ); n > 0 {
		k.kept(fmt.Sprintf("lift%d", n))
	}
	if k.scaled() {
		k.scales = [2]reg.VecPhysical{zmm(k.vec()), zmm(k.vec())}
	}
	k.tmp = zmm(k.vec())
	Label("super")
	mark := k.next
	for r := range 2 {
		k.ask(Mem{Base: soon[r], Index: k.off, Scale: 1}, k.super().Bytes+lineMore)
		k.expandScales("VNNI", r, func(disp int) Mem { return Mem{Base: k.dst, Disp: 2*disp + 32*r} })
		k.next = mark
	}
	if k.scaled() {
		k.both(k.scales[1], k.halfScales)
		VPSHUFB(constant("lowWords"), k.scales[1], k.scales[0])
		VPSHUFB(constant("highWords"), k.scales[1], k.scales[1])
	}
	high := reg.VecPhysical(nil)
	if traits.Bits > low {
		high = zmm(k.vec())
		k.loadBoth(k.super().High, high)
	}
	for v := range low {
		q, w := zmm(k.vec()), zmm(k.vec())
		k.loadBoth(k.super().Quants+32*v, q)
		for g := v; g < 8; g += low {
			if shift := g / low * low; shift > 0 {
				VPSRLW(U8(byte(shift)), q, w)
				VPANDD(k.mask, w, w)
			} else {
				VPANDD(k.mask, q, w)
			}
			if high != nil {
				k.highBit(g, low, high, w)
			}
			k.values(w, g)
			VMOVDQU32(w, Mem{Base: k.dst, Disp: 2 * (layout.PanelQuants + 32*g)})
		}
		k.next -= 2
	}
	k.next = mark
	ADDQ(U32(uint32(k.super().Bytes)), k.off)
	ADDQ(U32(uint32(2*layout.Panel(typ, false))), k.dst)
	DECQ(k.n)
	JNZ(LabelRef("super"))
	VZEROUPPER()
	RET()
}

// kept loads a constant into its own register.
func (k *pairExpander) kept(name string) reg.VecPhysical {
	v := zmm(k.vec())
	VMOVDQU32(constant(name), v)
	k.bits[name] = v
	return v
}

// loadBoth loads 32 bytes at disp of both rows.
func (k *pairExpander) loadBoth(disp int, v reg.VecPhysical) {
	VMOVDQU32(k.row(0, disp), v.AsY())
	VINSERTI64X4(U8(1), k.row(1, disp), v, v)
}

// both makes f write each row's part to half of dst.
func (k *pairExpander) both(dst reg.VecPhysical, f func(r int, dst reg.VecPhysical)) {
	f(0, dst.AsY().(reg.VecPhysical))
	f(1, k.tmp.AsY().(reg.VecPhysical))
	VINSERTI64X4(U8(1), k.tmp.AsY(), dst, dst)
}

// highBit adds the bit above the others of group g, which is bit g of each byte of high, to w.
func (k *pairExpander) highBit(g, to int, high, w reg.VecPhysical) {
	mask, from := k.bits[fmt.Sprintf("mask%02x", 1<<to)], k.tmp
	switch {
	case g < to:
		VPSLLW(U8(byte(to-g)), high, from)
	case g > to:
		VPSRLW(U8(byte(g-to)), high, from)
	default:
		from = high
	}
	VPTERNLOGD(U8(orAnd), mask, from, w)
}

// values turns codes of group g into a panel's quants.
func (k *pairExpander) values(w reg.VecPhysical, g int) {
	switch {
	case k.scaled():
		VPMULLW(k.scales[g/4], w, w)
	case k.typ.Traits().Codebook != nil:
		VPSHUFB(w, k.bits[codebookName(k.typ)], w)
	case lift(k.typ) > 0:
		VPADDB(k.bits[fmt.Sprintf("lift%d", lift(k.typ))], w, w)
	}
}
