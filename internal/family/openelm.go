package family

import (
	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/nn"
)

// newOpenELM binds OpenELM: layers have more heads and neurons the later they come, and queries and keys are normed in
// each head.
//
// Source: Mehta et al. 2024, OpenELM.
func newOpenELM(k *nn.Keys, b *nn.Binder) Program {
	return newDecoder(k, b, decoderSpec{style: compute.Halves, eps: 1e-6, attention: headNorms})
}
