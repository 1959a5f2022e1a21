package kernel

//go:generate go -C ../../../../gen run ./matmul -out ../internal/compute/cpu/kernel/matmul_amd64.s -stubs ../internal/compute/cpu/kernel/matmul_stub_amd64.go -pkg kernel

//go:generate go -C ../../../../gen run ./axpy -out ../internal/compute/cpu/kernel/axpy_amd64.s -stubs ../internal/compute/cpu/kernel/axpy_stub_amd64.go -pkg kernel

import (
	mathbits "math/bits"

	"github.com/powerinfer-go/powerinfer/internal/compute/cpu/layout"
	"github.com/powerinfer-go/powerinfer/internal/quant"
	"golang.org/x/sys/cpu"
)

func platform() []*Kernels {
	if !cpu.X86.HasAVX2 || !cpu.X86.HasFMA || !hasF16C() {
		return nil
	}
	sets := []*Kernels{avx2()}
	if hasAVXVNNI() {
		sets = append([]*Kernels{avxVNNI()}, sets...)
	}
	if cpu.X86.HasAVX512F && cpu.X86.HasAVX512BW && cpu.X86.HasAVX512DQ && cpu.X86.HasAVX512VL && cpu.X86.HasAVX512VNNI {
		sets = append([]*Kernels{vnni()}, sets...)
		if cpu.X86.HasAVX512BF16 {
			sets = append([]*Kernels{bf16()}, sets...)
		}
		if hasAMX() {
			sets = append([]*Kernels{AMX()}, sets...)
		}
	}
	return sets
}

// hasF16C asks CPUID leaf 1, ECX bit 29: x/sys/cpu does not report it.
func hasF16C() bool {
	_, _, ecx, _ := cpuid(1, 0)
	return ecx>>29&1 == 1
}

// hasAVXVNNI asks CPUID leaf 7, subleaf 1, EAX bit 4; x/sys/cpu reports it with AVX-512's.
func hasAVXVNNI() bool {
	last, _, _, _ := cpuid(7, 0)
	if last < 1 {
		return false
	}
	eax, _, _, _ := cpuid(7, 1)
	return eax>>4&1 == 1
}

// cpuid runs the instruction.
func cpuid(leaf, sub uint32) (eax, ebx, ecx, edx uint32)

func avx2() *Kernels {
	k := &Kernels{Name: "AVX2", Vector: avx2Vector(), Quantize: quantizeRowAVX2}
	k.scratch.New = func() any { return newBlockScratch() }
	k.types = generic().types // of types that have no assembly
	k.types[quant.Q4_0] = tiles{block: block{2, 2, tileQ40AVX22x2}, panel: block{2, 3, panelQ40AVX22x3}, expand: expandQ40AVX2}
	k.types[quant.Q8_0] = tiles{block: block{2, 2, tileQ80AVX22x2}, panel: block{2, 3, panelQ80AVX22x3}, expand: expandQ80AVX2}
	k.types[quant.Q4_K] = tiles{each: block{4, 1, panelQ5KAVX24x1}, panel: block{2, 3, panelQ4KAVX22x3}, expand: expandQ4KAVX2}
	k.types[quant.Q5_K] = tiles{each: block{4, 1, panelQ5KAVX24x1}, panel: block{2, 3, panelQ5KAVX22x3}, expand: expandQ5KAVX2}
	k.types[quant.Q6_K] = tiles{block: block{2, 2, tileQ6KAVX22x2}, panel: block{2, 3, panelQ6KAVX22x3}, expand: expandQ6KAVX2}
	k.types[quant.MXFP4] = tiles{block: block{2, 2, tileMXFP4AVX22x2}, panel: block{2, 3, panelMXFP4AVX22x3}, expand: expandMXFP4AVX2}
	k.takeOneToken("avx2", oneTokenAVX2(), usualAVX2())
	k.takeFloatsAVX2()
	k.expandAVX2()
	k.types[quant.F32] = tiles{one: tileF32AVX21x1, block: block{2, 4, tileF32AVX22x4}}
	k.types[quant.F16] = tiles{one: tileF16AVX21x1, block: block{2, 4, tileF16AVX22x4}}
	k.types[quant.BF16] = tiles{one: tileBF16AVX21x1, block: block{2, 4, tileBF16AVX22x4}}
	k.adders[quant.Q4_0] = adders{rows: addRowsQ40, group: addGroupQ40}
	k.adders[quant.Q8_0] = adders{rows: addRowsQ80, group: addGroupQ80}
	k.adders[quant.F32] = adders{floats: addRowsF32}
	k.adders[quant.F16] = adders{floats: addRowsF16}
	k.adders[quant.BF16] = adders{floats: addRowsBF16}
	k.narrowVectors(false)
	k.turn[quant.Q8_0], k.turn[quant.BF16] = turnQ80, turnBF16
	k.unpack = unpackersAVX2(&k.types)
	k.choose = [2]chooser{chooseAbove, chooseAtLeast}
	k.fetch = fetchLines
	fileAVX2(k)
	k.panels(true)
	return k
}

