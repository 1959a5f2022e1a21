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
