package family

import (
	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/nn"
)

// newDots1 binds dots.llm1: the plain decoder with routed and shared experts, scored by a sigmoid, with a bias that
// counts for the choice only. Each head of queries and keys is normed, and each query head has keys and values of its
// own.
//
// Source: Huo et al. 2025, dots.llm1 Technical Report.
func newDots1(k *nn.Keys, b *nn.Binder) Program {
	m := readMoE(k, moeSpec{
		style: compute.Halves, outBias: nn.Optional, attention: normHeads,
		experts: nn.ExpertSpec{Routing: compute.Routing{Score: compute.Sigmoid}, ChoiceBias: nn.Optional},
	})
	for i := range m.layers {
		m.layers[i].KVHeads = m.layers[i].Heads
	}
	return m.rotate(k, b).bind(k, b)
}
