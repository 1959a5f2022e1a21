package family

import (
	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/nn"
)

// newExaoneMoE binds K-EXAONE: the plain decoder with routed and shared experts, scored by a sigmoid, with a bias that
// counts for the choice only. Each head of queries and keys is normed. Three of four layers have a window; the others
// do not rotate heads.
//
// Source: LG AI Research 2026, K-EXAONE Technical Report.
func newExaoneMoE(k *nn.Keys, b *nn.Binder) Program {
	m := readMoE(k, moeSpec{
		style: compute.Halves, attention: normHeads,
		experts: nn.ExpertSpec{Routing: compute.Routing{Score: compute.Sigmoid}, ChoiceBias: nn.Optional},
	})
	m.experts.ShareOne()
	m.readWindows(k, nn.WindowSpec{Window: 128, FullEvery: 4})
	rope := m.readRope(k)
	m.windowRope = b.Rope(rope)
	return m.bind(k, b)
}
