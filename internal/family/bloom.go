package family

import (
	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/nn"
)

// newBloom binds BLOOM: scores that fall with distance (ALiBi), a norm of embeddings, GELU, biases everywhere.
//
// Source: BigScience Workshop 2022, BLOOM: A 176B-Parameter Open-Access Multilingual Language Model.
func newBloom(k *nn.Keys, b *nn.Binder) Program {
	return newLayerNorm(k, b, layerNormSpec{
		act: compute.GELU, embedNorm: true, alibi: 8,
		normBias: nn.Required, qkvBias: nn.Required, outBias: nn.Required, ffnBias: nn.Required,
	})
}
