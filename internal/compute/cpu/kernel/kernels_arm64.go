package kernel

import (
	"github.com/powerinfer-go/powerinfer/internal/compute/cpu/layout"
	"github.com/powerinfer-go/powerinfer/internal/hw"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// platform returns the sets for ARMv8. All its processors have vector instructions; the sets differ in the instructions
// for products of bytes.
func platform() []*Kernels {
	sets := []*Kernels{neon()}
	have := hw.DetectFeatures()
	if have.DotProd {
		sets = append([]*Kernels{dot()}, sets...)
		if have.I8MM {
			sets = append([]*Kernels{mmla()}, sets...)
			if have.BF16 {
				sets = append([]*Kernels{bf16()}, sets...)
			}
		}
	}
	return sets
}

// set holds a quantised type's kernels of one instruction set. A rare type is expanded: it has only what panels need.
type set struct {
	far     streamer
	scatter scatterer // nil: rows chosen by index are computed one at a time
	rows    int
	tile    tile // takes this many rows and one token
	block   block

	each, panel block
	expand      func(dst, w *byte, n uintptr)
}

// neon is for processors without dot products of bytes, as Cortex-A53 and A72.
func neon() *Kernels {
	k := &Kernels{Name: "NEON", Vector: neonVector(), Quantize: quantizeRowNEON}
	k.scratch.New = func() any { return newBlockScratch() }
	k.types = generic().types // of types that have no assembly
	k.sets(setsNEON(), "neon")
	for t, pack := range packs() {
		k.file[t].pack = pack
	}
	k.types[quant.F32] = tiles{one: tileF32NEON1x1, block: block{3, 4, tileF32NEON3x4}}
	k.types[quant.F16] = tiles{one: tileF16NEON1x1, block: block{3, 4, tileF16NEON3x4}}
	k.types[quant.BF16] = tiles{one: tileBF16NEON1x1, block: block{3, 4, tileBF16NEON3x4}}
	k.takeFloats(quant.F32, "neon", tileF32NEON8x1, scatterF32NEON)
	k.takeFloats(quant.F16, "neon", tileF16NEON8x1, scatterF16NEON)
	k.takeFloats(quant.BF16, "neon", tileBF16NEON8x1, scatterBF16NEON)
	k.adders[quant.Q4_0] = adders{rows: addRowsQ40NEON, group: addGroupQ40NEON}
	k.adders[quant.Q8_0] = adders{rows: addRowsQ80NEON, group: addGroupQ80NEON}
	k.adders[quant.F32] = adders{floats: addRowsF32NEON}
	k.adders[quant.F16] = adders{floats: addRowsF16NEON}
	k.adders[quant.BF16] = adders{floats: addRowsBF16NEON}
	k.unpack = unpackersNEON(&k.types)
	k.turn[quant.Q8_0], k.turn[quant.BF16], k.turn[quant.F32] = turnQ80NEON, turnBF16NEON, turnF32NEON
	k.choose = [2]chooser{chooseAboveNEON, chooseAtLeastNEON}
	k.fetch = fetchLines
	return k
}

// unpackersNEON returns what turns packed superblocks into floats, of types that no adder takes as they are.
func unpackersNEON(types *[quant.Limit]tiles) (all [quant.Limit]unpacker) {
	for _, t := range quant.Computed() {
		if !t.Quantised() || t.Traits().Columns {
			continue
		}
		all[t] = unpacker{expand: types[t].expand, floats: floatsBlocksNEON}
		switch t.Traits().Scales {
		case quant.BlockMin, quant.SixBits:
			all[t].floats = floatsBlockMinimaNEON
		case quant.HalfBlocks:
			all[t].floats = floatsHalvesNEON
		case quant.NibbleMinima:
			all[t].floats = floatsHalfMinimaNEON
		case quant.SmallFloats:
			all[t].floats = floatsSmallScalesNEON
		}
	}
	return all
}

// dot is for processors with SDOT: all since Cortex-A76 and Apple's A12.
func dot() *Kernels {
	k := neon()
	k.Name = "NEON dot product"
	k.sets(setsDOT(), "dot")
	k.takeFiles("dot", filesDOT())
	return k
}

// pairs holds what a quantised type's prompts are computed by where there are products of matrices.
type pairs struct {
	panel block
	row   func(dst, panel *byte, n uintptr)
}

// pairBytes is the number of bytes of a row that alternate with the other row's in panels for SMMLA.
const pairBytes = 8

// mmla is for processors with SMMLA, too: Neoverse V1 and N2, Cortex-A510 and A710, Apple's M2 and later.
func mmla() *Kernels {
	k := dot()
	k.Name = "NEON I8MM"
	for t, p := range pairsMMLA() {
		m := &k.types[t]
		m.panel, m.pairRow, m.arrange, m.pairActs = p.panel, p.row, arrangeMMLA, layout.PairActs
		m.panelSuper, m.panelPiece, m.rowSuper = layout.PairPanel(t), pairBytes, layout.NeonPanel(t)
	}
	return k
}

// bf16 is for processors with BFDOT and BFMMLA, too. Those with SMMLA have them.
func bf16() *Kernels {
	k := mmla()
	k.Name, k.bfloat, k.round, k.exact = "NEON BF16", true, roundRowBF16, mmla()
	const group = 2 * bf16Group // bytes
	panel := tiles{panel: block{8, 8, panelBF16BF168x8}, panelSuper: group, panelPiece: pairBytes, arrange: arrangeBF16, pairActs: 2 * group}
	for t, f := range map[quant.Type]struct {
		scatter scatterer
		one     tile
		rows    tile
		block   block
		expand  func(dst, w *byte, n uintptr)
		rounded func(dst, w *byte, n uintptr)
	}{
		quant.F16:  {scatterF16BF16, tileF16BF161x1, tileF16BF168x1, block{3, 4, tileF16BF163x4}, expandF16BF16, roundF16BF16},
		quant.BF16: {scatterBF16BF16, tileBF16BF161x1, tileBF16BF168x1, block{3, 4, tileBF16BF163x4}, expandBF16BF16, nil},
	} {
		k.types[t] = panel
		m := &k.types[t]
		m.one, m.block, m.expand, m.rounded = f.one, f.block, f.expand, f.rounded
		k.takeFloats(t, "bf16", f.rows, f.scatter)
	}
	return k
}

// takeFloats gives a float type its kernels for one token: eight consecutive rows at a time, or four chosen by index.
func (k *Kernels) takeFloats(t quant.Type, isa string, eight tile, four scatterer) {
	k.take(t, Consecutive, []way{{name: "rows-" + isa, tile: eight, rows: 8}}, all("rows-"+isa))
	k.take(t, Scattered, scatters(isa, four, nil), all("scatter4-"+isa))
}

// sets gives types their kernels. There was no ARM machine to measure which kernels are the fastest, so the usual ones
// are those that are the fastest for most types on other processors. Tune measures.
func (k *Kernels) sets(sets map[quant.Type]set, isa string) {
	for t, s := range sets {
		k.types[t] = tiles{block: s.block, each: s.each, panel: s.panel, expand: s.expand, panelSuper: layout.NeonPanel(t)}
		if k.types[t].expanded() {
			continue
		}
		far, rows := "far-"+isa, "rows-"+isa
		k.take(t, Consecutive, []way{{name: far, stream: s.far}, {name: rows, tile: s.tile, rows: s.rows}}, [Classes]string{far, far, far, rows})
		if s.scatter != nil {
			k.take(t, Scattered, scatters(isa, nil, s.scatter), all("scatter1-"+isa))
		}
	}
}

// quantizeRowNEON pads the last superblock with zeros.
func quantizeRowNEON(dst []byte, x []float32) {
	_ = dst[:ActRow(len(x))]
	whole := len(x) / quant.QKK
	if whole > 0 {
		quantizeNEON(&dst[0], &x[0], uintptr(whole))
	}
	if rest := x[whole*quant.QKK:]; len(rest) > 0 {
		var block [quant.QKK]float32
		copy(block[:], rest)
		quantizeNEON(&dst[whole*layout.ActBytes], &block[0], 1)
	}
}
