package family

import (
	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/nn"
)

// newDeepseek binds DeepSeek's first models with experts: the plain decoder with routed and shared experts.
//
// Source: Dai et al. 2024, DeepSeekMoE: Towards Ultimate Expert Specialization.
func newDeepseek(k *nn.Keys, b *nn.Binder) Program {
	return newMoE(k, b, moeSpec{style: compute.Interleaved, outBias: nn.Optional})
}

// newDeepseekOCR binds the text part of DeepSeek-OCR, which pairs other elements of a head.
func newDeepseekOCR(k *nn.Keys, b *nn.Binder) Program {
	return newMoE(k, b, moeSpec{style: compute.Halves, outBias: nn.Optional})
}
