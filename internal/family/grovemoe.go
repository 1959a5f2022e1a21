package family

import (
	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/nn"
)

// newGroveMoE binds GroveMoE: Qwen 3 with experts, and for each few neighbouring experts a small one that they share.
// It reads the same input and has their weights, and a small part of its output is added. In llama.cpp the small
// experts read the others' output, with other weights; here they compute as the published code does.
//
// Source: Wu et al. 2025, Grove MoE, and its published code.
func newGroveMoE(k *nn.Keys, b *nn.Binder) Program {
	per, scale := k.Count(".experts_per_group", 2, nn.MaxExperts), float32(k.Within(".expert_group_scale", 0.05, 0, nn.MaxScale))
	return newMoE(k, b, moeSpec{
		style:     compute.Halves,
		act:       compute.Activation{Kind: compute.SiLU},
		experts:   nn.ExpertSpec{Routing: compute.Routing{Normalised: true}},
		attention: normHeads,
		group: func(m *moe, b *nn.Binder, x *nn.Experts) {
			b.GroupExperts(x, m.embd, k.Count(".expert_chunk_feed_forward_length", m.key(), nn.MaxWidth), per, m.act, scale)
		},
	})
}
