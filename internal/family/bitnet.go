package family

import (
	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/nn"
)

// newBitNet binds BitNet b1.58: norms before the last products of attention and of feed-forward layers. Each matrix may
// have a factor.
//
// Files of other converters do not say the activation. BitNet b1.58 2B4T, with Llama 3's tokenizer, has squared ReLU;
// earlier models, with Llama 2's tokenizer, have SiLU. (llama.cpp computes SiLU for all.)
//
// Sources: Ma et al. 2024, The Era of 1-bit LLMs; Ma et al. 2025, BitNet b1.58 2B4T Technical Report.
func newBitNet(k *nn.Keys, b *nn.Binder) Program {
	usual := compute.SiLU
	if k.Text("tokenizer.ggml.model", "") == "gpt2" {
		usual = compute.ReLU2
	}
	return newDecoder(k, b, decoderSpec{style: compute.Halves, act: usual, inner: true})
}
