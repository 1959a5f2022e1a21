package family

import (
	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/nn"
)

// newMellum binds Mellum 2: the plain decoder with experts, a norm of each head of queries and keys, and a sliding
// window in three of four layers, which do not scale RoPE for long contexts.
//
// Source: JetBrains 2026, the model card of Mellum2-12B-A2.5B.
func newMellum(k *nn.Keys, b *nn.Binder) Program {
	m := readMoE(k, moeSpec{
		style: compute.Halves, outBias: nn.Optional, attention: normHeads,
		experts: nn.ExpertSpec{Routing: compute.Routing{Normalised: true}},
	})
	m.readWindows(k, nn.WindowSpec{FullEvery: 4})
	rope := m.readRope(k)
	factors := b.RopeFactors(rope)
	m.rope, m.windowRope = b.RopeWith(rope, factors), b.RopeWith(rope.Unscaled(), factors)
	return m.bind(k, b)
}
