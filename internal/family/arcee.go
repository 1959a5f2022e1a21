package family

import (
	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/nn"
)

// newArcee binds Arcee's AFM: the plain decoder with squared ReLU and without a gate, so that many neurons are zero.
func newArcee(k *nn.Keys, b *nn.Binder) Program {
	return newDecoder(k, b, decoderSpec{style: compute.Interleaved, act: compute.ReLU2, outBias: nn.Optional, ungated: true})
}
