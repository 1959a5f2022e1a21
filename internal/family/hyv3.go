package family

import (
	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/nn"
)

// newHyV3 binds Hy3: the plain decoder with routed and shared experts, scored by a sigmoid, with a bias that counts for
// the choice only, and a norm of each head of queries and keys.
//
// Source: Tencent 2026, the model card and configuration of Hy3.
func newHyV3(k *nn.Keys, b *nn.Binder) Program {
	m := readMoE(k, moeSpec{
		style: compute.Halves, outBias: nn.Optional, attention: normHeads,
		experts: nn.ExpertSpec{Routing: compute.Routing{Score: compute.Sigmoid}, ChoiceBias: nn.Optional},
	})
	m.experts.ShareOne()
	rope := m.readRope(k)
	m.rope = b.Rope(rope)
	return m.bind(k, b)
}
