package family

import (
	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/nn"
)

// newOLMoE binds OLMoE: the plain decoder with experts. Queries and keys are normed over all heads together, and files
// may limit queries, keys and values.
//
// Source: Muennighoff et al. 2024, OLMoE: Open Mixture-of-Experts Language Models.
func newOLMoE(k *nn.Keys, b *nn.Binder) Program {
	clamp := float32(k.Within(".attention.clamp_kqv", 0, 0, nn.MaxScale))
	return newMoE(k, b, moeSpec{
		style: compute.Halves, outBias: nn.Optional,
		attention: func(m *moe, b *nn.Binder, a *nn.Attention) {
			wideNorms(m, b, a)
			a.Clamp = clamp
		},
	})
}
