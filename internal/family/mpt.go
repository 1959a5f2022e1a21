package family

import (
	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/nn"
)

// newMPT binds MPT: ALiBi or learned positions, as files have it, GELU, limits of queries, keys and values, and biases
// that files may lack.
func newMPT(k *nn.Keys, b *nn.Binder) Program {
	return newLayerNorm(k, b, layerNormSpec{
		act: compute.GELU, positions: nn.Optional, clamped: true,
		normBias: nn.Optional, qkvBias: nn.Optional, outBias: nn.Optional, ffnBias: nn.Optional,
	})
}