// avxVNNI is for processors with AVX-VNNI and without AVX-512, such as Intel's client processors from Alder Lake on. It
// uses VPDPBUSD in the panels of prompts. Products of one token are bound by memory, so they stay AVX2's, as do types
// with scales of half-blocks.
func avxVNNI() *Kernels {
	k, wide := avx2(), vnni()
	k.Name = "AVX-VNNI"
	k.narrowVectors(true)
	for _, t := range quant.Types() {
		if !t.Quantised() {
			continue
		}
		each, panel := block{rows: 4, tokens: 1}, block{rows: 4, tokens: 3}
		switch t.Traits().Scales {
		case quant.BlockScale, quant.ByteBlocks, quant.SuperScale, quant.Exponents:
			each.tile, panel.tile = panelQ80AVXVNNI4x1, panelQ80AVXVNNI4x3
		case quant.BlockMin, quant.SixBits:
			each.tile, panel.tile = panelQ4KAVXVNNI4x1, panelQ4KAVXVNNI4x3
		default:
			continue
		}
		m, shift := &k.types[t], layout.NoOffset
		if offset := layout.Offset(t); offset > 0 {
			shift = mathbits.TrailingZeros(uint(offset))
		}
		m.panel, m.panelSuper, m.panelPart = panel, wide.types[t].panelSuper, uintptr(shift)<<layout.PartShift
		m.block, m.each = block{}, each
		if layout.FormOf(t) == layout.Own {
			m.expand = wide.types[t].expand
		}
	}
	k.types[quant.IQ4_NL].expand, k.types[quant.IQ4_XS].expand = expandIQ4NLVNNI, expandIQ4XSVNNI
	return k
}

// unpackersAVX2 returns what turns packed superblocks into floats, of types that no adder takes as they are.
func unpackersAVX2(types *[quant.Limit]tiles) (all [quant.Limit]unpacker) {
	for _, t := range quant.Computed() {
		if !t.Quantised() || t.Traits().Columns {
			continue
		}
		u := unpacker{expand: types[t].expand, offset: uintptr(layout.Offset(t))}
		switch t.Traits().Scales {
		case quant.BlockMin, quant.SixBits:
			u.floats = floatsQ5KAVX2
		case quant.HalfBlocks:
			u.floats = floatsHalvesAVX2
		case quant.NibbleMinima:
			u.floats = floatsHalfMinimaAVX2
		case quant.SmallFloats:
			u.floats = floatsSmallScalesAVX2
		default:
			u.floats = floatsBlocksAVX2
			if u.offset == 128 { // panels have nibbles
				u.floats = floatsQ80AVX2
			}
		}
		all[t] = u
	}
	return all
}

