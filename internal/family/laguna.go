package family

import (
	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/nn"
)

// newLaguna binds Laguna: the plain decoder with routed and shared experts, scored by a sigmoid, with a bias that
// counts for the choice only. Each head of queries and keys is normed, and the heads' output is multiplied by the
// softplus of a gate. The first of four layers sees all positions, with YaRN on a part of each head; the others have
// sliding windows, more heads in some models, and another rotation. The largest model has no windows.
//
// Source: poolside 2026, the model cards and configurations of Laguna.
func newLaguna(k *nn.Keys, b *nn.Binder) Program {
	m := readMoE(k, moeSpec{
		style:   compute.Halves,
		experts: nn.ExpertSpec{Routing: compute.Routing{Score: compute.Sigmoid}, ChoiceBias: nn.Required},
		attention: func(m *moe, b *nn.Binder, a *nn.Attention) {
			normHeads(m, b, a)
			a.Gate = b.HeadGate(a.Heads, a.Value, m.embd, compute.Softplus)
		},
	})
	m.experts.ShareOne()
	m.readWindows(k, nn.WindowSpec{FullEvery: 4, FullFirst: true})
	rope := m.readRope(k)
	local := k.WindowRope(rope.Unscaled(), 0)
	local.Dims = k.Count(".rope.dimension_count_swa", rope.Dims, nn.MaxWidth)
	m.rope, m.windowRope = b.RopeWith(rope, nil), b.RopeWith(local, nil)
	return m.bind(k, b)
}
