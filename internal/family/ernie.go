package family

import (
	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/nn"
)

// newErnie binds ERNIE 4.5's models without experts: the plain decoder.
func newErnie(k *nn.Keys, b *nn.Binder) Program {
	return newDecoder(k, b, decoderSpec{style: compute.Interleaved, outBias: nn.Optional})
}

// newErnieMoE binds ERNIE 4.5's models with experts: the plain decoder with routed and shared experts, and a
// bias that counts for the choice only.
func newErnieMoE(k *nn.Keys, b *nn.Binder) Program {
	return newMoE(k, b, moeSpec{
		style: compute.Interleaved, outBias: nn.Optional,
		experts: nn.ExpertSpec{Routing: compute.Routing{Normalised: true}, ChoiceBias: nn.Optional},
	})
}
