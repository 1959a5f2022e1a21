package family

import (
	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/nn"
)

// newOLMo binds OLMo 1: LayerNorms without weights before attention and before SwiGLU. Files may clamp queries, keys
// and values.
//
// Source: Groeneveld et al. 2024, OLMo: Accelerating the Science of Language Models.
func newOLMo(k *nn.Keys, b *nn.Binder) Program {
	return newLayerNorm(k, b, layerNormSpec{act: compute.SiLU, gated: true, rotated: true, neighbours: true, bare: true, clamped: true})
}
