package family

import (
	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/nn"
)

// newBamboo binds Bamboo: the plain decoder with dReLU, which leaves most neurons at zero.
func newBamboo(k *nn.Keys, b *nn.Binder) Program {
	return newDecoder(k, b, decoderSpec{style: compute.Interleaved, act: compute.DReLU, original: "drelu", outBias: nn.Optional})
}
