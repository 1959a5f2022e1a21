package family

import (
	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/nn"
)

// newJais2 binds Jais 2: LayerNorms, biases everywhere, and squared ReLU, which leaves neurons at zero.
func newJais2(k *nn.Keys, b *nn.Binder) Program {
	return newLayerNorm(k, b, layerNormSpec{
		act: compute.ReLU2, rotated: true,
		normBias: nn.Required, qkvBias: nn.Required, outBias: nn.Required, ffnBias: nn.Required,
	})
}
