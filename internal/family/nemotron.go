package family

import (
	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/nn"
)

// newNemotron binds Nemotron 3 and 4 and Minitron: LayerNorms, a part of each head rotated, as files say, and squared
// ReLU, which leaves neurons at zero.
//
// Source: NVIDIA 2024, Nemotron-4 340B Technical Report.
func newNemotron(k *nn.Keys, b *nn.Binder) Program {
	return newLayerNorm(k, b, layerNormSpec{
		act: compute.ReLU2, rotated: true,
		normBias: nn.Required, qkvBias: nn.Optional, outBias: nn.Optional, ffnBias: nn.Optional,
	})
}
