package kernel

import (
	"sync"

	"github.com/powerinfer-go/powerinfer/internal/compute/cpu/layout"
	"github.com/powerinfer-go/powerinfer/internal/quant"
	"golang.org/x/sys/cpu"
)

// hasAMX reports whether the process may use AMX, which it asks the system for. Every kernel configures the tiles and
// releases them before it returns: what runs next on the thread is another's, and a system saves tiles that are in use
// at each switch.
func hasAMX() bool {
	return cpu.X86.HasAVX512BF16 && cpu.X86.HasAMXTile && cpu.X86.HasAMXBF16 && allowTiles()
}

// AMX returns the kernels for processors with AMX, from Sapphire Rapids on. They compute prompts in tiles. Other processors
// run them only where package emulate traces the program.
func AMX() *Kernels {
	k := bf16()
	k.Name = "AMX"
	k.prompts = sync.Pool{New: func() any { return newPromptScratch() }}
	k.unit = &matrixUnit{
		turn: turnSumsAMX, supers: roundSupersBF16, split: splitTwoBF16, pairs: fillPairsAMX,
		attention: [2]func(*byte, *float32, uintptr, *byte, uintptr, *byte, uintptr, uintptr, uintptr){pairsTerms1AMX, pairsTerms2AMX},
		weigh:     weighTermsAMX, terms: splitRowBF16,
	}
	bfloat := [2]promptProduct{promptBF161AMX, promptBF162AMX}
	for _, t := range quant.Types() {
		if t.Quantised() {
			k.types[t].prompt = promptTiles{product: bfloat, terms: 1, panel: panelTilesAMX, form: panelForm(t)}
		}
	}
	for t, rows := range map[quant.Type]func(dst *byte, step uintptr, w *byte, rowBytes, n, rows, ahead uintptr){
		quant.Q4_0: tilesQ40AMX, quant.Q8_0: tilesQ80AMX, quant.Q4_K: tilesQ4KAMX, quant.Q5_K: tilesQ5KAMX, quant.Q6_K: tilesQ6KAMX,
	} {
		k.types[t].prompt.rows = rows
	}
	for t, p := range map[quant.Type]promptTiles{
		quant.BF16: {product: bfloat, terms: 1, fill: copyTilesBF16},
		quant.F16:  {product: [2]promptProduct{promptTerms1AMX, promptTerms2AMX}, terms: layout.TileTerms, fill: splitTilesF16},
	} {
		k.types[t].pairs, k.types[t].prompt = pairTiles{}, p
	}
	return k
}

// panelForm returns the form of t's panels.
func panelForm(t quant.Type) uintptr {
	switch scales := t.Traits().Scales; {
	case scales == quant.HalfBlocks:
		return layout.FormHalves
	case scales == quant.NibbleMinima:
		return layout.FormHalfMinima
	case scales == quant.SmallFloats:
		return layout.FormSmall
	case scales.Minima():
		return layout.FormMinima
	}
	return layout.FormScales
}

// splitRowBF16 writes x as layout.ActTerms rows of BF16, and pads the last group with zeros.
func splitRowBF16(dst []byte, x []float32) {
	term := bf16Acts(len(x))
	_ = dst[:layout.ActTerms*term]
	whole := len(x) / bf16Group
	for t := range layout.ActTerms {
		clear(dst[t*term+whole*bf16Group*2 : (t+1)*term])
	}
	if whole > 0 {
		splitThreeBF16(&dst[0], uintptr(term), &x[0], uintptr(whole))
	}
	if rest := x[whole*bf16Group:]; len(rest) > 0 {
		var group [bf16Group]float32
		copy(group[:], rest)
		splitThreeBF16(&dst[whole*bf16Group*2], uintptr(term), &group[0], 1)
	}
}
