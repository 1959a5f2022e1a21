package family

import (
	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/nn"
)

// newQwen2 binds Qwen 2 and 2.5, and the text part of Qwen2-VL and Qwen2.5-VL: the plain decoder with biases of queries,
// keys and values.
func newQwen2(k *nn.Keys, b *nn.Binder) Program {
	return newDecoder(k, b, decoderSpec{style: compute.Halves, qkvBias: nn.Required, outBias: nn.Optional})
}
