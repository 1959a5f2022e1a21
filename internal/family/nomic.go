package family

import (
	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/nn"
)

// newNomicBERT binds Nomic's embeddings: the encoder with rotated heads and SwiGLU, and no biases but the norms'.
//
// Source: Nussbaum et al. 2024, Nomic Embed: Training a Reproducible Long Context Text Embedder.
func newNomicBERT(k *nn.Keys, b *nn.Binder) Program {
	return newEncoder(k, b, encoderSpec{act: compute.SiLU, gated: true, rotated: true})
}

// newNomicBERTMoE binds version 2: the encoder with rotated heads, GELU without gates, and biases. Every second layer
// has experts, weighed by a softmax over all of them.
//
// Source: Nussbaum and Duderstadt 2025, Training Sparse Mixture Of Experts Text Embedding Models.
func newNomicBERTMoE(k *nn.Keys, b *nn.Binder) Program {
	return newEncoder(k, b, encoderSpec{act: compute.GELU, rotated: true, outBias: nn.Optional, upBias: nn.Optional, downBias: nn.Optional})
}
