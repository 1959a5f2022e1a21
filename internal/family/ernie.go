package family

import (
	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/nn"
)

// newErnie binds ERNIE 4.5's models without experts: the plain decoder.
func newErnie(k *nn.Keys, b *nn.Binder) Program {
	return newDecoder(k, b, decoderSpec{style: compute.Interleaved, outBias: nn.Optional})
}
