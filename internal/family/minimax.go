package family

import (
	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/nn"
)

// newMiniMaxM2 binds MiniMax M2: the plain decoder with experts, scored by a sigmoid, with a bias that counts for the
// choice only. Queries and keys are normed over all heads together, and a part of each head is rotated, as files say.
func newMiniMaxM2(k *nn.Keys, b *nn.Binder) Program {
	return newMoE(k, b, moeSpec{
		style: compute.Halves, outBias: nn.Optional, attention: wideNorms,
		experts: nn.ExpertSpec{Routing: compute.Routing{Score: compute.Sigmoid, Normalised: true}, ChoiceBias: nn.Required},
	})
}