// vnni is for processors with AVX-512 VL and VNNI: 32 registers, VPDPBUSD. Its tiles of
// a few tokens, strips and streams have 512-bit vectors. Where AVX2 is faster it stays, in Q4_0's stream and Q8_0's wide
// rows: integer sums are exact, so the bits are the same.
func vnni() *Kernels {
	k := avx2()
	k.Name = "AVX-512 VNNI"
	k.attention = wideAttention
	k.adders[quant.Q4_0].group, k.adders[quant.Q8_0].group = addGroupQ40VNNI, addGroupQ80VNNI
	k.types[quant.Q4_0] = tiles{
		block: block{4, 4, fewQ40VNNI4x4}, few: few{fewQ40VNNI4x2, fewQ40VNNI4x3, fewQ40VNNI4x4},
		strip: strip{6, 18, expandStripQ40, firstQ40VNNI6x4, stripQ40VNNI6x4, stripQ40VNNI6x1}, expand: expandQ40AVX2,
	}
	k.types[quant.Q8_0] = tiles{
		block: block{4, 4, fewQ80VNNI4x4}, few: few{fewQ80VNNI4x2, fewQ80VNNI4x3, fewQ80VNNI4x4},
		strip: strip{6, 18, expandStripQ80, firstQ80VNNI6x4, stripQ80VNNI6x4, stripQ80VNNI6x1}, expand: expandQ80VNNI,
	}
	k.types[quant.Q4_K] = tiles{
		block: block{4, 4, fewQ4KVNNI4x4}, few: few{fewQ4KVNNI4x2, fewQ4KVNNI4x3, fewQ4KVNNI4x4},
		strip: strip{6, 14, expandStripQ4K, firstQ4KVNNI6x4, stripQ5KVNNI6x4, stripQ5KVNNI6x1}, expand: expandQ4KAVX2,
	}
	k.types[quant.Q5_K] = tiles{
		block: block{4, 4, fewQ5KVNNI4x4}, few: few{fewQ5KVNNI4x2, fewQ5KVNNI4x3, fewQ5KVNNI4x4},
		strip: strip{6, 14, expandStripQ5K, firstQ5KVNNI6x4, stripQ5KVNNI6x4, stripQ5KVNNI6x1}, expand: expandQ5KAVX2,
	}
	k.types[quant.Q6_K] = tiles{
		block: block{2, 4, fewQ6KVNNI2x4}, few: few{fewQ6KVNNI2x2, fewQ6KVNNI2x3, fewQ6KVNNI2x4},
		strip: strip{4, 18, expandStripQ6K, firstQ6KVNNI4x4, stripQ6KVNNI4x4, stripQ6KVNNI4x1}, expand: expandQ6KVNNI,
	}
	k.types[quant.MXFP4] = tiles{
		block: block{4, 4, fewMXFP4VNNI4x4}, few: few{fewMXFP4VNNI4x2, fewMXFP4VNNI4x3, fewMXFP4VNNI4x4},
		strip: strip{6, 14, expandStripMXFP4, firstMXFP4VNNI6x4, stripMXFP4VNNI6x4, stripMXFP4VNNI6x1}, expand: expandMXFP4AVX2,
	}
	k.takeOneToken("vnni", oneTokenVNNI(), usualVNNI())
	k.expandVNNI()
	for t, f := range map[quant.Type]few{
		quant.F32:  {tileF32VNNI4x2, tileF32VNNI4x3, tileF32VNNI4x4},
		quant.F16:  {tileF16VNNI4x2, tileF16VNNI4x3, tileF16VNNI4x4},
		quant.BF16: {tileBF16VNNI4x2, tileBF16VNNI4x3, tileBF16VNNI4x4},
	} {
		m := &k.types[t]
		m.block, m.few, m.panel, m.panelSuper, m.panelPiece = block{4, 4, f[2]}, f, block{4, 8, panelF32VNNI4x8}, 8*4, pairPiece
	}
	k.shortVectors()
	k.types[quant.F32].expand, k.types[quant.F16].expand, k.types[quant.BF16].expand = expandF32VNNI, expandF16VNNI, expandBF16VNNI
	fileVNNI(k)
	k.panels(false)
	return k
}

// pairPiece is the number of bytes of a row that alternate with the other row's in a pair, so that one 512-bit vector
// holds the same place of two rows.
const pairPiece = 32

// panels notes how large a panel's superblocks are.
func (k *Kernels) panels(avx2 bool) {
	for _, t := range quant.Computed() {
		if t.Quantised() {
			k.types[t].panelSuper, k.types[t].panelPiece = layout.Panel(t, avx2), pairPiece
		}
	}
}

// bf16 is for processors with AVX512_BF16, too, such as Zen 4 and Cooper Lake.
func bf16() *Kernels {
	k := vnni()
	k.Name, k.bfloat, k.round, k.exact = "AVX-512 BF16", true, roundRowBF16, vnni()
	k.types[quant.BF16] = tiles{
		one:   tileBF16BF161x1,
		block: block{4, 4, tileBF16BF164x4}, few: few{tileBF16BF164x2, tileBF16BF164x3, tileBF16BF164x4},
		panel: block{3, 8, tileBF16BF163x8}, expand: expandBF16BF16, panelSuper: 64,
	}
	k.bfloatVectors()
	k.takeBF16()
	return k
}

// quantizeRowAVX2 pads the last superblock with zeros.
func quantizeRowAVX2(dst []byte, x []float32) {
	_ = dst[:ActRow(len(x))]
	whole := len(x) / quant.QKK
	if whole > 0 {
		quantizeAVX2(&dst[0], &x[0], uintptr(whole))
	}
	if rest := x[whole*quant.QKK:]; len(rest) > 0 {
		var block [quant.QKK]float32
		copy(block[:], rest)
		quantizeAVX2(&dst[whole*layout.ActBytes], &block[0], 1)
	}
}
