package family

import (
	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/nn"
)

// newGPT2 binds GPT-2: learned positions, GELU, biases everywhere.
//
// Source: Radford et al. 2019, Language Models are Unsupervised Multitask Learners.
func newGPT2(k *nn.Keys, b *nn.Binder) Program {
	return newLayerNorm(k, b, layerNormSpec{
		act: compute.GELU, positions: nn.Required,
		normBias: nn.Required, qkvBias: nn.Required, outBias: nn.Required, ffnBias: nn.Required,
	})
}
