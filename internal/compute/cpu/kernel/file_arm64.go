package kernel

import (
	"sync"

	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// The first entries of grids, which kernels read; gridName in gen/neon names them.
var gridIQ2XXS, gridIQ2XS, gridIQ2S, gridIQ3XXS, gridIQ3S, gridIQ1S, gridIQ1M *uint64

// loadGrids has the entries of all grids in memory.
var loadGrids = sync.OnceFunc(func() {
	for t, g := range map[quant.Type]**uint64{
		quant.IQ2_XXS: &gridIQ2XXS, quant.IQ2_XS: &gridIQ2XS, quant.IQ2_S: &gridIQ2S, quant.IQ3_XXS: &gridIQ3XXS, quant.IQ3_S: &gridIQ3S,
		quant.IQ1_S: &gridIQ1S, quant.IQ1_M: &gridIQ1M,
	} {
		*g = &quant.Grid(t)[0]
	}
})
