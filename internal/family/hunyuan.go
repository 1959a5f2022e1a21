package family

import (
	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/nn"
)

// newHunyuanDense binds Hunyuan's models without experts: the plain decoder with a norm of each head of queries and
// keys, after its rotation.
func newHunyuanDense(k *nn.Keys, b *nn.Binder) Program {
	return newDecoder(k, b, decoderSpec{
		style: compute.Halves, outBias: nn.Optional,
		attention: func(m *decoder, b *nn.Binder, a *nn.Attention, _ int) {
			a.QNorm, a.KNorm = b.HeadNorm("attn_q_norm", a.Key, m.eps), b.HeadNorm("attn_k_norm", a.Key, m.eps)
			a.RotateFirst = true
		},
	})
}

// newHunyuanMoE binds Hunyuan A13B: the plain decoder with routed experts, as wide as feed_forward_length says, and a
// shared one. Queries and keys are normed as in the models without experts.
//
// Source: Tencent 2025, Hunyuan-A13B Technical Report.
func newHunyuanMoE(k *nn.Keys, b *nn.Binder) Program {
	m := readMoE(k, moeSpec{
		style: compute.Halves, outBias: nn.Optional,
		attention: func(m *moe, b *nn.Binder, a *nn.Attention) {
			normHeads(m, b, a)
			a.RotateFirst = true
		},
		experts: nn.ExpertSpec{Routing: compute.Routing{Normalised: true}},
	})
	m.experts.Neurons, m.experts.Routing.Normalised = m.ff(), true // whatever files say
	m.experts.ShareOne()
	rope := m.readRope(k)
	m.rope = b.Rope(rope)
	return m.bind(k, b)
}
