package family

import (
	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/nn"
)

// newMistral3 binds the text part of Mistral Small 3.1 and 3.2 and of Ministral 3: the plain decoder. Ministral 3 has
// queries that grow with their position.
func newMistral3(k *nn.Keys, b *nn.Binder) Program {
	temperature := k.Temperature(".rope.scaling.original_context_length")
	return newDecoder(k, b, decoderSpec{
		style: compute.Interleaved, outBias: nn.Optional,
		attention: func(_ *decoder, _ *nn.Binder, a *nn.Attention, _ int) { a.Temperature = temperature },
	})
}
