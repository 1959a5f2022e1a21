package family

import (
	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/nn"
)

// newXverse binds XVERSE: the plain decoder, with as many key and value heads as query heads.
//
// Source: XVERSE Technology 2023, the model cards of XVERSE-7B, 13B and 65B.
func newXverse(k *nn.Keys, b *nn.Binder) Program {
	return newDecoder(k, b, decoderSpec{style: compute.Interleaved})
}
