package family

import (
	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/nn"
)

// newBailingMoE binds Ling Lite and Plus: the plain decoder with routed and shared experts. All elements of a head are
// rotated.
//
// Source: Ling Team 2025, Every FLOP Counts: Scaling a 300B Mixture-of-Experts LING LLM without Premium GPUs.
func newBailingMoE(k *nn.Keys, b *nn.Binder) Program {
	rotated := k.Optional(".rope.dimension_count", nn.MaxWidth)
	m := readMoE(k, moeSpec{style: compute.Interleaved, outBias: nn.Optional})
	for i := range m.layers {
		if l := &m.layers[i]; rotated > 0 {
			l.Key, l.Value = rotated, rotated
		}
	}
	return m.rotate(k, b).bind(k, b)
}

// newBailingMoE2 binds Ling and Ring 2.0 and Sarvam: the plain decoder with routed and shared experts, scored by a
// sigmoid, with a bias that counts for the choice only. Each head of queries and keys is normed and, as files say,
// rotated in part.
//
// Source: Ling Team 2025, Every Activation Boosted: Scaling General Reasoner to 1 Trillion Open Language Foundation.
func newBailingMoE2(k *nn.Keys, b *nn.Binder) Program {
	return newMoE(k, b, moeSpec{
		style: compute.Halves, outBias: nn.Optional, attention: normHeads,
		experts: nn.ExpertSpec{Routing: compute.Routing{Score: compute.Sigmoid}, ChoiceBias: nn.Optional},
	})
}
