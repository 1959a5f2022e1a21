package kernel

import (
	"math"

	"github.com/powerinfer-go/powerinfer/internal/compute/cpu/layout"
	"github.com/powerinfer-go/powerinfer/internal/quant"
	"golang.org/x/sys/cpu"
)

// hasAMX reports whether the process may use AMX, which it asks the system for. Every kernel configures the tiles and
// releases them before it returns: what runs next on the thread is another's, and a system saves tiles that are in use
// at each switch.
func hasAMX() bool {
	return cpu.X86.HasAVX512BF16 && cpu.X86.HasAMXTile && cpu.X86.HasAMXInt8 && allowTiles()
}

// amx is for processors with AMX too, Sapphire Rapids the first of them: prompts and batches in quantised types go by
// tiles.
func amx() *Kernels {
	k := bf16()
	k.Name = "AMX"
	k.multiplyMatrices()
	k.exact.multiplyMatrices()
	plain := pairTiles{product: [2]func(*byte, *float32, uintptr, *byte, uintptr, *byte, uintptr, uintptr, uintptr){pairsBF161AMX, pairsBF162AMX}, fill: fillPairsAMX, terms: 1}
	k.types[quant.BF16].pairs = plain
	plain.split = func(dst *byte, _ uintptr, w *byte, n uintptr) { expandF16BF16(dst, w, n) }
	k.types[quant.F16].pairs = plain
	k.exact.types[quant.F16].pairs = pairTiles{
		product: [2]func(*byte, *float32, uintptr, *byte, uintptr, *byte, uintptr, uintptr, uintptr){pairsTerms1AMX, pairsTerms2AMX},
		fill:    fillPairsAMX, split: splitF16BF16, terms: layout.WeightTerms, weigh: weighTermsAMX,
	}
	k.split, k.exact.split = splitRowBF16, splitRowBF16
	return k
}

// splitRowBF16 pads the last group with zeros.
func splitRowBF16(dst []byte, x []float32) {
	term := bf16Acts(len(x))
	_ = dst[:layout.ActTerms*term]
	whole := len(x) / bf16Group
	for t := range layout.ActTerms {
		clear(dst[t*term+whole*bf16Group*2 : (t+1)*term])
	}
	if whole > 0 {
		splitF32BF16(&dst[0], uintptr(term), &x[0], uintptr(whole))
	}
	if rest := x[whole*bf16Group:]; len(rest) > 0 {
		var group [bf16Group]float32
		copy(group[:], rest)
		splitF32BF16(&dst[whole*bf16Group*2], uintptr(term), &group[0], 1)
	}
}

func (k *Kernels) multiplyMatrices() {
	k.scratch.New = func() any { return newBlockScratch(matrixSize) }
	for _, t := range quant.Types() {
		if !t.Quantised() {
			continue
		}
		m := matrix{fill: fillMatrixAMX, gather: gatherMatrixAMX, offset: uintptr(layout.Offset(t))}
		switch t.Traits().Scales {
		case quant.BlockScale, quant.ByteBlocks, quant.SuperScale, quant.Exponents:
			m.product, m.form = matrixScalesAMX, layout.FormScales
		case quant.BlockMin, quant.SixBits:
			m.product, m.form = matrixMinimaAMX, layout.FormMinima
		case quant.HalfBlocks:
			m.product, m.form = matrixHalvesAMX, layout.FormHalves
		default:
			continue
		}
		k.types[t].matrix = m
	}
}

// fillMatrixGeneric defines fill: tiles of n superblocks of rows of a panel, whose pairs lie pair bytes and whose
// superblocks step bytes apart.
func fillMatrixGeneric(dst []byte, panel []byte, pair, step, n, offset, form int) {
	const line = 4 * layout.MatrixRows
	for s := range n {
		to := dst[s*layout.MatrixBytes(uintptr(form)):]
		for r := range layout.MatrixRows {
			from := panel[r/2*pair+s*step+r%2*pairPiece:]
			for j := range 8 { // blocks
				at := j*line + 4*r
				copy(to[layout.MatrixQuants+at:][:4], from[2*layout.PanelScale+4*j:])
				switch form {
				case layout.FormMinima:
					copy(to[layout.MatrixQuants+8*line+at:][:4], from[2*layout.PanelMin+4*j:])
				case layout.FormHalves:
					scales := from[2*layout.PanelMin+4*j:]
					put(to[layout.MatrixQuants+8*line+at:], math.Float32bits(float32(int16(get16(scales)))))
					put(to[layout.MatrixQuants+16*line+at:], math.Float32bits(float32(int16(get16(scales[2:])))))
				}
				for v := range 8 {
					for e := range 4 {
						to[(8*j+v)*line+4*r+e] = from[2*(layout.PanelQuants+32*v)+4*j+e] - byte(offset)
					}
				}
			}
		}
	}
}

// gatherMatrixGeneric defines gather: tiles of n superblocks of activations of rows that are stride bytes apart.
func gatherMatrixGeneric(dst, x []byte, stride, n int) {
	const line, token = 4 * layout.MatrixTokens, 32
	for s := range n {
		to := dst[s*layout.MatrixActs:]
		for t := range layout.MatrixTokens {
			from := x[t*stride+s*layout.ActBytes:]
			for j := range 8 { // blocks
				copy(to[layout.MatrixActScale+line*j+4*t:][:4], from[layout.ActScale+4*j:])
				copy(to[layout.MatrixActDSum+line*j+4*t:][:4], from[layout.ActDSum+4*j:])
				for v := range 8 {
					copy(to[token*(layout.MatrixTokens*j+t)+4*v:][:4], from[32*v+4*j:])
				}
			}
		}
	}
}
