package family

import (
	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/nn"
)

// newJinaBERTV2 binds version 2 of Jina's embeddings: the encoder with gates, and scores that fall with distance
// (ALiBi).
//
// Source: Günther et al. 2023, Jina Embeddings 2: 8192-Token General-Purpose Text Embeddings for Long Documents.
func newJinaBERTV2(k *nn.Keys, b *nn.Binder) Program {
	return newEncoder(k, b, encoderSpec{
		act: compute.GELU, gated: true, alibi: 8,
		qkvBias: nn.Required, outBias: nn.Required, downBias: nn.Required,
	})
}

// newJinaBERTV3 binds version 3: the encoder with rotated heads and biases everywhere.
//
// Source: Sturua et al. 2024, jina-embeddings-v3: Multilingual Embeddings With Task LoRA.
func newJinaBERTV3(k *nn.Keys, b *nn.Binder) Program {
	return newEncoder(k, b, encoderSpec{
		act: compute.GELU, rotated: true,
		qkvBias: nn.Required, outBias: nn.Required, upBias: nn.Required, downBias: nn.Required,
	})
}
