package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/powerinfer-go/powerinfer/internal/compute/cpu/layout"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// firstTile is the tile of a strip's first tokens. It writes the strip while it computes: during the products of one
// superblock it expands the next one, and during the last one's the first of another strip. Expanding is limited by a
// core's stores per cycle, and products need no stores.
type firstTile struct{ widePanel }

// firstTiles emits the tiles of a type.
func firstTiles(typ quant.Type) {
	k := &firstTile{*newWidePanel(tile{typ: typ, r: panelRows(typ), t: 4})}
	held := 2 * k.pairs * k.t
	need := held + max(k.pairs+1, 5)
	switch {
	case k.apart():
		need = held + k.pairs*k.t + k.pairs + 1
	case k.r == 6:
		need = held + k.pairs + 1
	}
	k.base = min(32-need, 16)
	k.emit()
}

func (k *firstTile) emit() {
	rows := k.r
	k.r = k.pairs
	name := fmt.Sprintf("first%s%s%dx%d", short(k.typ), k.isa, rows, k.t)
	TEXT(name, NOSPLIT, "func(out *float32, outStride uintptr, w *byte, rowBytes uintptr, x *byte, xStride, n uintptr, acc *float32, part uintptr, "+
		"next *byte, lines uintptr, from *byte, fromBytes uintptr, then, thenFrom *byte)")
	Doc(fmt.Sprintf("%s computes out[t][r] of %d %s rows and %d tokens and expands those rows, fromBytes long, of which the first superblock is from and was expanded,", name, rows, k.typ, k.t),
		"and then the superblocks at thenFrom to then. It brings lines of memory from next on. Scalar twin: tileGeneric in matmul_generic.go.")
	k.ask()
	k.rb, k.xs, k.xs3 = Load(Param("rowBytes"), GP64()), Load(Param("xStride"), GP64()), GP64()
	LEAQ(Mem{Base: k.xs, Index: k.xs, Scale: 2}, k.xs3)
	k.wp, k.xp, k.n = Load(Param("w"), GP64()), Load(Param("x"), GP64()), Load(Param("n"), GP64())
	from, fromBytes, from3, to := Load(Param("from"), GP64()), Load(Param("fromBytes"), GP64()), GP64(), GP64()
	k.next = k.base
	k.begin0()
	e := &tile{isa: "AVX2", typ: k.typ, r: rows, t: 1, most: k.base, rb: fromBytes}
	c := e.panelCodes()
	mark := k.next
	sums := k.vecs(k.pairs * k.t)
	step := 2 * layout.Panel(k.typ, false)
	k.supers(step, func() {
		LEAQ(Mem{Base: k.wp, Disp: step}, to)
		LEAQ(Mem{Base: from, Disp: layout.Of(k.typ).Bytes}, from)
		CMPQ(k.n, Imm(1))
		CMOVQEQ(argument("then"), to)
		CMOVQEQ(argument("thenFrom"), from)
		LEAQ(Mem{Base: from, Index: fromBytes, Scale: 2}, from3)
		ADDQ(fromBytes, from3)
		var steps []func()
		for r := range rows {
			row := *e
			row.wp = []reg.Register{from, from3}[r/3]
			steps = append(steps, row.expansion("VNNI", r%3, c, func(disp int) Mem {
				return strided(to, k.rb, nil, r/2, 2*disp+32*(r%2))
			})...)
		}
		k.products(sums, steps)
		k.next = mark + len(sums)
		k.accumulatePairs(sums)
		k.next = mark + len(sums)
	})
	k.acc = Load(Param("acc"), GP64())
	TESTQ(U32(layout.LastPart), argument("part"))
	JNE(LabelRef("sum"))
	for i, v := range k.facc {
		VMOVUPS(v, Mem{Base: k.acc, Disp: k.vecBytes() * i})
	}
	JMP(LabelRef("done"))
	Label("sum")
	k.out, k.outStride, k.outStride3 = Load(Param("out"), GP64()), Load(Param("outStride"), GP64()), GP64()
	LEAQ(Mem{Base: k.outStride, Index: k.outStride, Scale: 2}, k.outStride3)
	k.sumPairs()
	Label("done")
	VZEROUPPER()
	RET()
}

// begin0 leaves zeros in the accumulators, or what acc has of the parts before.
func (k *firstTile) begin0() {
	k.facc = make([]Op, k.pairs*k.t)
	for i := range k.facc {
		k.facc[i] = k.vec()
		k.zero(k.facc[i])
	}
	TESTQ(U32(layout.FirstPart), argument("part"))
	JNE(LabelRef("begin"))
	acc := Load(Param("acc"), GP64())
	for i, v := range k.facc {
		VMOVUPS(Mem{Base: acc, Disp: k.vecBytes() * i}, v)
	}
	Label("begin")
}

// products leaves the products of a superblock in sums, as sums and halves do, and spreads steps among them.
func (k *firstTile) products(sums []reg.VecPhysical, steps []func()) {
	second := sums
	if k.apart() {
		second = k.vecs(len(sums))
	}
	w, x := k.vecs(k.pairs), k.vec()
	if k.apart() {
		k.beginHalves(sums, second)
	} else {
		k.beginSums(sums)
	}
	done, slots := 0, 8*k.t
	for v := range 8 {
		to := sums
		if v >= 4 {
			to = second
		}
		for p := range w {
			VMOVDQU32(k.pair(p, layout.PanelQuants+32*v), w[p])
		}
		for t := range k.t {
			k.both(t, 32*v, x)
			for p := range w {
				VPDPBUSD(x, w[p], to[p*k.t+t])
			}
			for ; done < len(steps)*(v*k.t+t+1)/slots; done++ {
				steps[done]()
			}
		}
	}
	switch {
	case k.apart():
		k.joinPairs(sums, second, w[0], x)
	}
}
