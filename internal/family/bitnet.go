package family

import (
	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/nn"
)

// newBitNet binds BitNet b1.58: norms before the last products of attention and of feed-forward layers. Matrices may have
// a factor each.
//
// Files of other converters do not say the activation. BitNet b1.58 2B4T, whose tokenizer is Llama 3's, has squared ReLU, the models before
// it, whose tokenizer is Llama 2's, SiLU. (llama.cpp computes SiLU for all.)
//
// Sources: Ma et al. 2024, The Era of 1-bit LLMs; Ma et al. 2025, BitNet b1.58 2B4T Technical Report.
func newBitNet(k *nn.Keys, b *nn.Binder) Program {
	usual := compute.SiLU
	if k.Text("tokenizer.ggml.model", "") == "gpt2" {
		usual = compute.ReLU2
	}
	return newDecoder(k, b, decoderSpec{style: compute.Halves, act: usual, inner: true})
}
