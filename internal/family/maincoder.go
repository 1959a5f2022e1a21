package family

import (
	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/nn"
)

// newMaincoder binds Maincoder: the plain decoder, with a norm of every head of queries and keys after the rotation.
//
// Source: Maincode 2025, the model card of Maincoder-1B.
func newMaincoder(k *nn.Keys, b *nn.Binder) Program {
	return newDecoder(k, b, decoderSpec{
		style: compute.Interleaved,
		attention: func(m *decoder, b *nn.Binder, a *nn.Attention, _ int) {
			a.QNorm, a.KNorm = b.HeadNorm("attn_q_norm", a.Key, m.eps), b.HeadNorm("attn_k_norm", a.Key, m.eps)
			a.RotateFirst = true
		},
	})
}
