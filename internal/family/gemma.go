package family

import (
	"math"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/nn"
)

// newGemma binds Gemma 1: the plain decoder with GELU and embeddings that are scaled by the square root of their width.
//
// Source: Gemma Team 2024, Gemma: Open Models Based on Gemini Research and Technology.
func newGemma(k *nn.Keys, b *nn.Binder) Program {
	m := newDecoder(k, b, decoderSpec{style: compute.Halves, eps: 1e-6, act: compute.GELU, outBias: nn.Optional})
	m.embed.Scale = float32(math.Sqrt(float64(m.embd)))
	return m
}
