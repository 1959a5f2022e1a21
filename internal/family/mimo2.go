package family

import (
	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/nn"
)

// newMiMo2 binds MiMo-V2-Flash and its kin: the plain decoder with experts. Experts are scored by a sigmoid, with a
// bias that counts only for the choice. Values are narrower than keys, and attention's output has a factor. Most layers
// have windows, their own RoPE base and numbers of KV heads, and sinks: scores of heads that take a share of attention
// and have no value.
//
// Source: Xiaomi 2026, MiMo-V2-Flash Technical Report.
func newMiMo2(k *nn.Keys, b *nn.Binder) Program {
	scale := k.Factor(".attention.value_scale", 1)
	m := readMoE(k, moeSpec{
		style: compute.Halves, mtp: MTPInputs{Plain: true, Model: true},
		experts: nn.ExpertSpec{Routing: compute.Routing{Score: compute.Sigmoid}, ChoiceBias: nn.Optional},
		attention: func(_ *moe, b *nn.Binder, a *nn.Attention) {
			a.Scale = scale
			if b.Has("attn_sinks.weight") {
				a.Scores.Sinks = b.Vector("attn_sinks.weight", a.Heads)
			}
		},
	})
	m.experts.Routing.Score, m.experts.Routing.Normalised = compute.Sigmoid, true // whatever files say
	m.readWindows(k, nn.WindowSpec{FullEvery: 6})
	rope := m.readRope(k)
	m.rope, m.windowRope = b.RopeWith(rope, nil), b.RopeWith(k.WindowRope(rope, 0), nil)
	return m.bind(k, b)
}
