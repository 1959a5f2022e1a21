package family

import (
	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/nn"
)

// newOrion binds Orion: LayerNorms before attention and before SwiGLU.
//
// Source: Chen et al. 2024, Orion-14B: Open-source Multilingual Large Language Models.
func newOrion(k *nn.Keys, b *nn.Binder) Program {
	return newLayerNorm(k, b, layerNormSpec{act: compute.SiLU, gated: true, rotated: true, normBias: nn.Required})
}
