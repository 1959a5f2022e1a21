package family

import (
	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/nn"
)

// newChatGLM binds ChatGLM 2 and 3 and GLM 4 9B of 2024: the plain decoder. Half of each head is rotated, as files say.
func newChatGLM(k *nn.Keys, b *nn.Binder) Program {
	return newDecoder(k, b, decoderSpec{style: compute.Interleaved})
}
