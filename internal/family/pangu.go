package family

import (
	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/nn"
)

// newPangu binds openPangu Embedded: the plain decoder, with biases of attention's four products.
//
// Source: Chen et al. 2025, Pangu Embedded: An Efficient Dual-system LLM Reasoner with Metacognition.
func newPangu(k *nn.Keys, b *nn.Binder) Program {
	return newDecoder(k, b, decoderSpec{style: compute.Halves, outBias: nn.Optional})
}
