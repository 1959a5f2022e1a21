package family

import (
	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/nn"
)

// newSmolLM3 binds SmolLM3: the plain decoder without rotation in every fourth layer.
func newSmolLM3(k *nn.Keys, b *nn.Binder) Program {
	return newDecoder(k, b, decoderSpec{
		style: compute.Interleaved, outBias: nn.Optional,
		attention: func(_ *decoder, _ *nn.Binder, a *nn.Attention, i int) {
			if (i+1)%4 == 0 {
				a.Rope = nil
			}
		},
	})
}
