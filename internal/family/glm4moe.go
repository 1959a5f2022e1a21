package family

import (
	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/nn"
)

// newGLM4MoE binds GLM 4.5 and its kin: the plain decoder with routed and shared experts, scored by a sigmoid,
// with a bias that counts for the choice only. A part of each head is rotated, as files say; in the larger models each
// head of queries and keys is normed.
//
// Source: GLM-4.5 Team 2025, GLM-4.5: Agentic, Reasoning, and Coding Foundation Models.
func newGLM4MoE(k *nn.Keys, b *nn.Binder) Program {
	return newMoE(k, b, moeSpec{
		style: compute.Halves, outBias: nn.Optional, ffnNorm: "post_attention_norm",
		experts: nn.ExpertSpec{Routing: compute.Routing{Score: compute.Sigmoid}, ChoiceBias: nn.Required},
		attention: func(m *moe, b *nn.Binder, a *nn.Attention) {
			if b.Has("attn_q_norm.weight") {
				normHeads(m, b, a)
			}
		},
	})
}
