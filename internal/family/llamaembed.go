package family

import (
	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/nn"
)

// newEuroBERT binds EuroBERT: the plain decoder, in which every token sees all others, and hidden states are the
// result.
//
// Source: Boizard et al. 2025, EuroBERT: Scaling Multilingual Encoders for European Languages.
func newEuroBERT(k *nn.Keys, b *nn.Binder) Program {
	return newDecoder(k, b, decoderSpec{style: compute.Halves, outBias: nn.Optional, encodes: true, ranking: nn.PoolCLS})
}

// newLlamaEmbed binds embeddings made of Llama, such as Llama-Embed-Nemotron: bidirectional, too.
func newLlamaEmbed(k *nn.Keys, b *nn.Binder) Program {
	return newDecoder(k, b, decoderSpec{style: compute.Interleaved, outBias: nn.Optional, encodes: true, ranking: nn.PoolMean})
}
