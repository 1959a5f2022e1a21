package family

import (
	"slices"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/nn"
)

// newMaple binds Maple: the plain decoder with experts and a norm of each head of queries and keys. Most layers have a
// window; the others do not rotate heads. Experts' gates and ups are limited.
//
// Source: deepgrove 2026, the configuration and model card of maple-preview.
func newMaple(k *nn.Keys, b *nn.Binder) Program {
	m := readMoE(k, moeSpec{
		style: compute.Halves, outBias: nn.Optional, attention: normHeads,
		experts: nn.ExpertSpec{Routing: compute.Routing{Normalised: true}},
	})
	limits := k.Limits(".swiglu_clamp_exp", len(m.layers)+k.Extra)
	m.spec.acts = func(m *moe, i int) (routed, others compute.Activation) {
		routed = m.act
		if limits[i] > 0 && routed.Kind == compute.SiLU {
			routed.Kind, routed.Limit = compute.LimitedSwiGLU, limits[i]
		}
		return routed, m.act
	}
	m.readWindows(k, nn.WindowSpec{FullEvery: 4})
	rope := m.readRope(k)
	if !slices.Contains(m.windowed, true) {
		m.rope = b.RopeWith(rope, nil)
	}
	m.windowRope = b.RopeWith(k.WindowRope(rope, 0), nil)
	return m.bind(k, b)
}
