package family

import (
	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/nn"
)

// newOPT binds OPT: learned positions, with two unused rows at the beginning of the table, ReLU, and biases everywhere.
//
// Source: Zhang et al. 2022, OPT: Open Pre-trained Transformer Language Models.
func newOPT(k *nn.Keys, b *nn.Binder) Program {
	return newLayerNorm(k, b, layerNormSpec{
		act: compute.ReLU, original: "relu", positions: nn.Required, before: 2,
		normBias: nn.Required, qkvBias: nn.Required, outBias: nn.Required, ffnBias: nn.Required,
	})
}
