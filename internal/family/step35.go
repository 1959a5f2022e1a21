package family

import (
	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/nn"
)

// newStep35 binds Step 3.5 Flash: the plain decoder with routed and shared experts, scored by a sigmoid, with a bias
// that counts for the choice only. Each head of queries and keys is normed, and a gate's sigmoid multiplies what each
// head reads. Layers with windows have more heads and a base of their own. The others rotate half as much of a head,
// with Llama 3's factors in some models. The last layers' activations are capped.
//
// Source: StepFun 2026, Step 3.5 Flash.
func newStep35(k *nn.Keys, b *nn.Binder) Program {
	m := readMoE(k, moeSpec{
		style: compute.Halves, mtp: MTPInputs{Plain: true},
		experts: nn.ExpertSpec{Routing: compute.Routing{Score: compute.Sigmoid}, ChoiceBias: nn.Optional},
		attention: func(m *moe, b *nn.Binder, a *nn.Attention) {
			if b.Has("attn_q_norm.weight") {
				normHeads(m, b, a)
			}
			if b.Has("attn_gate.weight") {
				a.Gate = b.HeadGate(a.Heads, a.Value, m.embd, compute.Logistic)
			}
		},
	})
	m.experts.ShareOne()
	n := len(m.layers) + k.Extra
	routed, others := k.Limits(".swiglu_clamp_exp", n), k.Limits(".swiglu_clamp_shexp", n)
	m.spec.acts = func(m *moe, i int) (_, _ compute.Activation) {
		return nn.Capped(m.act, routed[i]), nn.Capped(m.act, others[i])
	}

	m.readWindows(k, nn.WindowSpec{})
	local := m.readRope(k)
	factors := b.RopeFactors(local)
	full := local
	full.Dims /= 2
	if factors != nil {
		factors = factors[:full.Dims/2]
	}
	m.rope, m.windowRope = b.RopeWith(full, factors), b.RopeWith(k.WindowRope(local, 0), nil)
	return m.bind(k, b)
}
