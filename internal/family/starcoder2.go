package family

import (
	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/nn"
)

// newStarCoder2 binds StarCoder2 and Granite Code's larger models of the same form: LayerNorms, GELU, biases
// everywhere, and a window in every layer.
//
// Source: Lozhkov et al. 2024, StarCoder 2 and The Stack v2.
func newStarCoder2(k *nn.Keys, b *nn.Binder) Program {
	return newLayerNorm(k, b, layerNormSpec{
		act: compute.GELU, rotated: true, window: true,
		normBias: nn.Required, qkvBias: nn.Required, outBias: nn.Required, ffnBias: nn.Required,
	})
}
